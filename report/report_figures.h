/* Internal to report/: the figures of a record in a document. */
#pragma once

#include "base/document.h"
#include "report/report_scan.h"

/* Write the pictures of an item: first the main results of a study or of runs, then the others by
 * name. The first picture belongs near the headline; the others are folded. Both functions write
 * nothing if there are none. */
void figures_first(struct writer *w, const struct item *item);
void figures_rest(struct writer *w, const struct item *item);

/* Returns whether a report shows the picture `figure` ("loss.svg") of an item of this kind. For a
 * folder of runs (ITEM_RUNS), a report shows only the learning curves, because times are compared
 * by studies. */
bool figure_is_shown(enum item_kind kind, const char *figure);
