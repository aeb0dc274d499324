/* Internal to report/: draws the figures of a record, and loads its runs. */
#pragma once

#include "plots/plot.h"
#include "report/report_scan.h"

/* Draws the figures of an item, with the colours of `palette`, into the item's folder of figures.
 * STATUS_UNSUPPORTED without gnuplot; STATUS_DATA for a record without a figure. */
MUST_CHECK enum status item_draw(const struct item *item, const struct plot_size *size,
                                 struct palette *palette);

/* Returns whether a report shows the picture `figure` ("loss.svg") of an item of this kind. Of an
 * item of kind ITEM_RUNS, a report shows only learning curves, because studies compare times. */
bool figure_is_shown(enum item_kind kind, const char *figure);

/* Sorts names of pictures as a report shows them: first a study's main results, then the others,
 * sorted by name. */
void figures_order(char **figures, int n);

/* The runs of an item, sorted by name; at most REPORT_MAX_RUNS. */
struct runs {
    int n;
    struct run *v[REPORT_MAX_RUNS]; /* (n) */
    struct table damaged;           /* list of the errors of damaged runs, which are not in `v` */
};
MUST_CHECK enum status runs_load(const struct item *item, struct runs *runs);
void runs_free(struct runs *runs);
