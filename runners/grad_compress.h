/* Inside runners/: gradients in a narrow type, as --grad-compress sends them.
 *
 * What is sent are shares of the mean, whose sum cannot overflow where the gradients themselves do
 * not. In host memory one pass divides and rounds. On a device whose streams go on beside the host
 * an operation rounds, and the communicator divides as it takes the values up (comm_op.factor). */
#ifndef RUNNERS_GRAD_COMPRESS_H
#define RUNNERS_GRAD_COMPRESS_H

#include "comm/comm.h"
#include "runners/flat_op.h"

struct grad_compress {
    struct device *dev;
    enum dtype type; /* F16 or BF16 */
    int64_t count;
    float share;             /* of a rank in the mean */
    void *narrow;            /* (count) what is sent, in device memory */
    struct flat_op down, up; /* all zero in host memory */
};

/* For `count` gradients sent as `type` among `ranks`. On failure there is nothing to close, but it
 * does no harm. */
MUST_CHECK enum status grad_compress_open(struct device *dev, enum dtype type, int64_t count,
                                          int ranks, struct grad_compress *n);
void grad_compress_close(struct grad_compress *n); /* one that is all zero is fine */

/* Makes `op` send what is narrow in place of the gradients. */
void grad_compress_describe(const struct grad_compress *n, struct comm_op *op);

/* From the gradients to what is sent, and back from its sum; in stream order. */
MUST_CHECK enum status grad_compress_encode(const struct grad_compress *n, struct stream *s,
                                            float *gradients);
MUST_CHECK enum status grad_compress_decode(const struct grad_compress *n, struct stream *s,
                                            float *gradients);

#endif
