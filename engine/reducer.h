/* Adds up a network's gradients over micro-batches and ranks, bucket by bucket, overlapped with the
 * backward pass.
 *
 * The flat gradient buffer is cut into ranges in the order in which the backward pass completes
 * them: a small first bucket, so that communication begins early, then large ones, which use the
 * network well (as torch's DistributedDataParallel: 1 MiB, then 25 MiB). When its last gradient is
 * complete, a bucket is rounded to the type that a GPU would have computed it in, added to the sum
 * of earlier micro-batches, and passed to the communicator, which sums it over the ranks in place
 * and in the background: no copies, unless it is compressed. All ranks run the same program, so
 * buckets start in the same order on every rank.
 *
 *     reducer_begin(r, first, last, poison);
 *     program_backward(p, reducer_complete, r);
 *     reducer_finish(r);                  after the last micro-batch: the gradients are reduced
 *
 * All of this is in the order of the network's stream: a bucket is sent when the stream has
 * completed it, and later work on the stream starts when reducer_finish's sums are complete. The
 * host waits for neither, unless the communicator requires it (comm_wait_on). */
#pragma once

#include "comm/comm.h"
#include "model/network.h"

struct reducer_config {
    struct network *net;
    /* NULL: no other ranks; not owned. On an asynchronous device: a device communicator. */
    struct comm *comm;
    bool rounded;        /* the caller has rounded the gradients already */
    bool accumulate;     /* a step has several micro-batches */
    size_t first_bytes;  /* minimum size of the first bucket in bytes */
    size_t bucket_bytes; /* minimum size of the other buckets in bytes */
    enum dtype compress; /* type to send: F32 (no compression), F16 or BF16 */
};

struct reducer;

MUST_CHECK enum status reducer_open(const struct reducer_config *config, struct reducer **out);
void reducer_close(struct reducer *r); /* NULL is fine */

/* Call it before the backward pass of a micro-batch. `first`, `last`: is it the step's first, last
 * micro-batch? poison: makes its first gradient infinite (for tests). */
void reducer_begin(struct reducer *r, bool first, bool last, bool poison);

/* The callback for program_backward: gradients [begin, end) are complete. `context` is the
 * reducer. */
MUST_CHECK enum status reducer_complete(void *context, int64_t begin, int64_t end);

/* After the last micro-batch: later work on the network's stream reads the reduced gradients. */
MUST_CHECK enum status reducer_finish(struct reducer *r);

/* The divisor that turns sums over the ranks into means. It is 1 for compressed gradients, which
 * each rank divides before it sends them, so that their sum does not overflow. */
double reducer_divisor(const struct reducer *r);

int reducer_buckets(const struct reducer *r);

/* Where bucket i ends in the flat gradient buffer, in elements; the next one begins there. */
int64_t reducer_bucket_end(const struct reducer *r, int i);

/* Seconds in which at least one bucket was being reduced, in the last step or in the one `ago`
 * steps before it; the gradients of that step must have been reduced. An asynchronous device keeps
 * the times of the last REDUCER_STEPS steps; other devices keep those of the last step. */
enum { REDUCER_STEPS = 4 };
double reducer_busy_s(const struct reducer *r, int ago);

/* As reducer_busy_s for the last step, but counts only the time after `ns` (clock_ns()): if `ns` is
 * the end of the backward pass, the exposed time. For synchronous devices; 0 on others. */
double reducer_busy_after_s(const struct reducer *r, int64_t ns);
