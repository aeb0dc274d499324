/* Convolutions as problems: a form says what is fused with the convolution, a problem is a form
 * with types and a shape. They know nothing of the library that solves them. Not every form has a
 * plan on every GPU and in every type: tests/kernels/cuda/plans/test_conv_forms.c holds the table.
 */
#ifndef KERNELS_CUDA_CONV_PROBLEM_H
#define KERNELS_CUDA_CONV_PROBLEM_H

#include "kernels/ops.h"

/* The names of tensors in graphs, and of memory when a plan is executed. */
enum cg_port {
    CG_NONE = 0,
    /* Convolution. */
    CG_X,
    CG_W,
    CG_Y,
    CG_DX,
    CG_DW,
    CG_DY,
    /* Per channel (1, C, 1, 1), before and after it. */
    CG_BIAS,
    CG_PRO_SCALE, /* x * scale + shift, then ReLU, as X is read */
    CG_PRO_SHIFT,
    CG_SUM, /* of Y, and of its squares; f32 */
    CG_SQSUM,
    /* Batch norm. */
    CG_MEAN,
    CG_INVSTD,
    CG_GAMMA,
    CG_BETA,
    CG_RMEAN, /* running statistics before and after */
    CG_RVAR,
    CG_NEW_RMEAN,
    CG_NEW_RVAR,
    CG_EQ_SCALE, /* y = x * scale + shift is the whole of batch norm */
    CG_EQ_SHIFT,
    CG_COUNT,  /* by value: N*H*W, 64-bit integer */
    CG_EPS,    /* by value, f32 */
    CG_FACTOR, /* by value, f32: the weight of the new value in running statistics */
    /* Batch norm's backward, fused into the data gradient of the convolution after it. */
    CG_BN_X,     /* what was normalised */
    CG_SHORTCUT, /* what was added before the ReLU */
    CG_DY2,      /* the other gradient of the ReLU's result */
    CG_DGAMMA,
    CG_DBETA,
    CG_EQ_DY, /* the gradient of CG_BN_X is EQ_DY * DX + EQ_X * BN_X + EQ_BIAS */
    CG_EQ_X,
    CG_EQ_BIAS,
    CG_PORT_COUNT,
};

/* The ports of each form; those after the arrow are written. "apply" stands for
 * relu(x * PRO_SCALE + PRO_SHIFT): the batch norm before, its result never stored. */
enum conv_form {
    CONV_FWD,         /* X W -> Y */
    CONV_BWD_DATA,    /* DY W -> DX */
    CONV_BWD_WEIGHTS, /* X DY -> DW */
    /* Y = conv(X, W) + BIAS, and relu() of that.  X W BIAS(f32) -> Y */
    CONV_FWD_BIAS,
    CONV_FWD_BIAS_RELU,
    /* With the sums that the batch norm after it needs.  X W -> Y SUM SQSUM */
    CONV_FWD_STATS,
    /* Y = conv(apply(X), W).  X PRO_SCALE PRO_SHIFT W -> Y SUM SQSUM */
    CONV_APPLY_FWD_STATS,
    /* DW from apply(X).  X PRO_SCALE PRO_SHIFT DY -> DW */
    CONV_APPLY_BWD_WEIGHTS,
    /* DX = conv_transpose(DY, W) * (bn(BN_X) > 0), and what the batch norm's backward needs of it.
     * DY W BN_X MEAN INVSTD GAMMA BETA -> DX DGAMMA DBETA EQ_DY EQ_X EQ_BIAS */
    CONV_BWD_DATA_BN,
    /* DX = (conv_transpose(DY, W) + DY2) * (bn(BN_X) + SHORTCUT > 0): the end of a residual block.
     * DY W DY2 SHORTCUT BN_X MEAN INVSTD GAMMA BETA -> DX DGAMMA DBETA EQ_DY EQ_X EQ_BIAS */
    CONV_BWD_DATA_ADD_BN,
    /* No convolution: from the sums of Y to its batch norm as one multiply-add per channel.
     * See cg_bn_finalize. */
    CONV_BN_FINALIZE,
    CONV_FORM_COUNT
};

/* Dimensions are those of the tensors in memory: c counts the channels of padding too. */
struct conv_problem {
    enum conv_form form;
    enum dtype type; /* of activations, weights and their gradients: F32, F16 or BF16 */
    bool tf32;       /* F32: products may be formed of operands rounded to TF32 */
    bool accumulate; /* BWD_DATA, BWD_WEIGHTS: add to what DX or DW holds */
    int64_t n, c, h, w;
    int64_t k, r, s; /* result channels, kernel height and width */
    int64_t p, q;    /* result height and width */
    struct conv_attr conv;
};

/* The longest text of a problem, with its NUL. */
enum { CONV_TEXT_MAX = 160 };

const char *conv_form_str(enum conv_form form); /* "fwd", "apply+fwd+stats" */

/* The problem as text without spaces at its ends, for messages and as a part of cache keys:
 * "fwd fp16 n256 c64 h56 w56 k64 r3x3 s1x1 p1x1 g1". */
void conv_problem_text(const struct conv_problem *problem, char *out, size_t size);

/* What of an operation its plain form leaves to be done by other kernels. */
enum {
    CONV_REST_BIAS = 1 << 0, /* add B to Y */
    CONV_REST_RELU = 1 << 1, /* then ReLU */
    CONV_REST_DB = 1 << 2,   /* DB: the sums of DY per channel */
    /* X (or DX) and W (or DW) have fewer channels than the problem: those up to problem.c must be
     * there and be zero. An image's 3 become 4, which tensor cores can load. */
    CONV_REST_PAD = 1 << 3,
};

/* The problem of OP_CONV_FWD, OP_CONV_BWD_DATA or OP_CONV_BWD_WEIGHTS in its plain form; `form` may
 * be changed to another one of the same shapes afterwards. Tensors must lie in the order NHWC (ANY
 * is taken as that; an X with channels of padding is OPAQUE, see plan.h) and be all three of one
 * type, F32, F16 or BF16; only DW may be F32 as well. F32 whose operands `rounds` to TF32 is TF32.
 * STATUS_UNSUPPORTED otherwise. `rest` is a set of CONV_REST_*. */
MUST_CHECK enum status conv_problem_of(const struct op_desc *desc, struct conv_problem *problem,
                                       unsigned *rest);

#endif
