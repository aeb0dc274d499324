/* Drawing studies of scaling: analysis.json and published tables in, PNG and SVG out.
 *
 *   training_throughput   images per second against devices, with ideal lines
 *   training_time         seconds of the whole training against devices, with ideal lines
 *   efficiency            of perfect scaling, by throughput and by the whole training's time
 *   scaling_weak          images per second and device, where a device's batch stays the same
 *   scaling_strong        speed-up, where the batch of all devices together stays the same
 *   accuracy              top-1 and top-5 of the last validation against devices
 *   cell_split            where a step's time goes, a bar a cell
 *
 * Where there are many series, figures of lines are cut into panels with the same axes
 * (study_panels.h). Bars are 95 % intervals of the median over repeats, where there are several.
 * Scripts and tables stay in "<out>/data", as for the figures of runs. */
#ifndef PLOTS_STUDY_H
#define PLOTS_STUDY_H

#include "plots/plot.h"
#include "results/analysis.h"
#include "results/published.h"

enum { STUDY_LINES_MAX = 24, STUDY_CELLS_MAX = 32 };

/* Draws a study (NULL: none) and `n` published series in common figures into the folder `out`, made
 * if need be. Series beyond STUDY_LINES_MAX and cells beyond STUDY_CELLS_MAX are left out, and
 * options->left_out is told. STATUS_DATA when there is nothing at all to draw; STATUS_UNSUPPORTED
 * when gnuplot is not installed, with scripts and tables in place. */
MUST_CHECK enum status plot_study(const struct analysis *a,
                                  const struct published_series *const *published, int n,
                                  const char *out, const struct plot_options *options);
#endif
