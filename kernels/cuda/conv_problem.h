/* Convolutions as problems. A form names the operations that are fused with the convolution; a
 * problem is a form with types and a shape. Both are independent of the library. Not every form has
 * a plan on every GPU and in every type. */
#pragma once

#include "kernels/ops.h"

/* Names of a graph's tensors, and of their memory when a plan is executed. */
enum cg_port {
    CG_NONE = 0,
    /* Convolution. */
    CG_X,
    CG_W,
    CG_Y,
    CG_DX,
    CG_DW,
    CG_DY,
    /* Tensors for the operations before and after the convolution, with a value per channel (1, C,
     * 1, 1). */
    CG_BIAS,
    CG_PRO_SCALE, /* applied as X is read: x * scale + shift, then ReLU */
    CG_PRO_SHIFT,
    CG_SUM, /* sums of Y and of its squares; f32 */
    CG_SQSUM,
    /* Batch norm. */
    CG_MEAN,
    CG_INVSTD,
    CG_GAMMA,
    CG_BETA,
    /* Tensors for the backward pass of a batch norm, if that pass is fused into the data gradient
     * of the following convolution. */
    CG_BN_X,     /* batch norm's input */
    CG_SHORTCUT, /* the tensor added to batch norm's result before the ReLU */
    CG_DY2,      /* the second of two gradients whose sum is the gradient of the ReLU's result */
    CG_DGAMMA,
    CG_DBETA,
    CG_EQ_DY, /* the gradient of CG_BN_X is EQ_DY * DX + EQ_X * BN_X + EQ_BIAS */
    CG_EQ_X,
    CG_EQ_BIAS,
    /* The shortcut's batch norm: its input Z, then its tensors of one value per channel. CG_Z_MEAN
     * corresponds to CG_MEAN of the main batch norm, and so on. */
    CG_Z,
    CG_Z_MEAN,
    CG_Z_INVSTD,
    CG_Z_GAMMA,
    CG_Z_BETA,
    CG_Z_DGAMMA,
    CG_Z_DBETA,
    CG_Z_EQ_DY,
    CG_Z_EQ_X,
    CG_Z_EQ_BIAS,
    /* Tensors for the end of a residual block. The next convolution computes the end of the block
     * as it reads its input. */
    CG_Z_SCALE,
    CG_Z_SHIFT,
    CG_APPLIED,
    CG_PORT_COUNT,
};

/* Each comment lists the ports of a form: its plan reads the ports before the arrow, and writes the
 * ports after the arrow. "apply" is relu(x * PRO_SCALE + PRO_SHIFT), the result of the preceding
 * batch norm and its ReLU. This result is never stored. */
enum conv_form {
    CONV_FWD,         /* X W -> Y */
    CONV_BWD_DATA,    /* DY W -> DX */
    CONV_BWD_WEIGHTS, /* X DY -> DW */
    /* Y = conv(X, W) + BIAS, without or with ReLU. X W BIAS(f32) -> Y */
    CONV_FWD_BIAS,
    CONV_FWD_BIAS_RELU,
    /* Y = conv(X, W), and the sums of Y for the following batch norm. X W -> Y SUM SQSUM */
    CONV_FWD_STATS,
    /* Y = conv(apply(X), W), and the sums of Y. X PRO_SCALE PRO_SHIFT W -> Y SUM SQSUM */
    CONV_APPLY_FWD_STATS,
    /* APPLIED = relu(X * PRO_SCALE + PRO_SHIFT + SHORTCUT), the end of a residual block;
     * Y = conv(APPLIED, W), and the sums of Y.
     * X PRO_SCALE PRO_SHIFT SHORTCUT W -> APPLIED Y SUM SQSUM */
    CONV_END_FWD_STATS,
    /* The same as CONV_END_FWD_STATS, with Z * Z_SCALE + Z_SHIFT in place of SHORTCUT. */
    CONV_END_TWO_FWD_STATS,
    /* DW = gradient of the weights, with apply(X) as input.  X PRO_SCALE PRO_SHIFT DY -> DW */
    CONV_APPLY_BWD_WEIGHTS,
    /* DX = conv_transpose(DY, W) * (bn(BN_X) > 0), and the sums of DX for the backward pass of the
     * batch norm bn.
     * DY W BN_X MEAN INVSTD GAMMA BETA -> DX DGAMMA DBETA EQ_DY EQ_X EQ_BIAS */
    CONV_BWD_DATA_BN,
    /* DX = (conv_transpose(DY, W) + DY2) * (bn(BN_X) + SHORTCUT > 0), and the sums of DX, at the
     * end of a residual block.
     * DY W DY2 SHORTCUT BN_X MEAN INVSTD GAMMA BETA -> DX DGAMMA DBETA EQ_DY EQ_X EQ_BIAS */
    CONV_BWD_DATA_ADD_BN,
    /* DX = (conv_transpose(DY, W) [+ DY2]) * (bn(BN_X) + bn_z(Z) > 0), and the sums of DX for both
     * batch norms, at the end of a residual block whose shortcut is bn_z(Z).
     * DY W [DY2] BN_X MEAN INVSTD GAMMA BETA Z Z_MEAN ... Z_BETA
     * -> DX DGAMMA ... EQ_BIAS Z_DGAMMA ... Z_EQ_BIAS */
    CONV_BWD_DATA_TWO_BN,
    CONV_BWD_DATA_ADD_TWO_BN,
    CONV_FORM_COUNT
};

/* Dimensions are those in memory: c includes channels of padding. */
struct conv_problem {
    enum conv_form form;
    enum dtype type; /* type of activations, weights and their gradients: F32, F16 or BF16 */
    bool tf32;       /* F32: operands may be rounded to TF32 before they are multiplied */
    int64_t n, c, h, w;
    int64_t k, r, s; /* result channels, kernel height and width */
    int64_t p, q;    /* result height and width */
    struct conv_attr conv;
};

/* Size of the longest text of a problem, including its NUL. */
enum { CONV_TEXT_MAX = 160 };

const char *conv_form_str(enum conv_form form); /* "fwd", "apply+fwd+stats" */

/* Writes the problem as text for messages and cache keys, such as "fwd fp16 n256 c64 h56 w56 k64
 * r3x3 s1x1 p1x1 g1". */
void conv_problem_text(const struct conv_problem *problem, char *out, size_t size);

/* The parts of an operation that its plain form does not compute; other kernels compute them. */
enum {
    CONV_REST_BIAS = 1 << 0, /* add B to Y */
    CONV_REST_RELU = 1 << 1, /* then ReLU */
    CONV_REST_DB = 1 << 2,   /* DB: the sums of DY per channel */
    /* X (or DX) and W (or DW) have fewer channels than the problem: zeros must pad them to
     * problem.c channels. The 3 channels of an image become 4, which tensor cores can load. */
    CONV_REST_PAD = 1 << 3,
};

/* Sets *problem to the problem of OP_CONV_FWD, OP_CONV_BWD_DATA or OP_CONV_BWD_WEIGHTS in its plain
 * form. The caller may then change `form` to another form with the same shapes. The three tensors
 * must be NHWC. ANY counts as NHWC. The layout of an X with padding channels is OPAQUE (see
 * plan.h). The tensors must have one type, F32, F16 or BF16, but DW may always be F32. The problem
 * is TF32 if the type is F32 and `rounds` of the operands is TF32. STATUS_UNSUPPORTED for other
 * tensors. *rest becomes a set of CONV_REST_*. */
MUST_CHECK enum status conv_problem_of(const struct op_desc *desc, struct conv_problem *problem,
                                       unsigned *rest);
