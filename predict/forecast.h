/* Forecasting a training step on many ranks.
 *
 * All ranks begin a step together. They send the buckets of gradients in order, one at a time. A
 * bucket is sent when two conditions are fulfilled: the slowest rank has computed it, and the
 * previous bucket has been sent. Communication after the slowest rank's backward pass is exposed.
 * The rate at which all ranks together read images may be limited. Reading overlaps with computing
 * and communicating, and a step takes the longer of the two times. */
#pragma once

#include "predict/cost.h"
#include "predict/straggler.h"
#include "predict/workload.h"

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
    double sigma;   /* sigma of stragglers (straggler.h); >= 0 */
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
    double low, high; /* 95 % interval of images_per_s (prediction.h); not set by forecast_step */
    enum limit limit;
};

/* Forecasts a step; the caller has set `late` with straggler_of(ranks). */
void forecast_step(const struct system *s, int64_t ranks, int64_t batch,
                   const struct straggler *late, struct forecast *out);

/* Sets s->image_s so that the forecast for (ranks, batch) equals `images_per_s`. STATUS_DATA if
 * communication alone, or reading images alone, takes longer than a step at this throughput. */
MUST_CHECK enum status forecast_calibrate(struct system *s, int64_t ranks, int64_t batch,
                                          double images_per_s);

/* "compute", "stragglers", ... */
const char *limit_str(enum limit l);
