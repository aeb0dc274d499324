/* Internal to report/: draws the figures of a record, and loads its runs. */
#pragma once

#include "plots/plot.h"
#include "report/report_scan.h"

/* Draws the figures of an item, with the colours of `palette`, into the item's folder of figures.
 * Returns STATUS_UNSUPPORTED if gnuplot is missing, and STATUS_DATA if the record has no figure. */
MUST_CHECK enum status item_draw(const struct item *item, const struct plot_size *size,
                                 struct palette *palette);

/* The runs of an item, sorted by name; at most REPORT_MAX_RUNS. */
struct runs {
    int n;
    struct run *v[REPORT_MAX_RUNS]; /* (n) */
    struct table damaged;           /* errors of the damaged runs; `v` lacks these runs */
};
MUST_CHECK enum status runs_load(const struct item *item, struct runs *runs);
void runs_free(struct runs *runs);
