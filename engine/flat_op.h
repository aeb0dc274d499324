/* Inside engine/: operations on flat arrays in device memory, planned once; gradient compression
 * (--grad-compress). */
#pragma once

#include "comm/comm.h"
#include "kernels/backend.h"

struct flat_op {
    struct op_plan *plan;
    void *workspace; /* NULL where the plan needs none */
};

/* y = x + z of `count` fp32 elements; y may be x or z. After a failed open, closing is unnecessary
 * but harmless, here and below. */
MUST_CHECK enum status flat_sum_open(struct device *dev, int64_t count, struct flat_op *o);
/* Runs in stream order, here and below. */
MUST_CHECK enum status flat_sum_run(const struct flat_op *o, struct stream *stream, float *x,
                                    float *z, float *y);

void flat_op_close(struct flat_op *o); /* a zeroed one is fine */

/* Gradient compression. Each rank sends its gradients divided by the number of ranks, so that the
 * sum cannot overflow unless the gradients do. In host memory one pass divides and rounds. On an
 * asynchronous device an operation rounds, and the communicator divides as it reads the values
 * (comm_op.factor). */
struct grad_compress {
    struct device *dev;
    enum dtype type; /* F16 or BF16 */
    int64_t count;
    float share;             /* 1 / ranks */
    void *narrow;            /* (count) the compressed gradients, in device memory */
    struct flat_op down, up; /* all zero in host memory */
};

/* Plans the compression to `type` of `count` gradients, which are then summed over `ranks` ranks.
 * After a failed open, closing is harmless. */
MUST_CHECK enum status grad_compress_open(struct device *dev, enum dtype type, int64_t count,
                                          int ranks, struct grad_compress *n);
void grad_compress_close(struct grad_compress *n); /* a zeroed one is fine */

/* Makes `op` send the compressed gradients instead of the fp32 ones. */
void grad_compress_describe(const struct grad_compress *n, struct comm_op *op);

/* Compresses the gradients, and expands their sum again; in stream order. */
MUST_CHECK enum status grad_compress_encode(const struct grad_compress *n, struct stream *s,
                                            float *gradients);
MUST_CHECK enum status grad_compress_decode(const struct grad_compress *n, struct stream *s,
                                            float *gradients);
