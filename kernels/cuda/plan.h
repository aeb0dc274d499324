/* Functions that make plans from descriptions. For use inside the CUDA backend only.
 *
 * Activations are NHWC. An OPAQUE tensor is NHWC too, but has `opaque` channels in memory; its
 * channels of padding are 0. A network's input image has 4 channels in memory, which tensor cores
 * can load: convolution requests this layout, normalize writes it, and a reorder converts it.
 *
 * An fp32 input whose `rounds` (ops.h) is another type must have been rounded already. Results are
 * left unrounded, except results of one dimension: these are rounded in place at the end. */
#pragma once

#include "kernels/cuda/device.h"

/* Whether the elements have this order in memory. For a tensor with one pixel or one channel
 * several layouts have the same order. */
bool cuda_lies(const struct tensor_desc *t, enum layout layout);

/* Number of channels that a 4-d tensor has in memory. */
int64_t cuda_channels(const struct tensor_desc *t);

/* Sets the number of channels that `t` has in memory. The layout of `t` becomes NHWC if this number
 * is t->dim[1], otherwise OPAQUE. */
void cuda_set_channels(struct tensor_desc *t, int64_t channels);

/* Gives 4-d tensors of layout ANY the layout `led`, and other tensors of layout ANY the layout
 * PLAIN. Fills in the bytes of all tensors. Marks results whose `rounds` is not F32 as
 * unrounded (`raw`). STATUS_UNSUPPORTED if an input is unrounded (except for ROUND and REORDER), or
 * if the floating tensors of 2 or more dimensions, except DW, have different types. */
MUST_CHECK enum status cuda_resolve(struct op_desc *desc, enum layout led);

/* Does the same as cuda_resolve for convolution and linear. Their inputs may be unrounded if
 * `rounds` is TF32, because tensor cores read only the bits of TF32 (Hopper truncates the others).
 */
MUST_CHECK enum status cuda_resolve_operands(struct op_desc *desc, enum layout led);

/* STATUS_UNSUPPORTED unless every 4-d tensor of `desc` has the order `led`. */
MUST_CHECK enum status cuda_all_lie(const struct op_desc *desc, enum layout led);

/* Does the same as op_plan_new for own kernels, and sets the plan's `seconds` to cuda_op_seconds.
 */
MUST_CHECK enum status cuda_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                                     op_executor *execute, struct op_plan **plan);

/* Rounds the results of one dimension in place. An operation with such results calls it last. */
MUST_CHECK enum status cuda_round_written(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                                          const struct cu_queue *q);

/* Whether cuda_round_written rounds this result. */
static inline bool cuda_rounds_result(const struct tensor_desc *t)
{
    return t->ndim == 1 && t->rounds != DTYPE_F32;
}

/* The copies and other kernels that a plan of OPS_CONV runs in addition to the library's plan; for
 * traffic.h. */
struct cuda_copies {
    size_t image, weights; /* bytes of the padded or converted copies; 0: no copy */
    size_t library;        /* bytes of the activations that the library itself copies */
    bool bias;             /* B is converted to fp32 */
    unsigned rest;         /* CONV_REST_*, which other kernels compute */
};
struct cuda_copies cuda_conv_copies(const struct op_plan *plan);

/* Rounds up to 256 bytes, the alignment of a workspace's pieces. */
static inline size_t cuda_align(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* A tensor as a matrix (rows, channels). */
struct cu_bn_shape cuda_matrix(const struct tensor_desc *t);

/* The windows' tensors X (or DX) and Y (or DY), without attributes. */
struct cu_pool cuda_pool_of(const struct tensor_desc *x, const struct tensor_desc *y);

/* Where a batch norm's statistics are written. */
struct cu_bn_statistics cuda_bn_statistics(const struct op_desc *d, void *const arg[ROLE_COUNT]);

/* The function `seconds` of plans. Sets *seconds to the time in the plan file, or measures the time
 * (op_timer.h) if the file has none. The time is 0 for a kind that lowering does not compare
 * (put_attributes in op_seconds.c), on a deterministic device, if the file has no time and the
 * device times nothing (struct device), and if the device lacks the memory for timing. */
enum status cuda_op_seconds(struct op_plan *plan, double *seconds);

/* Plan functions for the backend's records (see struct op_record). */
op_planner cuda_plan_conv, cuda_plan_conv_fused, cuda_plan_linear, cuda_plan_bn,
    cuda_plan_bn_finalize, cuda_plan_bn_bwd_apply, cuda_plan_bn_pool, cuda_plan_pool,
    cuda_plan_avgpool, cuda_plan_elements, cuda_plan_dropout, cuda_plan_reorder,
    cuda_plan_normalize, cuda_plan_xent, cuda_plan_sgd, cuda_plan_scale;
