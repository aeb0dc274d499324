/* Repeating a measurement until its median is known well enough.
 *
 * After a warm-up, samples are taken until the 95 % interval of their median is narrow, or there
 * are enough of them, or they took long enough. What was measured decides, and no clock besides:
 * ranks that are given the same samples stop at the same one. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct harness_config {
    int warmup;     /* samples that are thrown away */
    int most;       /* samples, at least 1 */
    double within;  /* stop when the interval is narrower than this share of the median; 0: never */
    double seconds; /* stop when the samples add up to this; 0: never */
};

struct harness_result {
    int64_t n;
    double min, p5, median, p95; /* seconds */
    double low, high;            /* of the median, at 95 %; min and max where n < 6 */
    bool narrow;                 /* the interval is as narrow as was asked */
};

/* The interval of the median of ascending values that holds it in at least 95 of 100 cases,
 * whatever they are distributed like: the k-th value from below and from above, with the largest k
 * that a binomial of n throws with one half allows (Hahn and Meeker, "Statistical intervals", 1991,
 * section 5.2). False, and the whole range, where n < 6 is too few for that. n >= 1. */
bool harness_interval(const double *sorted, int64_t n, double *low, double *high);

/* `sample` takes one, in seconds. STATUS_INVALID where it is not finite. */
MUST_CHECK enum status harness_run(const struct harness_config *c,
                                   enum status (*sample)(void *context, double *seconds),
                                   void *context, struct harness_result *r);

/* A new object with all of a result; NULL without memory. */
json_t *harness_json(const struct harness_result *r);
#endif
