/* A prediction: the known and the fitted parameters of a machine, forecasts for many ranks, and the
 * errors of forecasts for the measured points. */
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

struct prediction {
    const struct source *source; /* not owned */
    struct system system;
    int fitted; /* number of points that the fit used, from the first point on; 0: only image_s was
                 * calibrated, to the first point */
    int n;
    struct forecast forecast[PREDICTION_RANKS_MAX]; /* (n) */
    struct forecast at[SOURCE_POINTS_MAX];          /* (source->n) forecasts for the measured
                                                     * points */
};

MUST_CHECK enum status prediction_make(const struct prediction_config *c, struct prediction *out);

/* Throughput per rank, in percent of the first measured point's throughput per rank. */
double prediction_efficiency(const struct prediction *p, int64_t ranks, double images_per_s);

/* prediction_error returns the forecast's error at measured point i, in percentage points of
 * efficiency. prediction_is_held_out returns true if neither the fit nor the calibration used point
 * i. */
double prediction_error(const struct prediction *p, int i);
bool prediction_is_held_out(const struct prediction *p, int i);

/* Prints a table. */
void prediction_print(const struct prediction *p, FILE *out);

/* A new object {"schema", "record": "predict", "label", "system", "forecast", "measured"}; times
 * are seconds, efficiencies percent. NULL when memory is short. */
json_t *prediction_json(const struct prediction *p);
