/* Dividing a figure of many lines into readable panels. Internal to plots/.
 *
 * A figure of more than STUDY_PANEL_LINES lines is divided by one or two keys: lines with equal
 * values of these keys share a panel, and a legend common to all panels has the other keys. A
 * published line shares a panel only with lines of the same network, precision and data. If there
 * are no such lines, the published line has its own panel. */
#pragma once

#include "plots/study_line.h"

enum { STUDY_PANEL_LINES = 6, STUDY_NO_PANEL = -1 };

struct study_panels {
    int n;                                         /* at least 1 */
    char title[STUDY_LINES_MAX][FIGURE_LABEL_MAX]; /* (n) "" if there is one panel */
    int panel[STUDY_LINES_MAX];                    /* (lines) the panel of each line, or
                                                    * STUDY_NO_PANEL */
    int n_entries; /* number of entries of the legend; the legend of a single panel has an entry for
                    * every line, even if the line is not drawn */
    char label[STUDY_LINES_MAX][FIGURE_LABEL_MAX]; /* (n_entries) */
    int entry[STUDY_LINES_MAX];                    /* (lines) index in label[] of each line that is
                                                    * in a panel */
};

/* Divides the lines of a figure, which `drawn` (lines) marks, into panels. If there are too many
 * lines for one panel, takes the first division in which no panel has too many lines and some panel
 * has at least two lines. Divisions by one key precede divisions by two; `first` precedes the other
 * keys, which are in the order network, data, precision, scaling, mode. If no division meets the
 * conditions, takes the division whose fullest panel has the fewest lines, or one panel. Panels are
 * in the order of the values of one key, then of the other, then of the published lines that have
 * panels of their own. */
void study_panels_choose(const struct study_lines *l, const bool drawn[], enum study_key first,
                         struct study_panels *p);

/* Sets entry[i] to the name that line i has in the legends. The lines of the study come before the
 * published lines. */
MUST_CHECK enum status study_entries(const struct analysis *a,
                                     const struct published_series *const *published, int n,
                                     char entry[STUDY_LINES_MAX][FIGURE_LABEL_MAX]);

/* Returns whether the line of perfect scaling that belongs to line i must be drawn. It need not be
 * drawn if another line in the panel has the same line of perfect scaling. */
bool study_panels_ideal(const struct study_panels *p, const struct study_lines *l, int i,
                        enum quantity q);
