/* Cutting a figure of many lines into panels that can be read. For plots/ alone.
 *
 * A figure of more than STUDY_PANEL_LINES lines is cut by one key or by two: lines that agree in
 * these share a panel, and what is left tells them apart in a legend that all panels have in
 * common. Published lines lack most keys, and stand in every panel to compare with. */
#ifndef PLOTS_STUDY_PANELS_H
#define PLOTS_STUDY_PANELS_H

#include "plots/study_line.h"

enum { STUDY_PANEL_LINES = 6, STUDY_EVERY_PANEL = -1, STUDY_NO_PANEL = -2 };

struct study_panels {
    int n;                                         /* at least 1 */
    char title[STUDY_LINES_MAX][FIGURE_LABEL_MAX]; /* (n) "" where there is one */
    int panel[STUDY_LINES_MAX];                    /* (lines) or one of the two above */
    int n_entries; /* of the legend: in a figure of one panel its lines, drawn or not */
    char label[STUDY_LINES_MAX][FIGURE_LABEL_MAX]; /* (n_entries) */
    int entry[STUDY_LINES_MAX];                    /* (lines) where `panel` is not none */
};

/* `drawn` (lines) says which lines are in the figure. Of all cuts that leave few enough lines to a
 * panel, the first by the order of keys is taken: first `first`, then those whose lines have least
 * to say to each other (network, data, precision, scaling, mode), one key rather than two. Where
 * none does, the one that leaves the fewest. Panels go by the values of one key, within these by
 * those of the other, in the order of the lines. */
void study_panels_choose(const struct study_lines *l, const bool drawn[], enum study_key first,
                         struct study_panels *p);

/* Whether line i's ideal has to be drawn: it does not lie on another's of the same panel. */
bool study_panels_ideal(const struct study_panels *p, const struct study_lines *l, int i,
                        enum quantity q);

#endif
