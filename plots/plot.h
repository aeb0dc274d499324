/* Draws runs, studies and single records as PNG, SVG and PDF.
 *
 * Runs:
 *   loss               training (dashed) and validation (solid) against the epoch; against the step
 *                      while no run has finished more than three epochs
 *   top1_train, top1_val, top5_train, top5_val
 *                      accuracy of training and of validation, on the same axis
 *   time_to_accuracy   top-1 of validation against time, and where it reached --desired-acc
 *   lr                 learning rate against the epoch
 *   loss_scale         loss scale against the step; marks the steps skipped for an overflow
 *   throughput         images per second of each step, and their running median, against time
 *   io                 bytes and files read per second, and decode time per image, against time
 *   split              the parts of a typical step's time, one bar for each run
 *   telemetry          power, temperature and clock of the devices, and throttling, against time
 *   ranks              the parts of each rank's step, for several ranks; a straggler is marked
 *
 * Studies and published tables:
 *   training_throughput   images per second against devices, with ideal lines
 *   training_time         seconds of the whole training against devices, with ideal lines
 *   efficiency            percent of perfect scaling, by throughput and by wall-clock time
 *   scaling_weak          images per second and device, with a fixed batch per device
 *   scaling_strong        speed-up, with a fixed batch over all devices
 *   top1_train, top1_val, top5_train, top5_val
 *                         accuracy of training and of validation against epochs: for each cell the
 *                         median of its repeats, and a band from the lowest to the highest
 *   IO                    bytes per second that the loaders read, and that storage delivered,
 *                         against devices
 *   cell_split            the parts of a step's time, one bar for each cell
 * Figures of many lines are divided into panels with the same axes (study_panels.h). If a cell has
 * several repeats, error bars are 95 % intervals of the median over the repeats.
 *
 * Single records:
 *   overlap    (bench overlap) against the bucket size: the time until all gradients are reduced,
 *              with its spread, and the share of communication that is hidden
 *   forecast   (predict) against ranks: throughput with its spread, efficiency, and the parts of a
 *              step; measured points on the same axes; held-out points have their own mark; the
 *              ranges below and above all measured numbers of ranks are shaded
 *   trend      (trend) a panel for each series: its points in order of time, the level
 *              between steps, and the places of the steps; dates and commits on the axis
 *   amp        (amp-report) share of the gradients per power of two, one curve for activations and
 *              one for weights; the ranges of fp16 at loss scale 1 and at the current scale
 *
 * gnuplot draws each figure from a script and tables. They stay in "<out>/data"; a user can change
 * them and draw the figure again. The colours of series are those of Okabe and Ito, "Color
 * universal design", 2008, and two of Tol's "muted". Dashes and point shapes distinguish curves
 * even without colours. The parts of a step have other colours: those of Tol, "Colour schemes",
 * 2021, "light". So a colour has one meaning in all figures that share a palette (palette.h).
 *
 * Every function creates the folder `out` if it is missing, and replaces the figures of an earlier
 * call. STATUS_DATA if no figure has data. STATUS_UNSUPPORTED if gnuplot is not installed; in this
 * case, only the scripts and tables are written. */
#pragma once

#include "base/status.h"
#include "results/analysis.h"
#include "results/published.h"
#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_MAX_RUNS = 16 };

/* The size of pictures. Everything in a PNG or PDF scales with its width; SVG pictures have no
 * width. */
struct plot_size {
    double width_in; /* inches; 0: PLOT_WIDTH_IN */
    int dpi;         /* pixels of a PNG per inch; 0: PLOT_DPI */
    bool large_text; /* text is twice as large, for half a page or a phone. Figures with several
                      * axes of different kinds (io, ranks, telemetry, single records) ignore it */
};

/* The defaults, and the greatest width of a PNG in pixels. This width is limited because the
 * tallest figures are five times as high as wide, and Cairo draws at most 32767 pixels in one
 * direction. */
enum { PLOT_WIDTH_IN = 16, PLOT_DPI = 100, PLOT_MAX_PIXELS = 6400 };

struct palette; /* palette.h */

struct plot_options {
    bool png, svg, pdf; /* at least one */
    struct plot_size size;
    const char *title;         /* precedes each figure's own title; NULL: none */
    double ema;                /* weight of the earlier values in the moving average of the curves
                                * against epochs, 0 <= ema < 1; 0: no average */
    const char *const *names;  /* (runs) names in legends; NULL: configuration and folder */
    const char *const *series; /* (runs) names of the runs' series in a study, which draws the
                                * figures of accuracy itself. Runs of a series have the same colour.
                                * NULL: runs that differ only in their seeds are a series. If there
                                * is only one series, each run has its own colour */
    bool (*shown)(const char *figure); /* of the figures of runs, draws only these; NULL: all */
    struct palette *palette;           /* colours that several drawings share; NULL: none */
    FILE *written;                     /* gets a line for each picture; NULL: none */
    FILE *left_out; /* gets lines that name the figures without data and give the numbers
                     * of series and cells that are not drawn; NULL: none */
};

/* Returns STATUS_USAGE if a PNG of this size is wider than PLOT_MAX_PIXELS. */
MUST_CHECK enum status plot_size_check(const struct plot_size *size);

/* Draws `n` runs (1 to PLOT_MAX_RUNS). */
MUST_CHECK enum status plot_runs(const struct run *const *runs, int n, const char *out,
                                 const struct plot_options *options);

/* Removes the figures of runs, except those of accuracy, that an earlier call drew into `out`. */
MUST_CHECK enum status plot_runs_remove(const char *out);

/* Draws a study (NULL: none) and `n` published series in common figures. If there are too many
 * series or cells for a figure, draws only some of them, and writes to options->left_out how many
 * are not drawn. */
MUST_CHECK enum status plot_study(const struct analysis *a,
                                  const struct published_series *const *published, int n,
                                  const char *out, const struct plot_options *options);

/* Draws the series of the published table in the file `path`. */
MUST_CHECK enum status plot_published(const char *path, const char *out,
                                      const struct plot_options *options);

/* Draws the single record in the file `path`. A member of the record gives the record's kind.
 * STATUS_DATA if the kind is not known or the record is damaged. */
MUST_CHECK enum status plot_record(const char *path, const char *out,
                                   const struct plot_options *options);
