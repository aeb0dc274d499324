/* A prediction as a whole: a machine as it is known or fitted, forecasts for many ranks, and how
 * far they are from what was measured. */
#ifndef PREDICT_PREDICTION_H
#define PREDICT_PREDICTION_H

#include "predict/source.h"

#include <jansson.h>
#include <stdio.h>

enum { PREDICTION_RANKS_MAX = 256, PREDICTION_SCHEMA = 1 };

struct prediction_config {
    const struct source *source;
    struct system system; /* what is known of it; `work` and image_s are the source's */
    bool fit;             /* the rest, to the points of up to fit_up_to ranks; false: image_s alone
                           * is chosen, so that the first point is met */
    int64_t fit_up_to;    /* 0: all points */
    struct fit_known known;
    int64_t batch; /* images of a rank; 0: those of the largest measured point */
    int n_ranks;
    int64_t ranks[PREDICTION_RANKS_MAX]; /* to forecast, ascending */
};

struct prediction {
    const struct source *source; /* not owned */
    struct system system;
    int fitted; /* points that were, the first of the source's; 0: none, calibrated to the first */
    int n;
    struct forecast forecast[PREDICTION_RANKS_MAX]; /* (n) */
    struct forecast at[SOURCE_POINTS_MAX];          /* (source->n) of the measured points */
};

MUST_CHECK enum status prediction_make(const struct prediction_config *c, struct prediction *out);

/* Percent of perfect scaling from the first measured point, a rank. */
double prediction_efficiency(const struct prediction *p, int64_t ranks, double images_per_s);

/* The error of a forecast at measured point i, in percentage points of efficiency, and whether the
 * point was kept from what the system was learned from. */
double prediction_error(const struct prediction *p, int i);
bool prediction_is_held_out(const struct prediction *p, int i);

/* A table for people. */
void prediction_print(const struct prediction *p, FILE *out);

/* A new object {"schema", "record": "predict", "label", "system", "forecast", "measured"}; times
 * are seconds, efficiencies percent. NULL when memory is short. */
json_t *prediction_json(const struct prediction *p);

#endif
