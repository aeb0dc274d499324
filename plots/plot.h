/* Drawing runs: records in, PNG and SVG out.
 *
 *   loss, top1, top5   training (dashed) and validation (solid) against the epoch; against the step
 *                      while no run has finished more than three epochs
 *   lr                 learning rate against the epoch
 *   loss_scale         loss scale against the step, with the steps that overflow skipped
 *   throughput         images per second of each step, and their running median, against time
 *   io                 bytes and files read per second, and decode time per image, against time
 *   split              where a typical step's time goes, a bar a run
 *   telemetry          power, temperature and clock of the devices, and throttling, against time
 *   ranks              where each rank's time goes, for runs of several: the slowest is marked
 *
 * Each figure is drawn by gnuplot from a script and tables that stay in "<out>/data", so that it
 * can be changed by hand and drawn again. Colours are those of Okabe and Ito, "Color universal
 * design", 2008; dashes and point shapes tell curves apart without them. */
#ifndef PLOTS_PLOT_H
#define PLOTS_PLOT_H

#include "base/status.h"
#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_MAX_RUNS = 16 };

struct plot_options {
    bool png, svg;     /* at least one */
    const char *title; /* put in front of each figure's own title; NULL: none */
    double ema;        /* weight of the past in the curves against epochs, 0 (none) <= ema < 1 */
    const char *const *names; /* (runs) in legends; NULL: configuration and folder */
    FILE *written;            /* gets a line for each picture; NULL: none */
    FILE *left_out;           /* gets a line with what there was nothing to draw of; NULL: none */
};

/* Draws `n` runs (1 to PLOT_MAX_RUNS) into the folder `out`, made if need be, over what an earlier
 * call left there. STATUS_DATA when the runs hold nothing at all to draw; STATUS_UNSUPPORTED when
 * gnuplot is not installed, with the scripts and tables in place. */
MUST_CHECK enum status plot_runs(const struct run *const *runs, int n, const char *out,
                                 const struct plot_options *options);
#endif
