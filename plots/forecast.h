/* Drawing the record of `ampscale predict --json`, as PNG and SVG.
 *
 *   forecast   against ranks: throughput with its spread, efficiency, and what a step is made of;
 *              measured points on the same axes, those that were held out apart
 *
 * Script and tables stay in "<out>/data", as for the figures of runs. */
#ifndef PLOTS_FORECAST_H
#define PLOTS_FORECAST_H

#include "plots/plot.h"

/* Draws the record in the file `path` into the folder `out`, made if need be. STATUS_DATA when it
 * is no such record, or damaged; STATUS_UNSUPPORTED when gnuplot is not installed, with script and
 * tables in place. */
MUST_CHECK enum status plot_forecast(const char *path, const char *out,
                                     const struct plot_options *options);
#endif
