/* The computation and communication of a step: the fractions of its time that the forward and
 * backward passes take, and the times at which gradients are ready.
 *
 * Gradients are sent in buckets as in training (engine/reducer.h): layer by layer from the last to
 * the first, 1 MiB of fp32 gradients in the first bucket, `bucket_bytes` in the others. A layer's
 * fraction of the backward pass is its fraction of the floating-point operations. A layer's
 * backward pass has twice the operations of its forward pass, or as many if the layer's input needs
 * no gradient. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

enum { WORKLOAD_BUCKETS_MAX = 512 };

struct bucket {
    double ready; /* fraction of the backward pass after which the bucket is complete; ascending */
    double bytes; /* bytes sent */
};

struct workload {
    double forward, backward; /* fractions of a rank's time without communication; the rest is spent
                               * after the backward pass */
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

/* Makes a workload whose fractions come from the numbers of floating-point operations: one third
 * forward, almost two thirds backward. */
MUST_CHECK enum status workload_of(const struct workload_config *c, struct workload *w);

/* The sum of the bytes of all buckets. */
double workload_bytes(const struct workload *w);
