/* Dividing a figure of many lines into readable panels. Internal to plots/.
 *
 * A figure of more than STUDY_PANEL_LINES lines is divided by one or two keys. Lines with equal
 * values of these keys share a panel. All panels have a common legend, whose entries contain the
 * keys that do not divide the figure. A published line shares a panel only with lines of the same
 * network, precision and data. If there are no such lines, the published line has its own panel. */
#pragma once

#include "plots/study_line.h"

enum { STUDY_PANEL_LINES = 6, STUDY_NO_PANEL = -1 };

struct study_panels {
    int n;                                         /* at least 1 */
    char title[STUDY_LINES_MAX][FIGURE_LABEL_MAX]; /* (n) "" if there is only one panel */
    int panel[STUDY_LINES_MAX];                    /* (lines) the panel of each line, or
                                                    * STUDY_NO_PANEL */
    int n_entries; /* number of entries of the legend. If there is only one panel, the legend has an
                    * entry for every line, even for a line that is not drawn */
    char label[STUDY_LINES_MAX][FIGURE_LABEL_MAX]; /* (n_entries) */
    int entry[STUDY_LINES_MAX];                    /* (lines) index in label[] of each line that is
                                                    * in a panel */
};

/* Divides the lines of a figure into panels; `drawn` marks them (an entry for each line). If there
 * are too many lines for one panel, takes the first division that meets two conditions: no panel
 * has more than STUDY_PANEL_LINES lines, and some panel has at least two lines. Divisions by one
 * key are tried before divisions by two keys. The key `first` is tried first; the order of the
 * other keys is network, data, precision, scaling, mode. If no division meets the conditions, takes
 * the division whose fullest panel has the fewest lines, or makes one panel.
 *
 * Panels are sorted by the value of the first key, then of the second. Last come the panels of
 * published lines. */
void study_panels_choose(const struct study_lines *l, const bool drawn[], enum study_key first,
                         struct study_panels *p);

/* Sets entry[i] to the name of line i in the legends. The lines of the study come first, then the
 * published lines. */
MUST_CHECK enum status study_entries(const struct analysis *a,
                                     const struct published_series *const *published, int n,
                                     char entry[STUDY_LINES_MAX][FIGURE_LABEL_MAX]);

/* Returns whether the ideal of line i must be drawn. It need not be drawn if the ideal of another
 * line in the panel covers it. */
bool study_panels_ideal(const struct study_panels *p, const struct study_lines *l, int i,
                        enum quantity q);
