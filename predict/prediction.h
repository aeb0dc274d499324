/* A prediction: the parameters of a machine, forecasts for many ranks with intervals, and the
 * errors of forecasts for the measured points.
 *
 * The 95 % interval of a forecast f is
 *
 *   low = f exp(-sqrt(ln(f / q2.5)^2 + (1.96 noise)^2)),
 *   high = f exp(+sqrt(ln(q97.5 / f)^2 + (1.96 noise)^2))
 *
 * where q are quantiles of the forecasts of the ensemble (fit.h): systems that agree with the
 * points, in which all that is neither given nor measured varies as its prior allows. `noise` is
 * the ensemble's; for a measured point, the spread of its repeats if that is larger. The interval
 * does not include errors of the model's form. */
#pragma once

#include "predict/prediction_source.h"

#include <jansson.h>
#include <stdio.h>

enum { PREDICTION_RANKS_MAX = 256, PREDICTION_SCHEMA = 1 };

struct prediction_config {
    const struct source *source;
    struct system system; /* the known values. prediction_make sets `work` from the source, and fits
                           * or calibrates image_s */
    bool fit;             /* true: fit the unknown values to the points with at most fit_up_to
                           * ranks; false: only calibrate image_s to the first point */
    int64_t fit_up_to;    /* 0: all points */
    struct fit_known known;
    int64_t batch; /* images per rank; 0: the batch of the point with the most ranks */
    int n_ranks;
    int64_t ranks[PREDICTION_RANKS_MAX]; /* (n_ranks) numbers of ranks to forecast, ascending */
};

/* Where a parameter's value comes from. ASSUMED: a typical value, of which no measured point says
 * more (fit.h). UNUSED: no forecast and no point depends on it. */
enum origin { ORIGIN_KNOWN /* given or measured */, ORIGIN_FITTED, ORIGIN_ASSUMED, ORIGIN_UNUSED };

struct prediction {
    const struct source *source; /* not owned */
    enum origin origin[FIT_PARAMETERS];
    struct system system;
    int fitted; /* number of points that the fit used, from the first point on; 0: only image_s was
                 * calibrated, to the first point */
    int n;
    struct forecast forecast[PREDICTION_RANKS_MAX]; /* (n) */
    struct forecast at[SOURCE_POINTS_MAX];          /* (source->n) forecasts for the measured
                                                     * points */
};

/* STATUS_USAGE if a mode of one process is to be forecast on more ranks than a node has. */
MUST_CHECK enum status prediction_make(const struct prediction_config *c, struct prediction *out);

/* Throughput per rank, in percent of the first measured point's throughput per rank. */
double prediction_efficiency(const struct prediction *p, int64_t ranks, double images_per_s);

/* prediction_error returns the forecast's error at measured point i, in percentage points of
 * efficiency. prediction_is_held_out returns true if neither the fit nor the calibration used point
 * i. */
double prediction_error(const struct prediction *p, int i);
bool prediction_is_held_out(const struct prediction *p, int i);

/* Returns whether point i is held out and outside the interval of its forecast. */
bool prediction_is_refuted(const struct prediction *p, int i);

/* STATUS_DATA if points refute the forecast; the message has their number and the largest error. */
MUST_CHECK enum status prediction_check(const struct prediction *p);

/* Prints a table. */
void prediction_print(const struct prediction *p, FILE *out);

/* A new object {"schema", "record": "predict", "label", "system", "forecast", "measured"}; times
 * are seconds, efficiencies percent. NULL when memory is short. */
json_t *prediction_json(const struct prediction *p);
