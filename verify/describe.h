/* Short ways to write operation descriptions. */
#ifndef VERIFY_DESCRIBE_H
#define VERIFY_DESCRIBE_H

#include "kernels/ops.h"

/* The bit of a role in a set. */
#define WITH(role) (1u << ROLE_##role)

/* A description of `kind` with every tensor that it needs and those optional ones in `with`, plain
 * fp32 (INDEX u8, LABEL i32). X, DX, Z and DZ have the shape of `x`; Y, DY, DY2 and INDEX that of
 * `y`; W, DW, MOMENTUM and the statistics of batch norm that of `w`; B and DB have as many
 * elements as `w` has rows; LABEL as many as `x` has. What is fused of convolution and batch norm
 * has the sizes that kernels/ops.h gives it. Attributes are zero. */
struct op_desc describe(enum op_kind kind, struct tensor_desc x, struct tensor_desc w,
                        struct tensor_desc y, unsigned with);

struct conv_shape {
    int n, c, h, w, o;
    int kernel[2], stride[2], pad[2];
    int groups;
};
struct op_desc describe_conv(enum op_kind kind, const struct conv_shape *s, unsigned with);

/* eps 1e-5 and momentum 0.1, PyTorch's defaults. Backward with ReLU has Y, or MASK where that is in
 * `with`. */
struct op_desc describe_bn(enum op_kind kind, int n, int c, int h, int w, bool relu, unsigned with);

struct op_desc describe_maxpool(enum op_kind kind, int n, int c, int h, int w,
                                const struct pool_attr *attr, unsigned with);
/* Y of this shape. */
struct op_desc describe_add_strided(int n, int c, int h, int w, const struct grid_attr *attr);
struct op_desc describe_avgpool(enum op_kind kind, int n, int c, int h, int w, int oh, int ow);
struct op_desc describe_linear(enum op_kind kind, int n, int in, int out, unsigned with);

/* RELU, ADD, DROPOUT or REORDER over one shape. */
struct op_desc describe_like(enum op_kind kind, struct tensor_desc t, unsigned with);

struct op_desc describe_xent(int n, int classes, float smoothing, unsigned with);
struct op_desc describe_sgd(int64_t n, const struct sgd_attr *attr);
struct op_desc describe_check_finite(int64_t n, int n_segments, const struct sgd_segment *segment);

/* ImageNet's mean and standard deviation. */
struct op_desc describe_normalize(int n, int h, int w);

struct tensor_desc plain_4d(int64_t n, int64_t c, int64_t h, int64_t w);

/* The same tensor in another layout. */
struct tensor_desc in_layout(struct tensor_desc t, enum layout layout);

/* Whether channels fit the layout. */
bool layout_fits(const struct tensor_desc *t, enum layout layout);

bool is_batch_norm(enum op_kind kind);

/* Whether `d` is one of the forms that have convolution and batch norm in fewer passes. */
bool is_fused(const struct op_desc *d);

/* One of them as the CUDA backend stores its tensors: NHWC, activations and weights of one type,
 * gradients of weights rounded to it in fp32. */
struct op_desc fused_of_type(struct op_desc d, enum dtype type);

/* The description with every layout PLAIN. */
struct op_desc plain_form(const struct op_desc *d);

#endif
