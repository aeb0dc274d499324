/* Times plans of the library and own kernels in the same way and with the same kind of operands, so
 * that a fused form can be compared with its parts.
 *
 * Time. Several executions, called a burst, run between two events without gaps, like the
 * operations of a step. Earlier work keeps the device busy until the host has put the whole burst
 * on the stream, so that the host's time is not included. If the device finishes the earlier work
 * first, the burst is run again, with more work before it if it happens again.
 *
 * Operands. Operands contain random numbers in [-1, 1): with zeros or a constant, tensor cores draw
 * less power and clock higher than in training.
 *
 * Caches. Caches are cold: before a burst, the timer overwrites memory of at least twice L2's size.
 * Executions use several sets of operands in turn: enough sets to reach this size together, but at
 * most 8. If one set of operands reaches this size, there is only one set.
 *
 * In a step, an operation reads the result of the operation before it, which is in L2 if it is
 * small enough. It also reads data written long ago: weights, and in the backward pass activations.
 * Cold caches are the same for all candidates. They are also the usual case in training with
 * batches that fill a GPU: ResNet-50's activations at batch 256 in fp16 have 13 to 411 MB, and an
 * H200's L2 has 50 MB.
 *
 * If tensors are smaller than L2, the parts of a fused form are timed with reads from memory that
 * would be cache hits in a step. This favours the fused form. Whole steps (ampscale bench
 * throughput --fuse) measure the total effect. */
#pragma once

#include "kernels/cuda/device.h"

enum { TIMED_OPERANDS_MAX = 64 };

struct timed_operand {
    size_t bytes; /* 0: absent */
    enum dtype type;
};

/* Puts one execution on the stream. Absent operands are NULL; the contents of the workspace are
 * undefined. */
struct timed_work {
    enum status (*enqueue)(void *context, void *const operand[], void *workspace,
                           struct cuda_stream *s);
    void *context;
    size_t workspace; /* bytes */
};

/* The memory of the operands with which work is timed. */
struct op_trial;

/* Allocates and fills sets of the `n` operands, n <= TIMED_OPERANDS_MAX. STATUS_OOM if the device
 * lacks the memory. */
MUST_CHECK enum status op_trial_open(struct cuda_device *dev, const struct timed_operand *operand,
                                     int n, struct op_trial **t);
void op_trial_close(struct op_trial *t); /* NULL is fine */

/* The seconds of one execution of some work. */
struct timed_seconds {
    double median; /* over several bursts; the time of a burst is divided by its executions */
    double alone;  /* of a burst of one execution. Includes the latency between the event and the
                    * execution, several microseconds, which a longer burst has only once. Compare
                    * it only with times of the same kind. */
};

/* Times the work, after a first burst that loads kernels and is not timed. Work whose execution
 * alone takes `limit` seconds or longer is not timed again, and both times are then the same; 0: no
 * limit. If the device times each execution once (cuda_times_once), one burst is timed. If
 * `enqueue` fails, returns its status. */
MUST_CHECK enum status op_trial_time(struct op_trial *t, const struct timed_work *work,
                                     double limit, struct timed_seconds *time);

/* Executes the work once, and waits for it. */
MUST_CHECK enum status op_trial_run(struct op_trial *t, const struct timed_work *work);

/* Whether the device still works after a failure of `enqueue`, so that other work may be timed. */
bool op_trial_lives(struct op_trial *t);
