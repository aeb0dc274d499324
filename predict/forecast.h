/* Forecasting a training step on many ranks.
 *
 * All ranks begin a step together. Gradients are sent in buckets as in training (engine/reducer.h),
 * layer by layer from the last to the first, one bucket at a time. The first bucket has 1 MiB of
 * fp32 gradients, all later buckets have `bucket_bytes`. A bucket is sent when two conditions are
 * fulfilled: the slowest rank has computed it, and the previous bucket has been sent. Communication
 * after the slowest rank's backward pass is exposed. The rate at which all ranks together read
 * images may be limited. Reading overlaps with computing and communicating, and a step takes the
 * longer of the two times.
 *
 * A layer's fraction of the backward pass is its fraction of the pass's floating-point operations.
 * A layer's backward pass has twice as many operations as its forward pass. If the layer's input
 * needs no gradient, both passes have the same number of operations.
 *
 * A rank's own time of a step is a typical time multiplied by exp(sigma z), where z is a standard
 * normal number. (The time has a lognormal distribution.) The largest z of n ranks has the
 * distribution function Phi(z)^n. It is represented by STRAGGLER_QUANTILES quantiles of equal
 * probability; means are taken over them. No random numbers are used. */
#pragma once

#include "predict/cost.h"

#include <stdbool.h>

enum { WORKLOAD_BUCKETS_MAX = 512, STRAGGLER_QUANTILES = 64 };

struct bucket {
    double ready; /* the bucket is complete after this fraction of the backward pass; ascending */
    double bytes; /* bytes sent */
};

/* The computation and communication of a step. */
struct workload {
    double forward, backward; /* fractions of a rank's own time (without communication); the rest
                               * follows the backward pass */
    int n;
    struct bucket bucket[WORKLOAD_BUCKETS_MAX]; /* (n >= 1) in the order of sending */
};

struct workload_config {
    const char *arch;
    int classes, image_size;
    double bucket_bytes;   /* bytes of fp32 gradients in a bucket */
    double gradient_bytes; /* bytes sent per gradient element: 4 or 2 */
    bool overlap;          /* false: all gradients are sent together after the backward pass */
};

/* Makes a workload whose fractions are computed from the numbers of floating-point operations: one
 * third forward, almost two thirds backward. */
MUST_CHECK enum status workload_of(const struct workload_config *c, struct workload *w);

/* The sum of the bytes of all buckets. */
double workload_bytes(const struct workload *w);

enum limit {
    LIMIT_COMPUTE, /* compute; every other part takes less than 5 % of the step */
    LIMIT_STRAGGLERS,
    LIMIT_LATENCY,   /* exposed communication, mostly due to latency */
    LIMIT_BANDWIDTH, /* exposed communication, mostly due to bandwidth */
    LIMIT_INPUT,
};

struct system {
    struct workload work;
    struct network_cost net;
    double image_s; /* a rank's own typical time for an image, without communication; > 0 */
    double sigma;   /* sigma of stragglers; >= 0 */
    double image_bytes;
    double input_bytes_per_s; /* read rate of all ranks together; 0: unlimited */
};

/* A step's times in seconds: the mean, and the parts that add up to the mean. */
struct forecast {
    int64_t ranks, batch; /* batch: images per rank */
    double step_s;
    double step_p5_s, step_p95_s; /* percentiles over the distribution of stragglers */
    double compute_s;             /* a typical rank's own time */
    double straggler_s;           /* waiting for the slowest rank */
    double exposed_s;             /* exposed communication */
    double input_s;               /* waiting for images, limited by input_bytes_per_s */
    double busy_s;                /* all communication, exposed or not; not one of the parts that
                                   * add up to step_s */
    double images_per_s;
    enum limit limit;
};

/* The quantiles of the largest z of some ranks. */
struct straggler {
    double z[STRAGGLER_QUANTILES]; /* ascending */
};
void straggler_of(int64_t ranks, struct straggler *s);

/* Forecasts a step; the caller has set `late` with straggler_of(ranks). */
void forecast_step(const struct system *s, int64_t ranks, int64_t batch,
                   const struct straggler *late, struct forecast *out);
