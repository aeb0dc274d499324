/* A prediction: the measurements on which it is based, the parameters of a machine that are fitted
 * to them, forecasts for many ranks with intervals, and the errors of forecasts for the measured
 * points.
 *
 * The parameters are a rank's own time for an image, latency and bandwidth within a node and
 * between nodes, and the sigma of stragglers. Few points cannot determine all of them, so each
 * except the first has a prior around a typical value. The fit minimises
 *
 *   cost = sum over points of (ln(forecast / measured) / noise)^2
 *          + sum over parameters of (ln(value / typical) / spread)^2
 *
 * (a maximum a posteriori estimate with lognormal priors). The noise of a point is 0.015, as
 * repeated measurements of throughput commonly differ by 1.5 %, or the spread of its repeats if
 * that is larger. e^spread is e^2 for the latency between nodes, e^0.7 for sigma, e for the rest.
 * The latency between nodes is that of a step's collectives; it includes all costs that grow with
 * the number of nodes (synchronisation, shared switches), and so is far above the network's own
 * latency.
 *
 * The uncertainty is an ensemble of systems, drawn from the posterior exp(-cost / 2) by the method
 * of Goodman and Weare, "Ensemble samplers with affine invariance", 2010. For it, the noise is at
 * least the root mean square of ln(forecast / measured) of the fitted points. Both are
 * deterministic. The 95 % interval of a forecast f is
 *
 *   low = f exp(-sqrt(ln(f / q2.5)^2 + (1.96 noise)^2)),
 *   high = f exp(+sqrt(ln(q97.5 / f)^2 + (1.96 noise)^2))
 *
 * where q are quantiles of the forecasts of the ensemble, and `noise` is the ensemble's; for a
 * measured point, the spread of its repeats if that is larger. The interval does not include errors
 * of the model's form. */
#pragma once

#include "predict/forecast.h"
#include "results/analysis.h"
#include "results/published.h"
#include "results/run.h"

#include <jansson.h>
#include <stdio.h>

enum { SOURCE_POINTS_MAX = 64, SOURCE_LABEL_MAX = 256 };

struct measured {
    int64_t ranks, batch; /* batch: images per rank */
    double images_per_s;  /* of all ranks together */
    double spread;        /* standard deviation of ln(images_per_s); 0: not known */
};

/* The measurements: runs of ampscale, or published results. The time of a step may also be
 * predicted instead of measured. */
struct source {
    char label[SOURCE_LABEL_MAX]; /* one line */
    char mode[8];                 /* of training, as in a record; "": not known */
    bool predicted;               /* the only point is a predicted step */
    struct workload work;
    int64_t ranks_per_node; /* 1 if not known */
    double image_bytes;     /* mean size of an image on disk; if it is not known, the mean over
                             * ImageNet */
    double sigma;           /* sigma of the step times of one rank; 0: not known */
    int n;
    struct measured point[SOURCE_POINTS_MAX]; /* (n >= 1) ascending by ranks, all different */
};

/* Takes the points from one run, or from several runs with different numbers of ranks. Each device
 * counts as a rank. The fractions of a step come from the first run, and sigma comes from rank 0 of
 * this run. STATUS_DATA if a run has no step, if the networks differ, or if two runs have the same
 * number of ranks. */
MUST_CHECK enum status source_of_runs(const struct run *const *run, int n, struct source *out);

/* Takes those points of a published series that have both a throughput and a batch. */
MUST_CHECK enum status source_of_published(const struct published_series *s, struct source *out);

/* Writes the name of series i (from 0) of a study, such as "ddp fp32 resnet50 synthetic weak". */
void source_series_name(const struct analysis *a, int64_t i, char name[SOURCE_LABEL_MAX]);

/* Takes the points from those cells of series i (from 0) of a study that have a result. */
MUST_CHECK enum status source_of_analysis(const struct analysis *a, int64_t i, struct source *out);

