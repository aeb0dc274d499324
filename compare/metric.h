/* The metrics in which runs are compared. */
#pragma once

#include "results/run.h"

enum metric_id {
    METRIC_IMAGES_PER_S_MEAN,
    METRIC_IMAGES_PER_S,
    METRIC_IMAGES_PER_S_MAX,
    METRIC_IMAGES_PER_S_WALL,
    METRIC_STEP,
    METRIC_DATA,
    METRIC_H2D,
    METRIC_FORWARD,
    METRIC_BACKWARD,
    METRIC_COMM,
    METRIC_OPTIMIZER,
    METRIC_VAL_TOP1,
    METRIC_VAL_TOP5,
    METRIC_BEST_TOP1,
    METRIC_TIME_TO_ACCURACY,
    METRIC_IO_BYTES,
    METRIC_IO_FILES,
    METRIC_DECODE,
    METRIC_JOULES,
    /* Only of runs of other programs (ampscale record): */
    METRIC_SAMPLES,
    METRIC_TOKENS,
    METRIC_LOSS,
    METRIC_SECONDS,
    METRICS
};

/* A metric. results/summary.h defines how its value is computed. */
struct metric {
    const char *name;            /* "images_per_s" */
    const char *unit;            /* "images/s" */
    const char *member, *within; /* the value is summary[member][within], or summary[member] if
                                  * `within` is NULL. In a run of another program, it is
                                  * summary.json's metrics[name] */
    bool more_is_better;
    bool part;     /* time of a part of a step */
    bool accuracy; /* accuracy of an epoch: compared only between runs that ended alike */
};

extern const struct metric metrics[METRICS];

/* Finds the metric of that name. STATUS_USAGE if there is none: the message begins with `flag`, and
 * lists the metrics. */
MUST_CHECK enum status metric_find(const char *flag, const char *name, enum metric_id *out);

/* Computes a run's metrics from its records. A metric that the run lacks is NAN, and so is the mean
 * throughput of a run that was paused, since the pauses are not the program's. STATUS_DATA if the
 * records cannot be used. */
MUST_CHECK enum status metrics_of(const struct run *run, double value[METRICS]);

/* Returns a number as text, or "-" if it is not known. */
enum { METRIC_TEXT_SIZE = 32 };
const char *metric_text(const char *format, double x, char out[METRIC_TEXT_SIZE]);
