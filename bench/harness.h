/* Repeats a measurement until the confidence interval of its median is narrow.
 *
 * After a warm-up, samples are taken until the 95 % interval of their median is narrow, their
 * number reaches a maximum, or their sum reaches a time limit. The decision to stop depends only on
 * the values of the samples, not on a clock. So ranks that have the same samples stop after the
 * same sample. */
#pragma once

#include "base/bar.h"
#include "base/status.h"
#include "bench/table.h"
#include "results/load.h"

/* The ranks that measure together. */
struct harness_job {
    struct comm *comm;               /* of all ranks; accepts memory of the host */
    const struct rank_info *process; /* (processes) */
    int threads;                     /* ranks in each process */
};

enum { HARNESS_REPEATS = 2 };

struct harness_config {
    int warmup;      /* number of samples that are discarded at the beginning */
    int most;        /* maximum number of samples, at least 1 */
    double within;   /* stop when the interval is narrower than this fraction of the median; 0:
                      * never */
    double seconds;  /* stop when the sum of the samples reaches this; 0: never */
    struct bar *bar; /* progress bar, which harness_run advances by one step; NULL: none */
    int repeats;     /* how often a disturbed measurement is repeated */
    const struct harness_job *job; /* NULL: this process measures alone */
    const char *proc;              /* folder to read in place of /proc; NULL: /proc */
};

struct harness_result {
    int64_t n;
    double min, p5, median, p95; /* seconds */
    double low, high;            /* 95 % interval of the median; min and max if n < 6 */
    bool narrow;                 /* whether the interval is as narrow as requested */
    struct host_noise noise;
};

/* Computes the distribution-free interval that contains the median in at least 95 of 100 cases. It
 * reaches from the k-th smallest to the k-th largest of the ascending values, with the largest k
 * that the binomial distribution (n, 1/2) allows (Hahn and Meeker, "Statistical intervals", 1991,
 * section 5.2). If n < 6, which is too few for such an interval, returns false and sets the
 * interval to the whole range. n must be at least 1. */
bool harness_interval(const double *sorted, int64_t n, double *low, double *high);

/* Measures how much other work disturbs a measurement, and repeats it while it is disturbed:
 *
 *     struct quiet q = quiet_begin(config);
 *     do {
 *         TRY(measure());
 *         TRY(quiet_end(&q, &noise));
 *     } while (q.again);
 *
 * All ranks of a job call these functions; their own work is no disturbance. They get the same
 * noise, the largest of any host, and so repeat together. */
struct quiet {
    const struct harness_config *config;
    struct load_meter meter;
    struct load begun;
    int left;
    bool again;
};
struct quiet quiet_begin(const struct harness_config *c);
MUST_CHECK enum status quiet_end(struct quiet *q, struct host_noise *noise);

/* Calls `sample` once for each sample; `sample` sets *seconds to the value. Disturbed samples are
 * all taken again. STATUS_INVALID if a value is not finite. */
MUST_CHECK enum status harness_run(const struct harness_config *c,
                                   enum status (*sample)(void *context, double *seconds),
                                   void *context, struct harness_result *r);

/* Sets *least to the least of at least `n` samples, and of more until it is stable: until samples
 * of 0.5 s together, or 10000 samples, have not lowered it by more than 1 %. Takes samples of about
 * 5 s together at most. */
MUST_CHECK enum status harness_least(int n, enum status (*sample)(void *context, double *seconds),
                                     void *context, double *least);

/* Returns STATUS_MISMATCH with the message "<n> <what>"; STATUS_OK if n is 0. */
MUST_CHECK enum status harness_wrong(int64_t n, const char *what);

/* Returns a new object with all members of a result. */
json_t *harness_json(const struct harness_result *r);

/* Adds the columns of a result to a table. CSV has four columns: the number of samples (0 if the
 * row has no samples), median_s, p5_s and p95_s. The argument `count` is the name of the first
 * column. JSON has "seconds", an object with all members of the result. The text format has no
 * column of a result. */
void harness_columns(struct bench_table *t, const char *count, const struct harness_result *r);
