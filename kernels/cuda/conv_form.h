/* The operation graphs of convolution: alone, and fused with the batch norm and ReLU around it.
 *
 * A form says what is fused; a problem is a form with types and a shape. Not every form has a plan
 * on every GPU and in every type: tests/kernels/cuda/plans/test_conv_forms.c holds the table. */
#ifndef KERNELS_CUDA_CONV_FORM_H
#define KERNELS_CUDA_CONV_FORM_H

#include "base/status.h"
#include "kernels/cuda/cudnn_graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ports (cudnn_graph.h) of each form; those after the arrow are written. "apply" stands for
 * relu(x * PRO_SCALE + PRO_SHIFT): the batch norm before, its result never stored. */
enum conv_form {
    CONV_FWD,         /* X W -> Y */
    CONV_BWD_DATA,    /* DY W -> DX */
    CONV_BWD_WEIGHTS, /* X DY -> DW */
    /* Y = relu(conv(X, W) + BIAS).  X W BIAS(f32) -> Y */
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

/* Makes the graph. BN_FINALIZE's EQ_SCALE and EQ_SHIFT are in the type that a prologue reads them
 * in: `type`, and f32 where there is no prologue (BF16). */
MUST_CHECK enum status conv_form_graph(const struct conv_problem *problem, struct cudnn_graph **g);

/* The problem as text without spaces at its ends, for messages and as a part of cache keys:
 * "fwd fp16 n256 c64 h56 w56 k64 r3x3 s1x1 p1x1 g1". */
void conv_problem_text(const struct conv_problem *problem, char *out, size_t size);

#endif
