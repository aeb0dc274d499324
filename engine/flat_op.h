/* Operations on flat arrays in device memory, each planned once, and gradient compression
 * (--grad-compress). For use inside engine/ only. */
#pragma once

#include "comm/comm.h"
#include "kernels/backend.h"

struct flat_op {
    struct op_plan *plan;
    void *workspace; /* NULL if the plan needs no workspace */
};

/* Plans y = x + z for `count` fp32 elements; y may be x or z. If an open function of this header
 * fails, the caller may call the close function but need not. */
MUST_CHECK enum status flat_sum_open(struct device *dev, int64_t count, struct flat_op *o);
/* Enqueues its work on `stream`. All functions below that have a stream argument do so too. */
MUST_CHECK enum status flat_sum_run(const struct flat_op *o, struct stream *stream, float *x,
                                    float *z, float *y);

void flat_op_close(struct flat_op *o); /* a zeroed struct is fine */

/* Gradient compression. Each rank sends its gradients divided by the number of ranks, so the sum
 * overflows only if a gradient overflows. In host memory, one pass divides and rounds the
 * gradients. On an asynchronous device, an operation rounds them, and the communicator divides the
 * values when it reads them (comm_op.factor). */
struct grad_compress {
    struct device *dev;
    enum dtype type; /* F16 or BF16 */
    int64_t count;
    float share;             /* 1 / ranks */
    void *narrow;            /* (count) the compressed gradients, in device memory */
    struct flat_op down, up; /* round to `type` and back; all zero if gradients are in host
                              * memory */
};

/* Plans to compress `count` gradients to `type`. `ranks` is the number of ranks over which the
 * caller sums the compressed gradients. */
MUST_CHECK enum status grad_compress_open(struct device *dev, enum dtype type, int64_t count,
                                          int ranks, struct grad_compress *n);
void grad_compress_close(struct grad_compress *n); /* a zeroed struct is fine */

/* Makes `op` send the compressed gradients instead of the fp32 gradients. */
void grad_compress_describe(const struct grad_compress *n, struct comm_op *op);

/* grad_compress_encode compresses the gradients; grad_compress_decode converts their sum back to
 * fp32. */
MUST_CHECK enum status grad_compress_encode(const struct grad_compress *n, struct stream *s,
                                            float *gradients);
MUST_CHECK enum status grad_compress_decode(const struct grad_compress *n, struct stream *s,
                                            float *gradients);
