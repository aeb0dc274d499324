/* Forecasting a training step on many ranks.
 *
 * All ranks begin together. Buckets of gradients are sent in order, one at a time, each as soon as
 * the slowest rank has it and the one before is through; what is left of them after the slowest
 * rank's backward pass is exposed. Reading the images may be bounded by one rate for all ranks
 * together; it goes on beside the step, which therefore takes the longer of the two. */
#ifndef PREDICT_FORECAST_H
#define PREDICT_FORECAST_H

#include "predict/cost.h"
#include "predict/straggler.h"
#include "predict/workload.h"

enum limit {
    LIMIT_COMPUTE, /* nothing else takes more than a twentieth of the step */
    LIMIT_STRAGGLERS,
    LIMIT_LATENCY,   /* communication is exposed, and for its latency more than its bytes */
    LIMIT_BANDWIDTH, /* and the other way round */
    LIMIT_INPUT,
};

struct system {
    struct workload work;
    struct network_cost net;
    double image_s; /* a rank's own typical time for an image, without communication; > 0 */
    double sigma;   /* of stragglers (straggler.h); >= 0 */
    double image_bytes;
    double input_bytes_per_s; /* of all ranks together; 0: no bound */
};

/* What a step comes to, in seconds: its mean, and the parts of that, which add up to it. */
struct forecast {
    int64_t ranks, batch; /* images of a rank */
    double step_s;
    double step_p5_s, step_p95_s; /* as stragglers have it */
    double compute_s;             /* a typical rank's own time */
    double straggler_s;           /* waiting for the slowest */
    double exposed_s;             /* communication that nothing hides */
    double input_s;               /* waiting for the bound of reading */
    double busy_s;                /* all of communication, hidden or not; beside the others */
    double images_per_s;
    enum limit limit;
};

/* `late` is straggler_of(ranks). */
void forecast_step(const struct system *s, int64_t ranks, int64_t batch,
                   const struct straggler *late, struct forecast *out);

/* Sets s->image_s so that the forecast for (ranks, batch) meets `images_per_s`. STATUS_DATA when
 * communication, or the bound of reading, alone takes longer. */
MUST_CHECK enum status forecast_calibrate(struct system *s, int64_t ranks, int64_t batch,
                                          double images_per_s);

/* "compute", "stragglers", ... */
const char *limit_str(enum limit l);

#endif
