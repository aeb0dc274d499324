/* Inside runners/: the sum of two flat arrays in device memory, planned once. */
#ifndef RUNNERS_FLAT_SUM_H
#define RUNNERS_FLAT_SUM_H

#include "kernels/backend.h"

struct flat_sum {
    struct op_plan *plan;
    void *workspace; /* NULL where the plan wants none */
};

/* For arrays of `count` fp32 elements. On failure there is nothing to close, but it does no harm.
 */
MUST_CHECK enum status flat_sum_open(struct device *dev, int64_t count, struct flat_sum *s);
void flat_sum_close(struct flat_sum *s); /* one that is all zero is fine */

/* y = x + z, in stream order; y may be x or z. */
MUST_CHECK enum status flat_sum_run(const struct flat_sum *s, struct stream *stream, float *x,
                                    float *z, float *y);

#endif
