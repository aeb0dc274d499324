/* Operation graphs of cuDNN, built from small pieces: tensors are declared, operations connect
 * them, and `cg_finish` makes the graph that plans are built for.
 *
 *     struct cudnn_graph *g;
 *     TRY(cg_open(&g));
 *     cg_tensor(g, CG_X, DTYPE_F16, x_dim);
 *     cg_tensor(g, CG_W, DTYPE_F16, w_dim);
 *     cg_tensor(g, CG_Y, DTYPE_F16, y_dim);
 *     cg_conv_fwd(g, CG_X, CG_W, CG_Y, &conv);
 *     st = cg_finish(g);
 *
 * The first failure is kept: what follows does nothing, and cg_finish returns it with its message.
 * A graph owns all descriptors that it made.
 *
 * Tensors are named by numbers, which are also the names under which memory is handed over when a
 * plan is executed. Those that a plan reads or writes are ports; values between two operations of
 * one graph are virtual, have no memory, and are numbered by the graph. All 4-d tensors lie in the
 * order NHWC, their dimensions are given as (N, C, H, W), and weights likewise as (O, I, KH, KW).
 * Memory is aligned to 16 bytes. Every operation computes in fp32. */
#ifndef KERNELS_CUDA_CUDNN_GRAPH_H
#define KERNELS_CUDA_CUDNN_GRAPH_H

#include "base/status.h"
#include "kernels/cuda/conv_problem.h"
#include "kernels/ops.h"

#include <stdint.h>

struct cudnn_desc;
struct cudnn_device;
struct cudnn_graph;

MUST_CHECK enum status cg_open(struct cudnn_graph **g);
/* To be called where the plans will be for a GPU that is there; of no effect for one that is
 * described. */
void cg_device(struct cudnn_graph *g, const struct cudnn_device *dev);
void cg_close(
    struct cudnn_graph *g); /* NULL is fine; not before the plans that were built for it */

/* Types are F32, F16 and BF16. */
void cg_tensor(struct cudnn_graph *g, enum cg_port port, enum dtype type, const int64_t dim[4]);
void cg_channels(struct cudnn_graph *g, enum cg_port port, enum dtype type, int64_t c);
/* One number that the host hands over by value: f32, or a 64-bit integer. */
void cg_scalar_f32(struct cudnn_graph *g, enum cg_port port);
void cg_scalar_i64(struct cudnn_graph *g, enum cg_port port);
/* A value between operations; returns its number. */
int cg_virtual(struct cudnn_graph *g, enum dtype type, const int64_t dim[4]);

/* y = conv(x, w). Groups follow from the dimensions: I is C / groups. */
void cg_conv_fwd(struct cudnn_graph *g, int x, int w, int y, const struct conv_attr *conv);
/* dx = conv_transpose(dy, w), added to what dx holds when `beta` is 1 rather than 0. */
void cg_conv_bwd_data(struct cudnn_graph *g, int dx, int w, int dy, const struct conv_attr *conv,
                      float beta);
/* dw from x and dy, added to what dw holds when `beta` is 1 rather than 0. */
void cg_conv_bwd_weights(struct cudnn_graph *g, int x, int dw, int dy, const struct conv_attr *conv,
                         float beta);

/* y = a + b, a - b, a * b; `b` may be per channel. */
void cg_add(struct cudnn_graph *g, int a, int b, int y);
void cg_sub(struct cudnn_graph *g, int a, int b, int y);
void cg_mul(struct cudnn_graph *g, int a, int b, int y);
void cg_relu(struct cudnn_graph *g, int x, int y);
/* dx = dy * (x > 0) */
void cg_relu_bwd(struct cudnn_graph *g, int dy, int x, int dx);

/* sum and sqsum (1, C, 1, 1; f32) of x and of its squares over (N, H, W). */
void cg_gen_stats(struct cudnn_graph *g, int x, int sum, int sqsum);

/* From SUM, SQSUM, GAMMA, BETA, RMEAN, RVAR, COUNT, EPS and FACTOR: MEAN, INVSTD, NEW_RMEAN,
 * NEW_RVAR, EQ_SCALE and EQ_SHIFT. All of them have been declared. */
void cg_bn_finalize(struct cudnn_graph *g);

/* DGAMMA, DBETA, EQ_DY, EQ_X and EQ_BIAS from the gradient `dy` of batch norm's result and from
 * BN_X, MEAN, INVSTD and GAMMA. All of them have been declared. */
void cg_bn_bwd_weights(struct cudnn_graph *g, int dy);

/* The end of building. The graph's descriptor is there after STATUS_OK only. */
MUST_CHECK enum status cg_finish(struct cudnn_graph *g);
const struct cudnn_desc *cg_graph(const struct cudnn_graph *g);

#endif
