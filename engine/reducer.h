/* Adds up a network's gradients over micro-batches and ranks, bucket by bucket, overlapped with the
 * backward pass.
 *
 * The flat gradient buffer is cut into buckets, in the order in which the backward pass completes
 * the gradients. The first bucket is small, so that communication begins early; the other buckets
 * are large, so that they use the network well (DistributedDataParallel: 1 MiB, then 25 MiB).
 * When the last gradient of a bucket is complete, the bucket is rounded to the type in which a GPU
 * would have computed it, and added to the sum of earlier micro-batches. In the last micro-batch
 * the bucket is then passed to the communicator, which sums it over the ranks in the background and
 * in place; only compressed gradients are copied. All ranks run the same program, so the buckets
 * are passed in the same order on every rank.
 *
 *     reducer_begin(r, first, last, blank, poison);
 *     program_backward(p, reducer_complete, r);
 *     reducer_finish(r);                  after the last micro-batch: the gradients are reduced
 *
 * All of this is in the order of the network's stream: a bucket is sent when the stream has
 * completed it, and work put on the stream after reducer_finish starts when the sums are complete.
 * The host does not wait, unless the communicator requires it (comm_wait_on). */
#pragma once

#include "comm/comm.h"
#include "model/network.h"

struct reducer_config {
    struct network *net;
    /* Not owned. NULL: there are no other ranks. If the network is on an asynchronous device, this
     * must be a communicator for device memory. */
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

/* Call it before the backward pass of a micro-batch. `first` and `last` say whether the micro-batch
 * is the step's first or last. `blank`: its gradients become 0. `poison` makes the micro-batch's
 * first gradient infinite (for tests). */
void reducer_begin(struct reducer *r, bool first, bool last, bool blank, bool poison);

/* The callback that program_backward calls when gradients [begin, end) are complete. `context` is
 * the reducer. After the last call `end` is at least the number of gradients. */
MUST_CHECK enum status reducer_complete(void *context, int64_t begin, int64_t end);

/* Call it after the last micro-batch. Work put on the network's stream after this call reads the
 * reduced gradients. */
MUST_CHECK enum status reducer_finish(struct reducer *r);

/* Returns the number by which the sums over the ranks must be divided to get means. This is 1 if
 * gradients are compressed: each rank divides them before it sends them. */
double reducer_divisor(const struct reducer *r);

int reducer_buckets(const struct reducer *r);

/* Where bucket i ends in the flat gradient buffer, in elements. Bucket i + 1 begins there. */
int64_t reducer_bucket_end(const struct reducer *r, int i);

/* Returns for how many seconds of a step at least one bucket was being reduced. `ago` = 0 selects
 * the last step, `ago` = 1 the step before it. The gradients of that step must have been reduced.
 * An asynchronous device keeps the times of the last REDUCER_STEPS steps; other devices keep those
 * of the last step. */
enum { REDUCER_STEPS = 4 };
double reducer_busy_s(const struct reducer *r, int ago);

/* As reducer_busy_s for the last step, but counts only the time after `ns` (clock_ns()). If `ns` is
 * the end of the backward pass, the result is the exposed time. On asynchronous devices the result
 * is 0. */
double reducer_busy_after_s(const struct reducer *r, int64_t ns);
