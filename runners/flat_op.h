/* Inside runners/: operations on flat arrays in device memory, planned once. */
#ifndef RUNNERS_FLAT_OP_H
#define RUNNERS_FLAT_OP_H

#include "kernels/backend.h"

struct flat_op {
    struct op_plan *plan;
    void *workspace; /* NULL where the plan wants none */
};

/* y = x + z of `count` fp32 elements; y may be x or z. On failure there is nothing to close, but it
 * does no harm, here and below. */
MUST_CHECK enum status flat_sum_open(struct device *dev, int64_t count, struct flat_op *o);
/* In stream order, here and below. */
MUST_CHECK enum status flat_sum_run(const struct flat_op *o, struct stream *stream, float *x,
                                    float *z, float *y);

/* y = x, rounded to `to`; both floating types. */
MUST_CHECK enum status flat_cast_open(struct device *dev, enum dtype from, enum dtype to,
                                      int64_t count, struct flat_op *o);
MUST_CHECK enum status flat_cast_run(const struct flat_op *o, struct stream *stream, void *x,
                                     void *y);

void flat_op_close(struct flat_op *o); /* one that is all zero is fine */

#endif
