/* The metrics that runs are compared by. */
#ifndef COMPARE_METRIC_H
#define COMPARE_METRIC_H

#include "results/run.h"

enum metric_id {
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
    METRIC_JOULES,
    METRICS
};

/* What they are is said in results/summary.h. */
struct metric {
    const char *name;            /* "images_per_s" */
    const char *unit;            /* "images/s" */
    const char *member, *within; /* where a run's summary has it; within NULL: the member itself */
    bool more_is_better;
    bool part; /* of a step */
};

extern const struct metric metrics[METRICS];

/* The metric of that name. STATUS_USAGE where there is none: the message begins with `flag`, and
 * names those there are. */
MUST_CHECK enum status metric_find(const char *flag, const char *name, enum metric_id *out);

/* Sums a run up from its records; NAN for what it does not tell. STATUS_DATA for records that
 * cannot be summed up. */
MUST_CHECK enum status metrics_of(const struct run *run, double value[METRICS]);

/* A number as text and as JSON: "-" and null where it is not known, null for an infinite one too.
 */
enum { METRIC_TEXT_SIZE = 32 };
const char *metric_text(const char *format, double x, char out[METRIC_TEXT_SIZE]);
json_t *metric_json(double x); /* NULL without memory */
#endif
