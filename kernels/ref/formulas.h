/* The formulas of the reference, a function for one or more kinds of operations.
 *
 * A formula gets every tensor as doubles in plain row-major order, whatever its type and layout.
 * ref.c unpacks inputs, clears tensors that are only written, and packs results. It rounds each
 * value as the tensor's description says. So a formula computes in double and does not round, with
 * two exceptions: it rounds a result from which it computes another result (ref_stored), and it
 * rounds the values of segments that have their own precision. A result may share memory with an
 * input, since all inputs are unpacked before any result is packed. */
#pragma once

#include "kernels/ops.h"

struct ref_args {
    const struct op_desc *d;
    double *t[ROLE_COUNT]; /* NULL where the description has no such tensor */
    struct step_state *state;
    struct loss_metrics *metrics;
    struct scaler_state *scaler;
    double *sync; /* 2C + 1 sums over all ranks (struct bn_sync); NULL: no sums over ranks */
};

/* The index of element (n, c, h, w) of a 4-d tensor. */
static inline int64_t ref_at(const struct tensor_desc *t, int64_t n, int64_t c, int64_t h,
                             int64_t w)
{
    return ((n * t->dim[1] + c) * t->dim[2] + h) * t->dim[3] + w;
}

/* The values of one channel of a 4-d tensor, numbered 0..count-1 over (n, h, w). */
struct ref_channel {
    int64_t c, channels, plane, count;
};

static inline struct ref_channel ref_channel_of(const struct tensor_desc *x, int64_t c)
{
    int64_t plane = x->dim[2] * x->dim[3];
    return (struct ref_channel){c, x->dim[1], plane, x->dim[0] * plane};
}

/* The index in the tensor of element i of the channel. */
static inline int64_t ref_channel_at(const struct ref_channel *ch, int64_t i)
{
    return (i / ch->plane * ch->channels + ch->c) * ch->plane + i % ch->plane;
}

/* Rounds a value as its tensor will store it, for formulas that use the stored result. */
static inline double ref_stored(const struct tensor_desc *t, double v)
{
    return (double)dtype_round(t->type == DTYPE_F32 ? t->rounds : t->type, (float)v);
}

/* max(v, 0) that keeps a NaN. */
static inline double ref_relu(double v)
{
    return v < 0 ? 0 : v;
}

/* ref_bn_fwd: BN_FWD_TRAIN, BN_FWD_EVAL, BN_APPLY and BN_STATISTICS; ref_dropout and ref_avgpool:
 * both directions; ref_copy: REORDER and ROUND. */
typedef void ref_formula(const struct ref_args *a);
ref_formula ref_conv_fwd, ref_conv_bwd_data, ref_conv_bwd_weights, ref_bn_fwd, ref_bn_bwd,
    ref_conv_stats_fwd, ref_conv_apply_bwd_weights, ref_conv_bwd_data_bn, ref_bn_finalize,
    ref_bn_bwd_apply, ref_bn_pool_fwd, ref_bn_pool_bwd, ref_relu_fwd, ref_relu_bwd, ref_add,
    ref_add_strided, ref_maxpool_fwd, ref_maxpool_bwd, ref_avgpool, ref_linear_fwd,
    ref_linear_bwd_data, ref_linear_bwd_weights, ref_dropout, ref_softmax_xent, ref_sgd,
    ref_check_finite, ref_scale_set, ref_scale_update, ref_normalize, ref_copy;

/* Number of channels of a batch norm that sums over all ranks. */
int64_t ref_bn_channels(const struct op_desc *d);

/* Fills in a->sync with this rank's sums for OP_BN_FWD_TRAIN, OP_BN_FINALIZE or OP_BN_BWD, and sums
 * them over all ranks. */
MUST_CHECK enum status ref_bn_sync(const struct ref_args *a);

/* STATUS_INVALID if a label of OP_SOFTMAX_XENT is not a class. */
MUST_CHECK enum status ref_check_labels(const struct ref_args *a);