/* Takes one point of one rank from the record of `ampscale bench step --predict GPU --json`: the
 * predicted throughput times the share of it that published results of the GPU reach. If none are
 * known, the share is 0.76, between those of the two GPUs that have some, 0.818 (H100) and 0.708
 * (H200). These differ by the factor e^0.145; so the point's spread is 0.15. */
MUST_CHECK enum status source_of_step(const json_t *record, struct source *out);

/* FIT_INTRA and FIT_INTER are latencies; the bandwidths follow them. */
enum { FIT_IMAGE, FIT_INTRA, FIT_INTER = 3, FIT_SIGMA = 5, FIT_PARAMETERS };

enum { PREDICTION_RANKS_MAX = 256, PREDICTION_SCHEMA = 1 };

struct prediction_config {
    const struct source *source;
    struct system system; /* the known and the typical values. prediction_make sets `work` from the
                           * source, and fits or calibrates image_s */
    bool fit;             /* true: fit the unknown values to the points with at most fit_up_to
                           * ranks; false: only calibrate image_s to the first point */
    int64_t fit_up_to;    /* 0: all points */
    struct fit_known {
        bool intra, inter, sigma;
    } known;       /* the parameters that are given or measured, and so not changed */
    int64_t batch; /* images per rank; 0: the batch of the point with the most
                    * ranks or, if the points share the batch over all ranks, that */
    int n_ranks;
    int64_t ranks[PREDICTION_RANKS_MAX]; /* (n_ranks) numbers of ranks to forecast, ascending */
};

/* Where a parameter's value comes from. FITTED: the points narrow the parameter to less than 0.7 of
 * its prior's spread, or move it by more than half of that spread. ASSUMED: a typical value, of
 * which no point says more. UNUSED: no forecast and no point depends on it. */
enum origin { ORIGIN_KNOWN /* given or measured */, ORIGIN_FITTED, ORIGIN_ASSUMED, ORIGIN_UNUSED };

/* A forecast with its interval. `efficiency`: throughput per rank, in percent of the first measured
 * point's throughput per rank. */
struct prediction_row {
    struct forecast step;
    double low, high; /* 95 % interval of step.images_per_s */
    double efficiency;
};

/* A measured point, and its forecast. */
struct prediction_point {
    struct prediction_row forecast;
    double efficiency; /* as measured */
    double error;      /* of the forecast, in percentage points of efficiency */
    bool held_out;     /* neither the fit nor the calibration used the point */
    bool outside;      /* held out, and outside the interval of its forecast */
};

struct prediction {
    const struct source *source; /* not owned */
    enum origin origin[FIT_PARAMETERS];
    struct system system;
    int fitted; /* number of points that the fit used, from the first point on; 0: only image_s was
                 * calibrated, to the first point */
    int n;
    struct prediction_row forecast[PREDICTION_RANKS_MAX]; /* (n) */
    struct prediction_point point[SOURCE_POINTS_MAX];     /* (source->n) */
};

/* STATUS_USAGE if a mode of one process is to be forecast on more ranks than a node has, or if
 * fewer than two points are to be fitted. STATUS_DATA if the system cannot reach the throughput of
 * the point to which it is calibrated. */
MUST_CHECK enum status prediction_make(const struct prediction_config *c, struct prediction *out);

/* STATUS_DATA if points refute the forecast; the message has their number and the largest error. */
MUST_CHECK enum status prediction_check(const struct prediction *p);

enum { PREDICTION_TEXT_MAX = 320 };

/* Writes the parameters of one origin with their values, "sigma of stragglers 0.02"; "" if there
 * are none. */
void prediction_parameters(const struct prediction *p, enum origin origin,
                           char text[PREDICTION_TEXT_MAX]);

/* Prints a table. */
void prediction_print(const struct prediction *p, FILE *out);

/* A new object {"schema", "record": "predict", "label", "system", "forecast", "measured"}; times
 * are seconds, efficiencies percent. NULL when memory is short. */
json_t *prediction_json(const struct prediction *p);
