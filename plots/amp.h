/* Drawing an AMP report: the record in, PNG and SVG out.
 *
 *   amp   share of the gradients per power of two, those of activations and those of weights, and
 *         the ranges of fp16 at loss scale 1 and at the current scale
 *
 * Scripts and tables stay in "<dir>/data", as for the figures of runs. */
#ifndef PLOTS_AMP_H
#define PLOTS_AMP_H

#include "plots/plot.h"

/* Draws "<dir>/amp-report.json" beside it. STATUS_DATA when there is none, when it is damaged, or
 * when it holds no gradient; STATUS_UNSUPPORTED when gnuplot is not installed, with script and
 * tables in place. */
MUST_CHECK enum status plot_amp_report(const char *dir, const struct plot_options *options);
#endif
