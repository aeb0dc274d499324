/* How long work of a device takes: plans of the library and kernels of our own, by one clock and on
 * one kind of memory, so that a fused form and its parts can be compared.
 *
 * Time. Executions follow one another between two events, as operations of a step do. The device is
 * kept busy until the host has put all of them on the stream, so that nothing of the host's time is
 * in them; a train of short executions that the device overtook all the same is run again.
 *
 * Operands. They hold random numbers in [-1, 1): with zeros or one constant tensor cores draw less
 * power and clock higher than in training.
 *
 * Caches. They are cold. Before a train twice the L2 cache is overwritten, and executions rotate
 * through sets of operands that make up as much again; operands that are larger than that by
 * themselves are there once. In a step an operation reads what the one before it has just written
 * (in L2 where it is smaller than that) and what was written long ago: weights, and in the backward
 * pass activations. What is cold is equal for all that are compared, and is what training finds at
 * batches that fill a GPU: ResNet-50's activations at batch 256 in fp16 have 13 to 411 MB, an
 * H200's L2 50 MB. With tensors smaller than L2 a fused form is credited with a read that its parts
 * would find in the cache; whole steps (ampscale bench throughput --fuse) measure the total effect.
 */
#ifndef KERNELS_CUDA_OP_TIMER_H
#define KERNELS_CUDA_OP_TIMER_H

#include "kernels/cuda/device.h"

enum { TIMED_OPERANDS_MAX = 64 };

struct timed_operand {
    size_t bytes; /* 0: absent */
    enum dtype type;
};

/* Puts one execution on the stream. Operands that are absent are NULL; the contents of the
 * workspace are undefined. */
struct timed_work {
    enum status (*enqueue)(void *context, void *const operand[], void *workspace,
                           struct cuda_stream *s);
    void *context;
    size_t workspace; /* bytes */
};

/* Memory to time work on that takes such operands. */
struct op_trial;

/* `operand` (n), at most TIMED_OPERANDS_MAX. STATUS_OOM where the device has no memory for them. */
MUST_CHECK enum status op_trial_open(struct cuda_device *dev, const struct timed_operand *operand,
                                     int n, struct op_trial **t);
void op_trial_close(struct op_trial *t); /* NULL is fine */

/* Seconds of an execution: the median of several trains, after one that loads kernels. Work that
 * the first train shows to take `limit` or longer is not timed again; 0: no limit. A failure of
 * `enqueue` is handed on. */
MUST_CHECK enum status op_trial_time(struct op_trial *t, const struct timed_work *work,
                                     double limit, double *seconds);

/* After a failure of `enqueue`: whether the device still works, so that other work may be timed. */
bool op_trial_lives(struct op_trial *t);

/* What a device keeps for this; cuda_device.timer. NULL is fine. */
void op_timer_close(struct op_timer *timer);

#endif
