/* Converts descriptions of operations to problems, and problems to text. */
#include "kernels/cuda/conv_problem.h"

#include <inttypes.h>
#include <stdio.h>

const char *conv_form_str(enum conv_form form)
{
    static const char *const name[CONV_FORM_COUNT] = {
        [CONV_FWD] = "fwd",
        [CONV_BWD_DATA] = "dgrad",
        [CONV_BWD_WEIGHTS] = "wgrad",
        [CONV_FWD_BIAS] = "fwd+bias",
        [CONV_FWD_BIAS_RELU] = "fwd+bias+relu",
        [CONV_FWD_STATS] = "fwd+stats",
        [CONV_APPLY_FWD_STATS] = "apply+fwd+stats",
        [CONV_END_FWD_STATS] = "add+apply+fwd+stats",
        [CONV_END_TWO_FWD_STATS] = "2apply+fwd+stats",
        [CONV_APPLY_BWD_WEIGHTS] = "apply+wgrad",
        [CONV_BWD_DATA_BN] = "dgrad+drelu+bn",
        [CONV_BWD_DATA_ADD_BN] = "dgrad+add+drelu+bn",
        [CONV_BWD_DATA_TWO_BN] = "dgrad+drelu+2bn",
        [CONV_BWD_DATA_ADD_TWO_BN] = "dgrad+add+drelu+2bn",
    };
    return name[form];
}

void conv_problem_text(const struct conv_problem *a, char *out, size_t size)
{
    const struct conv_attr *v = &a->conv;
    snprintf(out, size,
             "%s %s n%" PRId64 " c%" PRId64 " h%" PRId64 " w%" PRId64 " k%" PRId64 " r%" PRId64
             "x%" PRId64 " s%dx%d p%dx%d g%d",
             conv_form_str(a->form), a->tf32 ? "tf32" : dtype_str(a->type), a->n, a->c, a->h, a->w,
             a->k, a->r, a->s, v->stride[0], v->stride[1], v->pad[0], v->pad[1], v->groups);
}

static bool in_order(const struct tensor_desc *t)
{
    bool pixel = t->layout == LAYOUT_PLAIN && t->dim[2] * t->dim[3] == 1;
    return t->layout == LAYOUT_NHWC || t->layout == LAYOUT_ANY || pixel;
}

static bool is_tf32(const struct tensor_desc *t)
{
    return t->type == DTYPE_F32 && t->rounds == DTYPE_TF32;
}

enum status conv_problem_of(const struct op_desc *desc, struct conv_problem *problem,
                            unsigned *rest)
{
    static const enum conv_form forms[] = {[OP_CONV_FWD] = CONV_FWD,
                                           [OP_CONV_BWD_DATA] = CONV_BWD_DATA,
                                           [OP_CONV_BWD_WEIGHTS] = CONV_BWD_WEIGHTS};
    TRY(op_check(desc));
    if (desc->kind > OP_CONV_BWD_WEIGHTS)
        return status_fail(STATUS_UNSUPPORTED, "%s is not a convolution", op_str(desc->kind));
    const struct tensor_desc *t = desc->t;
    const struct tensor_desc *x = &t[desc->kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X];
    const struct tensor_desc *w = &t[desc->kind == OP_CONV_BWD_WEIGHTS ? ROLE_DW : ROLE_W];
    const struct tensor_desc *y = &t[desc->kind == OP_CONV_FWD ? ROLE_Y : ROLE_DY];
    const struct conv_attr *conv = &desc->attr.conv;
    /* Engines that use tensor cores need at least 8 bytes per pixel, which is 4 channels of 16
     * bits. */
    int64_t channels = conv->groups == 1 ? (x->dim[1] + 3) / 4 * 4 : x->dim[1];
    bool padded_already = x->layout == LAYOUT_OPAQUE && x->opaque == channels;
    if ((!in_order(x) && !padded_already) || !in_order(w) || !in_order(y))
        return status_fail(STATUS_UNSUPPORTED, "%s: cuDNN plans need layout NHWC",
                           op_str(desc->kind));
    bool weights_fit =
        x->type == w->type || (desc->kind == OP_CONV_BWD_WEIGHTS && w->type == DTYPE_F32);
    if (!weights_fit || x->type != y->type || !dtype_is_float(x->type))
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: cuDNN plans need tensors of one type, f32, f16 or bf16",
                           op_str(desc->kind));

    *problem = (struct conv_problem){
        .form = forms[desc->kind],
        .type = x->type,
        .tf32 = is_tf32(x) || is_tf32(w) || is_tf32(y),
        .n = x->dim[0],
        .c = channels,
        .h = x->dim[2],
        .w = x->dim[3],
        .k = w->dim[0],
        .r = w->dim[2],
        .s = w->dim[3],
        .p = y->dim[2],
        .q = y->dim[3],
        .conv = *conv,
    };
    *rest = (t[ROLE_B].ndim ? CONV_REST_BIAS : 0) | (t[ROLE_DB].ndim ? CONV_REST_DB : 0) |
            (desc->kind == OP_CONV_FWD && conv->relu ? CONV_REST_RELU : 0) |
            (channels != x->dim[1] ? CONV_REST_PAD : 0);
    return STATUS_OK;
}
