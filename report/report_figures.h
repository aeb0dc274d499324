/* Internal to report/: the figures of a record in a document. */
#pragma once

#include "base/document.h"
#include "report/report_scan.h"

/* Write the pictures of an item in the order of figures_order. The first shows the main result and
 * belongs near the headline; the others are folded. Both write nothing if there are none. */
void figures_first(struct writer *w, const struct item *item);
void figures_rest(struct writer *w, const struct item *item);

/* Returns whether a report shows the picture `figure` ("loss.svg") of an item of this kind. For a
 * folder of runs (ITEM_RUNS), a report shows only the learning curves, because times are compared
 * by studies. */
bool figure_is_shown(enum item_kind kind, const char *figure);

/* Sorts names of pictures in the order in which a report shows them: first the main results of a
 * study or of runs, then the others by name. */
void figures_order(char **figures, int n);
