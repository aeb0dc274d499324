/* Drawing the record of `ampscale trend --json`, as PNG and SVG: a panel for each series with its
 * points in the order in which they were recorded, the level between steps, and where those are.
 *
 * Script and tables stay in "<out>/data", as for the figures of runs. */
#ifndef PLOTS_TREND_H
#define PLOTS_TREND_H

#include "plots/plot.h"

/* More series than this are left out: the record has them first by configuration. */
enum { PLOT_TREND_SERIES_MAX = 6 };

/* Draws the record in the file `path` into the folder `out`, made if need be. STATUS_DATA when it
 * is no such record, or damaged; STATUS_UNSUPPORTED when gnuplot is not installed, with script and
 * tables in place. */
MUST_CHECK enum status plot_trend(const char *path, const char *out,
                                  const struct plot_options *options);
#endif
