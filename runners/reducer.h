/* Brings a network's gradients together with those of other micro-batches and
 * other ranks, bucket by bucket, while the backward pass goes on.
 *
 * The flat gradient buffer is cut into ranges in the order in which the backward pass completes
 * them: a small first bucket, so that communication begins early, then large ones, which use the
 * network well (as torch's DistributedDataParallel: 1 MiB, then 25 MiB). A bucket whose last
 * gradient is complete is rounded to the type that a GPU would have computed it in, added to what
 * earlier micro-batches left, and handed to the communicator, which sums it over the ranks in place
 * in the background: no copies, unless it is compressed. Buckets start in the same order on every
 * rank, because the order is the program's.
 *
 *     reducer_begin(r, first, last);
 *     program_backward(p, reducer_complete, r);
 *     reducer_finish(r);                  after the last micro-batch: the gradients are sums
 *
 * All of it is in the order of the network's stream: a bucket is sent when the stream has come to
 * its completion, and what follows reducer_finish on the stream begins when the sums are there. The
 * host waits for neither, unless the communicator makes it (comm_wait_on).
 */
#ifndef RUNNERS_REDUCER_H
#define RUNNERS_REDUCER_H

#include "comm/comm.h"
#include "model/network.h"

struct reducer_config {
    struct network *net;
    /* NULL: nobody to share with; not owned. On a device whose streams go on beside the host it is
     * a device communicator. */
    struct comm *comm;
    bool rounded;        /* the gradients have been rounded by the caller */
    bool accumulate;     /* there are several micro-batches to a step */
    size_t first_bytes;  /* of the first bucket, at least */
    size_t bucket_bytes; /* of the others */
    enum dtype compress; /* what is sent: F32 (as it is), F16 or BF16 */
};

struct reducer;

MUST_CHECK enum status reducer_open(const struct reducer_config *config, struct reducer **out);
void reducer_close(struct reducer *r); /* NULL is fine */

/* Before the backward pass of a micro-batch: is it the first, is it the last of its step? poison:
 * its first gradient becomes infinite (for tests). */
void reducer_begin(struct reducer *r, bool first, bool last, bool poison);

/* The gradients [begin, end) are complete; for program_backward. `context` is the reducer. */
MUST_CHECK enum status reducer_complete(void *context, int64_t begin, int64_t end);

/* After the last micro-batch: what follows on the network's stream sees the sums. */
MUST_CHECK enum status reducer_finish(struct reducer *r);

/* What the sums are to be divided by to become the mean over the ranks. (Compressed gradients are
 * divided before they are sent, lest their sum overflow.) */
double reducer_divisor(const struct reducer *r);

int reducer_buckets(const struct reducer *r);

/* Where bucket i ends in the flat gradient buffer, in elements; the next one begins there. */
int64_t reducer_bucket_end(const struct reducer *r, int i);

/* Seconds during which at least one bucket was under way, of the last step, or of the one `ago`
 * steps before it; its gradients must have come to their sums. On a device beside the host the last
 * REDUCER_STEPS are remembered, elsewhere the last. */
enum { REDUCER_STEPS = 4 };
double reducer_busy_s(const struct reducer *r, int ago);

/* Of the last step's seconds, those after `ns` by clock_ns(): after the end of the backward pass
 * they are exposed. For devices whose streams are the calling thread; elsewhere 0. */
double reducer_busy_after_s(const struct reducer *r, int64_t ns);

#endif
