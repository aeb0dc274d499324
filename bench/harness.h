/* Repeats a measurement until the confidence interval of its median is narrow.
 *
 * After a warm-up, samples are taken until the 95 % interval of their median is narrow, their
 * number reaches a maximum, or their sum reaches a time. Only the values of the samples decide when
 * to stop, and no clock is read: ranks with the same samples stop after the same sample. */
#pragma once

#include "base/bar.h"
#include "base/status.h"
#include "bench/table.h"

struct harness_config {
    int warmup;      /* samples thrown away first */
    int most;        /* maximum number of samples, at least 1 */
    double within;   /* stop when the interval is narrower than this fraction of the median; 0:
                      * never */
    double seconds;  /* stop when the samples add up to this; 0: never */
    struct bar *bar; /* harness_run is one step of it; NULL: none */
};

struct harness_result {
    int64_t n;
    double min, p5, median, p95; /* seconds */
    double low, high;            /* 95 % interval of the median; min and max where n < 6 */
    bool narrow;                 /* the interval is as narrow as requested */
};

/* The distribution-free interval that contains the median in at least 95 of 100 cases. It reaches
 * from the k-th smallest to the k-th largest of the ascending values, with the largest k that the
 * binomial distribution (n, 1/2) allows (Hahn and Meeker, "Statistical intervals", 1991, section
 * 5.2). Returns false, with the whole range, if n < 6: too few for such an interval. n >= 1. */
bool harness_interval(const double *sorted, int64_t n, double *low, double *high);

/* Calls `sample`, which sets *seconds, for each sample. STATUS_INVALID where one is not finite. */
MUST_CHECK enum status harness_run(const struct harness_config *c,
                                   enum status (*sample)(void *context, double *seconds),
                                   void *context, struct harness_result *r);

/* Returns STATUS_MISMATCH with the message "<n> <what>"; STATUS_OK if n is 0. */
MUST_CHECK enum status harness_wrong(int64_t n, const char *what);

/* A new object with all of a result; NULL without memory. */
json_t *harness_json(const struct harness_result *r);

/* The columns of a result. CSV: the number of samples (column `count`; 0 where the row has none),
 * median_s, p5_s and p95_s. JSON: "seconds", an object with all of the result. Text: none. */
void harness_columns(struct bench_table *t, const char *count, const struct harness_result *r);
