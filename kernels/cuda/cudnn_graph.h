/* Operation graphs of cuDNN: the caller declares tensors and connects them by operations, and
 * `cg_finish` makes the graph that plans are built for.
 *
 *     struct cudnn_graph *g;
 *     TRY(cg_open(&g));
 *     cg_tensor(g, CG_X, DTYPE_F16, x_dim);
 *     cg_tensor(g, CG_W, DTYPE_F16, w_dim);
 *     cg_tensor(g, CG_Y, DTYPE_F16, y_dim);
 *     cg_conv_fwd(g, CG_X, CG_W, CG_Y, &conv);
 *     st = cg_finish(g);
 *
 * A graph records its first failure: later calls do nothing, and cg_finish returns the failure with
 * its message. A graph owns all its descriptors.
 *
 * A number identifies each tensor, in the graph and when a plan is executed. Tensors that a plan
 * reads or writes in memory are ports. Values between two operations of one graph are virtual: they
 * have no memory, and the graph chooses their numbers. Dimensions are given as (N, C, H, W), for
 * weights as (O, I, KH, KW); in memory all 4-d tensors are NHWC. Memory is aligned to 16 bytes.
 * Every operation computes in fp32. */
#pragma once

#include "base/status.h"
#include "kernels/cuda/conv_problem.h"
#include "kernels/ops.h"

#include <stdint.h>

struct cudnn_desc;
struct cudnn_device;
struct cudnn_graph;

MUST_CHECK enum status cg_open(struct cudnn_graph **g);
/* Sets the GPU. Call it before planning for a GPU that is present. It has no effect for a described
 * GPU. */
void cg_device(struct cudnn_graph *g, const struct cudnn_device *dev);
void cg_close(struct cudnn_graph *g); /* first close the plans made for `g`; NULL is fine */

/* Types are F32, F16 and BF16. */
void cg_tensor(struct cudnn_graph *g, enum cg_port port, enum dtype type, const int64_t dim[4]);
void cg_channels(struct cudnn_graph *g, enum cg_port port, enum dtype type, int64_t c);
/* Declares a virtual tensor and returns its number. */
int cg_virtual(struct cudnn_graph *g, enum dtype type, const int64_t dim[4]);

/* y = conv(x, w). The dimensions determine the number of groups: it is C / I. */
void cg_conv_fwd(struct cudnn_graph *g, int x, int w, int y, const struct conv_attr *conv);
/* dx = conv_transpose(dy, w) */
void cg_conv_bwd_data(struct cudnn_graph *g, int dx, int w, int dy, const struct conv_attr *conv);
/* Computes dw from x and dy. */
void cg_conv_bwd_weights(struct cudnn_graph *g, int x, int dw, int dy,
                         const struct conv_attr *conv);

/* y = a + b, a - b, a * b; `b` may have one value per channel. */
void cg_add(struct cudnn_graph *g, int a, int b, int y);
void cg_sub(struct cudnn_graph *g, int a, int b, int y);
void cg_mul(struct cudnn_graph *g, int a, int b, int y);
void cg_relu(struct cudnn_graph *g, int x, int y);
/* dx = dy * (x > 0) */
void cg_relu_bwd(struct cudnn_graph *g, int dy, int x, int dx);

/* sum and sqsum (1, C, 1, 1; f32) are the sums of x and of x^2 over (N, H, W). */
void cg_gen_stats(struct cudnn_graph *g, int x, int sum, int sqsum);

/* The tensors of one batch norm's backward pass. */
struct cg_bn {
    enum cg_port x, mean, invstd, gamma, beta;
    enum cg_port dgamma, dbeta, eq_dy, eq_x, eq_bias;
};

/* Computes dgamma, dbeta, eq_dy, eq_x and eq_bias from the gradient `dy` of batch norm's result and
 * from x, mean, invstd and gamma. The caller must have declared all these tensors. */
void cg_bn_bwd_weights(struct cudnn_graph *g, int dy, const struct cg_bn *bn);

/* Finishes the graph. Call cg_graph only after STATUS_OK. */
MUST_CHECK enum status cg_finish(struct cudnn_graph *g);
const struct cudnn_desc *cg_graph(const struct cudnn_graph *g);
