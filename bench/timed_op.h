/* One operation with memory of its own, to be timed repeatedly. */
#pragma once

#include "kernels/backend.h"

struct timed_op {
    struct op_plan *plan;
    struct stream *stream;
    struct event *from, *to;
    void *arg[ROLE_COUNT];
};

/* Returns the tensor `t` as it is stored in a network of type `type`. In a TF32 network, the tensor
 * is fp32, and the elements of an operand are rounded to TF32 when they are read. */
struct tensor_desc timed_op_typed(struct tensor_desc t, enum dtype type, bool operand);

/* Plans `desc` and fills its float tensors with values in [-1, 1). */
MUST_CHECK enum status timed_op_open(struct timed_op *t, struct stream *s,
                                     const struct op_desc *desc);
void timed_op_close(struct timed_op *t); /* accepts a zeroed struct */

/* Both functions run the operation once. timed_op_time also times the operation, and can be passed
 * to harness_run with a struct timed_op as context. */
MUST_CHECK enum status timed_op_warm(struct timed_op *t);
MUST_CHECK enum status timed_op_time(void *timed_op, double *seconds);

/* timed_op_put writes a tensor of any float type and any layout, and timed_op_get reads it. `plain`
 * has the elements in logical order. timed_op_put rounds the elements to the tensor's type. */
MUST_CHECK enum status timed_op_put(struct timed_op *t, enum role role, const float *plain);
MUST_CHECK enum status timed_op_get(struct timed_op *t, enum role role, float *plain);
