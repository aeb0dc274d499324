/* The computation and communication of a step: the fractions of its time that the forward and
 * backward passes take, and the times at which gradients are ready.
 *
 * Gradients are sent in buckets as in training (engine/reducer.h), layer by layer from the last to
 * the first. The first bucket has 1 MiB of fp32 gradients, all later buckets have `bucket_bytes`.
 * A layer's fraction of the backward pass is its fraction of the pass's floating-point operations.
 * A layer's backward pass has twice as many operations as its forward pass. If the layer's input
 * needs no gradient, both passes have the same number of operations. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

enum { WORKLOAD_BUCKETS_MAX = 512 };

struct bucket {
    double ready; /* the bucket is complete after this fraction of the backward pass; ascending */
    double bytes; /* bytes sent */
};

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
