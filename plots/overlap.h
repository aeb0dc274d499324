/* Drawing the record of `ampscale bench overlap --json`, as PNG and SVG.
 *
 *   overlap   against the bucket size: the time until gradients are sums, with its spread, over the
 *             backward pass without partners; and the share of communication that is hidden
 *
 * Script and table stay in "<out>/data", as for the figures of runs. */
#ifndef PLOTS_OVERLAP_H
#define PLOTS_OVERLAP_H

#include "plots/plot.h"

/* Draws the record in the file `path` into the folder `out`, made if need be. STATUS_DATA when it
 * is no such record, or damaged; STATUS_UNSUPPORTED when gnuplot is not installed, with script and
 * table in place. */
MUST_CHECK enum status plot_overlap(const char *path, const char *out,
                                    const struct plot_options *options);
#endif
