/* Functions that make operation descriptions. */
#pragma once

#include "kernels/ops.h"

/* The bit of a role in a set of roles. */
#define WITH(role) ROLE_SET(role)

/* The residual's batch norm in OP_BN_BWD (with DZ) and in OP_CONV_BWD_DATA_BN. */
#define WITH_BN_OF_Z                                                                               \
    (WITH(Z) | WITH(Z_GAMMA) | WITH(Z_MEAN) | WITH(Z_INVSTD) | WITH(Z_DGAMMA) | WITH(Z_DBETA))
/* The end of a residual block, computed within OP_CONV_STATS_FWD. */
#define WITH_END          (WITH(AFFINE) | WITH(Z) | WITH(APPLIED))
#define WITH_DATA_BN_OF_Z (WITH_BN_OF_Z | WITH(Z_BETA) | WITH(Z_EQ))

/* A description of `kind` with every required tensor and the optional tensors in `with`, all plain
 * fp32 (INDEX u8, LABEL i32). X, DX, Z and DZ have the shape of `x`; Y, DY, DY2 and INDEX the shape
 * of `y`; W, DW, MOMENTUM and the statistics of batch norm the shape of `w`. B and DB have as many
 * elements as `w` has rows, LABEL as many as `x` has rows. Tensors of fused convolution and batch
 * norm have the sizes that kernels/ops.h defines. Attributes are zero. */
struct op_desc describe(enum op_kind kind, struct tensor_desc x, struct tensor_desc w,
                        struct tensor_desc y, uint64_t with);

struct conv_shape {
    int n, c, h, w, o;
    int kernel[2], stride[2], pad[2];
    int groups;
};
struct op_desc describe_conv(enum op_kind kind, const struct conv_shape *s, uint64_t with);

/* Describes batch norm with PyTorch's defaults, eps 1e-5 and momentum 0.1. Backward with ReLU reads
 * Y, or MASK if that is in `with`. */
struct op_desc describe_bn(enum op_kind kind, int n, int c, int h, int w, bool relu, uint64_t with);

/* Describes one of OPS_BN_POOL; n, c, h, w: shape of X. */
struct op_desc describe_bn_pool(enum op_kind kind, int n, int c, int h, int w,
                                const struct pool_attr *attr, uint64_t with);
struct op_desc describe_maxpool(enum op_kind kind, int n, int c, int h, int w,
                                const struct pool_attr *attr, uint64_t with);
/* n, c, h, w: shape of Y. */
struct op_desc describe_add_strided(int n, int c, int h, int w, const struct grid_attr *attr);
struct op_desc describe_avgpool(enum op_kind kind, int n, int c, int h, int w, int oh, int ow);
struct op_desc describe_linear(enum op_kind kind, int n, int in, int out, uint64_t with);

/* Describes RELU, ADD, DROPOUT or REORDER; all tensors have the shape of `t`. */
struct op_desc describe_like(enum op_kind kind, struct tensor_desc t, uint64_t with);

struct op_desc describe_xent(int n, int classes, float smoothing, uint64_t with);
struct op_desc describe_sgd(int64_t n, const struct sgd_attr *attr);
struct op_desc describe_check_finite(int64_t n, int n_segments, const struct sgd_segment *segment);

/* Describes NORMALIZE with ImageNet's mean and standard deviation. */
struct op_desc describe_normalize(int n, int h, int w, uint64_t with);

struct tensor_desc plain_4d(int64_t n, int64_t c, int64_t h, int64_t w);

/* The same tensor in another layout. */
struct tensor_desc in_layout(struct tensor_desc t, enum layout layout);

/* Whether the number of channels fits the layout. */
bool layout_fits(const struct tensor_desc *t, enum layout layout);

/* Whether `d` fuses convolution and batch norm into fewer passes over memory. */
bool is_fused(const struct op_desc *d);

/* A fused form with its tensors as the CUDA backend stores them: NHWC, activations and weights of
 * one type, gradients of weights stored as fp32, with values rounded to that type. */
struct op_desc fused_of_type(struct op_desc d, enum dtype type);

/* The description with every layout PLAIN. */
struct op_desc plain_form(const struct op_desc *d);
