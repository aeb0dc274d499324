/* What a step computes and sends: how its time is shared out, and when which gradients are ready.
 *
 * Gradients leave in buckets by the rule of training (runners/reducer.h): layer by layer from the
 * last to the first, 1 MiB of fp32 gradients in the first bucket, `bucket_bytes` in the others. A
 * layer takes of the backward pass what it has of its floating-point operations: twice those of
 * forward, once for a layer whose input needs no gradient. */
#ifndef PREDICT_WORKLOAD_H
#define PREDICT_WORKLOAD_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { WORKLOAD_BUCKETS_MAX = 512 };

struct bucket {
    double ready; /* share of the backward pass that has passed when it is complete; ascending */
    double bytes; /* that are sent */
};

struct workload {
    double forward, backward; /* shares of a rank's own time of a step; the rest follows them */
    int n;
    struct bucket bucket[WORKLOAD_BUCKETS_MAX]; /* (n >= 1) in the order of sending */
};

struct workload_config {
    const char *arch;
    int classes, image_size;
    double bucket_bytes;   /* of fp32 gradients in a bucket */
    double gradient_bytes; /* sent for one gradient: 4 or 2 */
    bool overlap;          /* false: all gradients leave together when backward has ended */
};

/* Shares are those of floating-point operations: a third forward, nearly two thirds backward. */
MUST_CHECK enum status workload_of(const struct workload_config *c, struct workload *w);

/* All bytes that are sent. */
double workload_bytes(const struct workload *w);

#endif
