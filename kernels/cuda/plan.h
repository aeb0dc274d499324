/* Inside the CUDA backend: how plans are made of descriptions.
 *
 * Activations lie in the order NHWC. A tensor whose layout is OPAQUE is NHWC too, but has as many
 * channels in memory as `opaque` says, those beyond its own being 0: a network's image has 4, which
 * tensor cores can load. Convolution asks for it, normalize writes it, and a reorder converts.
 *
 * Tensors of fp32 that round (ops.h) are taken where they have been rounded, and what is written is
 * left raw, but for what has one dimension, which is rounded in place afterwards. */
#ifndef KERNELS_CUDA_PLAN_H
#define KERNELS_CUDA_PLAN_H

#include "kernels/cuda/device.h"

/* Whether the elements lie in this order in memory; one pixel or one channel lies in both. */
bool cuda_lies(const struct tensor_desc *t, enum layout layout);

/* Channels in memory, of a 4-d tensor. */
int64_t cuda_channels(const struct tensor_desc *t);

/* `t` as an OPAQUE tensor of so many channels in memory, or NHWC where it has that many. */
void cuda_set_channels(struct tensor_desc *t, int64_t channels);

/* Gives tensors of `desc` that are ANY the layout `led` (4-d) or PLAIN, fills in the bytes of all,
 * and marks what is written as raw. STATUS_UNSUPPORTED for a tensor that is raw and is read, and
 * for floating tensors of two or more dimensions that are not of one type, DW apart. */
MUST_CHECK enum status cuda_resolve(struct op_desc *desc, enum layout led);

/* The same for what convolution and linear multiply: tensors that round to TF32 may be raw, since
 * tensor cores take no more of them as they load. Hopper's truncate the rest. */
MUST_CHECK enum status cuda_resolve_operands(struct op_desc *desc, enum layout led);

/* STATUS_UNSUPPORTED unless every 4-d tensor of `desc` lies in the order `led`. */
MUST_CHECK enum status cuda_all_lie(const struct op_desc *desc, enum layout led);

/* Makes a plan of `size` bytes, zero after its struct op_plan, around a copy of `desc`. It is freed
 * with free(): a plan that owns more has a function of its own. */
MUST_CHECK enum status cuda_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                                     enum status (*execute)(struct op_plan *plan,
                                                            void *const arg[ROLE_COUNT],
                                                            struct stream *s),
                                     struct op_plan **plan);

/* Rounds in place what has one dimension and was written: to be called last by those that write
 * such tensors. */
MUST_CHECK enum status cuda_round_written(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                                          const struct cu_queue *q);

/* Pieces of a workspace begin at multiples of this. */
static inline size_t cuda_align(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* A tensor as a matrix (rows, channels). */
struct cu_bn_shape cuda_matrix(const struct tensor_desc *t);

/* The member `seconds` of plans: what op_timer.h says, from the file of plans where it is known. 0
 * for a kind that lowering does not compare (put_attributes in op_seconds.c), on a device that is
 * to be deterministic, and where the device has no memory to time it in. */
enum status cuda_op_seconds(struct op_plan *plan, double *seconds);

/* Plan functions for the backend's records (see struct op_record). */
enum status cuda_plan_conv(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cuda_plan_conv_fused(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan);
enum status cuda_plan_linear(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cuda_plan_bn(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cuda_plan_bn_finalize(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan);
enum status cuda_plan_bn_bwd_apply(struct device *dev, const struct op_desc *desc,
                                   struct op_plan **plan);
enum status cuda_plan_maxpool(struct device *dev, const struct op_desc *desc,
                              struct op_plan **plan);
enum status cuda_plan_avgpool(struct device *dev, const struct op_desc *desc,
                              struct op_plan **plan);
enum status cuda_plan_add_strided(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan);
enum status cuda_plan_elements(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan);
enum status cuda_plan_dropout(struct device *dev, const struct op_desc *desc,
                              struct op_plan **plan);
enum status cuda_plan_reorder(struct device *dev, const struct op_desc *desc,
                              struct op_plan **plan);
enum status cuda_plan_normalize(struct device *dev, const struct op_desc *desc,
                                struct op_plan **plan);
enum status cuda_plan_xent(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cuda_plan_sgd(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
enum status cuda_plan_scale(struct device *dev, const struct op_desc *desc, struct op_plan **plan);

#endif
