/* One operation with memory of its own, ready to be timed again and again. */
#ifndef BENCH_TIMED_OP_H
#define BENCH_TIMED_OP_H

#include "kernels/backend.h"

struct timed_op {
    struct op_plan *plan;
    struct stream *stream;
    struct event *from, *to;
    void *arg[ROLE_COUNT];
    int n, cap;
    double *seconds; /* (n) one a sample */
};

/* A tensor as a network has it in this type: TF32 is fp32 whose operands may lose their last bits.
 */
struct tensor_desc timed_op_typed(struct tensor_desc t, enum dtype type, bool operand);

/* Plans `desc` and fills its tensors of floats with small numbers; room for `samples` timings. */
MUST_CHECK enum status timed_op_open(struct timed_op *t, struct stream *s,
                                     const struct op_desc *desc, int samples);
void timed_op_close(struct timed_op *t); /* a zeroed one is fine */

/* Runs once, untimed; runs once and tells the time; the same, and keeps it. */
MUST_CHECK enum status timed_op_warm(struct timed_op *t);
MUST_CHECK enum status timed_op_time(struct timed_op *t, double *seconds);
MUST_CHECK enum status timed_op_sample(struct timed_op *t);

/* Writes or reads a tensor of floats of any type and layout: `plain` has its elements in their
 * logical order; what is written is rounded to what the type can hold. */
MUST_CHECK enum status timed_op_put(struct timed_op *t, enum role role, const float *plain);
MUST_CHECK enum status timed_op_get(struct timed_op *t, enum role role, float *plain);
#endif
