/* Defines op_check: the preconditions of the operations. */
#include "kernels/op_roles.h"
#include "kernels/ops.h"

#include <inttypes.h>

static enum status refuse(const struct op_desc *d, const char *what)
{
    return status_fail(STATUS_INVALID, "%s: %s", op_str(d->kind), what);
}

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond))                                                                               \
            return refuse(d, "contract broken: " #cond);                                           \
    } while (0)

/* Tensor `a` if present, else `b`. The pass determines which of the two is present; both have the
 * same shape. */
static const struct tensor_desc *first_of(const struct op_desc *d, enum role a, enum role b)
{
    return d->t[a].ndim ? &d->t[a] : &d->t[b];
}

/* Types that a value can be rounded to. */
static bool is_precision(enum dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16 || t == DTYPE_TF32;
}

/* Whether each tensor of a set of roles is absent or has one dimension, of length `n`. */
static bool all_long(const struct op_desc *d, uint64_t roles, int64_t n)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles >> r & 1 && d->t[r].ndim != 0 && (d->t[r].ndim != 1 || d->t[r].dim[0] != n))
            return false;
    return true;
}

/* Whether each tensor of a set of roles is absent or has the shape of `like`. */
static bool all_shaped(const struct op_desc *d, uint64_t roles, const struct tensor_desc *like)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles >> r & 1 && d->t[r].ndim != 0 && !tensor_same_shape(&d->t[r], like))
            return false;
    return true;
}

static enum status check_conv_shapes(const struct op_desc *d)
{
    const struct conv_attr *a = &d->attr.conv;
    const struct tensor_desc *x = first_of(d, ROLE_X, ROLE_DX);
    const struct tensor_desc *w = first_of(d, ROLE_W, ROLE_DW);
    const struct tensor_desc *y = first_of(d, ROLE_Y, ROLE_DY);
    REQUIRE(x->ndim == 4 && w->ndim == 4 && y->ndim == 4);
    REQUIRE(a->groups >= 1 && a->stride[0] >= 1 && a->stride[1] >= 1);
    REQUIRE(a->pad[0] >= 0 && a->pad[1] >= 0);
    REQUIRE(x->dim[0] == y->dim[0]);
    REQUIRE(x->dim[1] == w->dim[1] * a->groups);
    REQUIRE(y->dim[1] == w->dim[0] && w->dim[0] % a->groups == 0);
    for (int i = 0; i < 2; i++) {
        int64_t room = x->dim[2 + i] + 2 * a->pad[i] - w->dim[2 + i];
        if (room < 0)
            return status_fail(STATUS_INVALID,
                               "%s: a %" PRId64 "x%" PRId64 " image is smaller than the %" PRId64
                               "x%" PRId64 " window",
                               op_str(d->kind), x->dim[2], x->dim[3], w->dim[2], w->dim[3]);
        REQUIRE(y->dim[2 + i] == room / a->stride[i] + 1);
    }
    return STATUS_OK;
}

static enum status check_conv(const struct op_desc *d)
{
    TRY(check_conv_shapes(d));
    REQUIRE(all_long(d, BIT(B) | BIT(DB), first_of(d, ROLE_Y, ROLE_DY)->dim[1]));
    return STATUS_OK;
}

/* Checks SUMS, the sums of the result per channel, and AFFINE, the scales and shifts that are
 * applied to the input. */
static enum status check_conv_stats(const struct op_desc *d)
{
    TRY(check_conv_shapes(d));
    REQUIRE(!d->attr.conv.relu);
    REQUIRE(all_long(d, BIT(AFFINE) | BIT(Z_AFFINE), 2 * d->t[ROLE_X].dim[1]));
    REQUIRE(all_shaped(d, BIT(Z) | BIT(APPLIED), &d->t[ROLE_X]));
    REQUIRE(!d->t[ROLE_Z].ndim == !d->t[ROLE_APPLIED].ndim);
    REQUIRE(!d->t[ROLE_Z].ndim || d->t[ROLE_AFFINE].ndim);
    REQUIRE(!d->t[ROLE_Z_AFFINE].ndim || d->t[ROLE_Z].ndim);
    REQUIRE(all_long(d, BIT(SUMS), 2 * first_of(d, ROLE_Y, ROLE_DY)->dim[1]));
    return STATUS_OK;
}

/* Whether all tensors of a set of roles are absent, or all of them and Z are present. */
static bool all_or_none(const struct op_desc *d, uint64_t roles)
{
    uint64_t present = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        present |= (uint64_t)(d->t[r].ndim > 0) << r & roles;
    return present == 0 || (present == roles && d->t[ROLE_Z].ndim);
}

static enum status check_conv_bwd_data_bn(const struct op_desc *d)
{
    TRY(check_conv_shapes(d));
    const struct tensor_desc *x = &d->t[ROLE_X];
    REQUIRE(all_or_none(d, Z_BN_READ | BIT(Z_BETA) | Z_BN_WRITTEN | BIT(Z_EQ)));
    REQUIRE(all_long(d, Z_BN_READ | BIT(Z_BETA) | Z_BN_WRITTEN, x->dim[1]));
    REQUIRE(all_long(d, BIT(Z_EQ), 3 * x->dim[1]));
    REQUIRE(all_shaped(d, BIT(DX) | BIT(Z) | BIT(DY2), x));
    REQUIRE(all_long(d, BIT(EQ), 3 * x->dim[1]));
    REQUIRE(all_long(d, BN_CHANNELS | BIT(BN_GAMMA) | BIT(BN_BETA), x->dim[1]));
    return STATUS_OK;
}

static enum status too_few_values(const struct op_desc *d)
{
    return refuse(d, "needs more than one value per channel when training; use a larger batch or "
                     "image");
}

/* Checks the tensors of the residual's batch norm. */
static enum status check_bn_of_z(const struct op_desc *d)
{
    int64_t c = d->t[ROLE_X].dim[1];
    REQUIRE(!d->t[ROLE_Z_AFFINE].ndim || d->t[ROLE_Z].ndim);
    REQUIRE(all_long(d, BIT(Z_AFFINE), 2 * c));
    if (d->kind != OP_BN_BWD)
        return STATUS_OK;
    REQUIRE(all_or_none(d, Z_BN_READ | Z_BN_WRITTEN));
    REQUIRE(all_long(d, Z_BN_READ | Z_BN_WRITTEN, c));
    REQUIRE(!d->t[ROLE_Z_GAMMA].ndim || (d->t[ROLE_DZ].ndim && !d->attr.bn.sync));
    return STATUS_OK;
}

static enum status check_bn(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    int64_t c = x->dim[1];
    REQUIRE(x->ndim == 4 && d->attr.bn.eps > 0);
    REQUIRE(all_long(d, BN_CHANNELS | BIT(GAMMA) | BIT(BETA) | BIT(RMEAN) | BIT(RVAR), c));
    REQUIRE(all_shaped(d, BIT(Y) | BIT(Z) | BIT(DY) | BIT(DY2) | BIT(DX) | BIT(DZ), x));
    const struct tensor_desc *mask = &d->t[ROLE_MASK];
    REQUIRE(mask->ndim == 0 ||
            (mask->ndim == 2 && mask->type == DTYPE_U8 &&
             mask->dim[0] == x->dim[0] * x->dim[2] * x->dim[3] && mask->dim[1] == (c + 7) / 8));
    REQUIRE(d->kind != OP_BN_BWD || !d->attr.bn.relu || d->t[ROLE_Y].ndim || mask->ndim);
    REQUIRE(!d->attr.bn.sync || d->attr.bn.sync->sum);
    TRY(check_bn_of_z(d));
    if (d->kind == OP_BN_FWD_TRAIN && !d->attr.bn.sync && x->dim[0] * x->dim[2] * x->dim[3] == 1)
        return too_few_values(d);
    return STATUS_OK;
}

static enum status check_bn_bwd_apply(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    REQUIRE(x->ndim == 4 && all_shaped(d, BIT(DY) | BIT(DX) | BIT(Z) | BIT(DZ), x));
    REQUIRE(all_long(d, BIT(EQ) | BIT(Z_EQ), 3 * x->dim[1]));
    REQUIRE(all_or_none(d, BIT(Z) | BIT(DZ) | BIT(Z_EQ)));
    return STATUS_OK;
}

static enum status check_bn_finalize(const struct op_desc *d)
{
    const struct bn_attr *a = &d->attr.bn;
    int64_t c = d->t[ROLE_GAMMA].dim[0];
    REQUIRE(all_long(d, BIT(GAMMA) | BIT(BETA) | BN_STATISTICS, c));
    REQUIRE(all_long(d, BIT(SUMS) | BIT(AFFINE), 2 * c));
    REQUIRE(a->eps > 0 && a->count >= 1 && (!a->sync || a->sync->sum));
    return a->sync || a->count > 1 ? STATUS_OK : too_few_values(d);
}

/* Checks the windows of maximum pooling; an index below `indices` fits in INDEX. */
static enum status check_windows(const struct op_desc *d, const struct pool_attr *a, int indices)
{
    const struct tensor_desc *x = first_of(d, ROLE_X, ROLE_DX);
    const struct tensor_desc *y = first_of(d, ROLE_Y, ROLE_DY);
    REQUIRE(a->kernel[0] * a->kernel[1] <= indices);
    for (int i = 0; i < 2; i++) {
        REQUIRE(a->kernel[i] >= 1 && a->stride[i] >= 1);
        REQUIRE(a->pad[i] >= 0 && 2 * a->pad[i] <= a->kernel[i]);
        int64_t room = x->dim[2 + i] + 2 * a->pad[i] - a->kernel[i];
        REQUIRE(room >= 0 && y->dim[2 + i] == room / a->stride[i] + 1);
    }
    REQUIRE(d->t[ROLE_INDEX].ndim == 0 || d->t[ROLE_INDEX].type == DTYPE_U8);
    REQUIRE(all_shaped(d, BIT(INDEX), y));
    return STATUS_OK;
}

static enum status check_pool(const struct op_desc *d)
{
    const struct tensor_desc *x = first_of(d, ROLE_X, ROLE_DX);
    const struct tensor_desc *y = first_of(d, ROLE_Y, ROLE_DY);
    REQUIRE(x->ndim == 4 && y->ndim == 4);
    REQUIRE(x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1]);
    REQUIRE(all_shaped(d, BIT(DY2), y));
    return op_in(d->kind, OPS_MAXPOOL) ? check_windows(d, &d->attr.pool, 256) : STATUS_OK;
}

static enum status check_bn_pool(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X], *y = first_of(d, ROLE_Y, ROLE_DY);
    REQUIRE(x->ndim == 4 && d->attr.bn.eps > 0 && !d->attr.bn.sync);
    REQUIRE(all_long(d, BN_CHANNELS | BIT(GAMMA) | BIT(BETA) | BIT(RMEAN) | BIT(RVAR), x->dim[1]));
    if (d->kind == OP_BN_STATISTICS)
        return x->dim[0] * x->dim[2] * x->dim[3] > 1 ? STATUS_OK : too_few_values(d);
    REQUIRE(y->ndim == 4 && x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1]);
    REQUIRE(all_shaped(d, BIT(DX), x) && all_shaped(d, BIT(DY2), y));
    return check_windows(d, &d->attr.bn.pool, POOL_NO_INDEX);
}

static enum status check_linear(const struct op_desc *d)
{
    const struct tensor_desc *x = first_of(d, ROLE_X, ROLE_DX);
    const struct tensor_desc *w = first_of(d, ROLE_W, ROLE_DW);
    const struct tensor_desc *y = first_of(d, ROLE_Y, ROLE_DY);
    REQUIRE(x->ndim == 2 && w->ndim == 2 && y->ndim == 2);
    REQUIRE(x->dim[0] == y->dim[0] && x->dim[1] == w->dim[1] && y->dim[1] == w->dim[0]);
    REQUIRE(all_long(d, BIT(B) | BIT(DB), w->dim[0]));
    return STATUS_OK;
}

static enum status check_elementwise(const struct op_desc *d)
{
    const struct tensor_desc *like = first_of(d, ROLE_X, ROLE_DY);
    REQUIRE(all_shaped(d, BIT(Y) | BIT(Z) | BIT(DY) | BIT(DY2) | BIT(DX), like));
    REQUIRE(!op_in(d->kind, OPS_DROPOUT) || (d->attr.dropout.p >= 0 && d->attr.dropout.p < 1));
    return STATUS_OK;
}

static enum status check_add_strided(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X], *y = &d->t[ROLE_Y];
    REQUIRE(x->ndim == 4 && y->ndim == 4);
    REQUIRE(x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1]);
    for (int i = 0; i < 2; i++) {
        int stride = d->attr.grid.stride[i];
        REQUIRE(stride >= 1 && x->dim[2 + i] == (y->dim[2 + i] + stride - 1) / stride);
    }
    return STATUS_OK;
}

/* Whether PARTNER is absent or has an index for each of the `rows` rows. */
static bool pairs_rows(const struct op_desc *d, int64_t rows)
{
    const struct tensor_desc *p = &d->t[ROLE_PARTNER];
    return p->ndim == 0 || (p->type == DTYPE_I32 && all_long(d, BIT(PARTNER), rows));
}

static enum status check_xent(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    REQUIRE(x->ndim == 2 && x->dim[1] >= 1);
    REQUIRE(d->t[ROLE_LABEL].ndim == 1 && d->t[ROLE_LABEL].dim[0] == x->dim[0]);
    REQUIRE(d->t[ROLE_LABEL].type == DTYPE_I32);
    REQUIRE(all_shaped(d, BIT(DX), x) && pairs_rows(d, x->dim[0]));
    REQUIRE(d->attr.xent.label_smoothing >= 0 && d->attr.xent.label_smoothing <= 1);
    return STATUS_OK;
}

static enum status check_segments(const struct op_desc *d, int64_t count)
{
    const struct sgd_attr *a = &d->attr.sgd;
    REQUIRE(a->clip >= 0);
    REQUIRE(a->n_segments >= 1 && a->segment && a->segment[0].begin == 0);
    REQUIRE(a->segment[a->n_segments - 1].end == count);
    for (int i = 0; i < a->n_segments; i++) {
        const struct sgd_segment *s = &a->segment[i];
        REQUIRE(s->begin <= s->end && s->trust >= 0 && (a->clip == 0 || s->trust == 0));
        REQUIRE(i == 0 || s->begin == a->segment[i - 1].end);
        REQUIRE(is_precision(s->gradient) && is_precision(s->master) && is_precision(s->copy));
        REQUIRE(!s->half || d->t[ROLE_DW_HALF].ndim);
    }
    static const enum role flat[] = {ROLE_W, ROLE_DW, ROLE_DW_HALF, ROLE_MOMENTUM, ROLE_WCOPY};
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
        REQUIRE(d->t[flat[i]].rounds == DTYPE_F32); /* the segments have their own precisions */
    return STATUS_OK;
}

static enum status check_sgd(const struct op_desc *d)
{
    const struct tensor_desc *w = &d->t[ROLE_W];
    REQUIRE(w->ndim == 1 && all_shaped(d, BIT(DW) | BIT(DW_HALF) | BIT(MOMENTUM) | BIT(WCOPY), w));
    return check_segments(d, w->dim[0]);
}

static enum status check_scaler(const struct op_desc *d)
{
    const struct scaler_rule *r = &d->attr.scaler;
    if (!r->dynamic)
        return STATUS_OK;
    REQUIRE(r->growth >= 1 && r->backoff > 0 && r->backoff <= 1);
    REQUIRE(r->interval >= 1 && r->min <= r->max);
    return STATUS_OK;
}

static enum status check_normalize(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    REQUIRE(x->ndim == 4 && x->dim[1] == 3 && x->type == DTYPE_U8);
    REQUIRE(x->layout == LAYOUT_NHWC && tensor_same_shape(&d->t[ROLE_Y], x));
    REQUIRE(pairs_rows(d, x->dim[0]));
    for (int c = 0; c < 3; c++)
        REQUIRE(d->attr.normalize.std[c] > 0);
    return STATUS_OK;
}

static enum status check_finite(const struct op_desc *d)
{
    REQUIRE(d->t[ROLE_DW].ndim == 1 && all_shaped(d, BIT(DW_HALF), &d->t[ROLE_DW]));
    return check_segments(d, d->t[ROLE_DW].dim[0]);
}

static enum status check_reorder(const struct op_desc *d)
{
    REQUIRE(tensor_same_shape(&d->t[ROLE_X], &d->t[ROLE_Y]));
    return STATUS_OK;
}

static enum status check_round(const struct op_desc *d)
{
    REQUIRE(d->t[ROLE_X].layout == d->t[ROLE_Y].layout && !d->t[ROLE_Y].raw);
    return check_reorder(d);
}

/* The additional checks of each kind of operation. op_check makes them after the checks that apply
 * to every kind. NULL: none. */
static enum status (*const checks[OP_KIND_COUNT])(const struct op_desc *d) = {
    [OP_CONV_FWD] = check_conv,
    [OP_CONV_BWD_DATA] = check_conv,
    [OP_CONV_BWD_WEIGHTS] = check_conv,
    [OP_BN_FWD_TRAIN] = check_bn,
    [OP_BN_FWD_EVAL] = check_bn,
    [OP_BN_BWD] = check_bn,
    [OP_CONV_STATS_FWD] = check_conv_stats,
    [OP_CONV_APPLY_BWD_WEIGHTS] = check_conv_stats,
    [OP_BN_FINALIZE] = check_bn_finalize,
    [OP_BN_APPLY] = check_bn,
    [OP_CONV_BWD_DATA_BN] = check_conv_bwd_data_bn,
    [OP_BN_BWD_APPLY] = check_bn_bwd_apply,
    [OP_BN_STATISTICS] = check_bn_pool,
    [OP_BN_POOL_FWD] = check_bn_pool,
    [OP_BN_POOL_BWD] = check_bn_pool,
    [OP_RELU_FWD] = check_elementwise,
    [OP_RELU_BWD] = check_elementwise,
    [OP_ADD] = check_elementwise,
    [OP_ADD_STRIDED] = check_add_strided,
    [OP_MAXPOOL_FWD] = check_pool,
    [OP_MAXPOOL_BWD] = check_pool,
    [OP_AVGPOOL_FWD] = check_pool,
    [OP_AVGPOOL_BWD] = check_pool,
    [OP_LINEAR_FWD] = check_linear,
    [OP_LINEAR_BWD_DATA] = check_linear,
    [OP_LINEAR_BWD_WEIGHTS] = check_linear,
    [OP_DROPOUT_FWD] = check_elementwise,
    [OP_DROPOUT_BWD] = check_elementwise,
    [OP_SOFTMAX_XENT] = check_xent,
    [OP_SGD] = check_sgd,
    [OP_CHECK_FINITE] = check_finite,
    [OP_SCALE_UPDATE] = check_scaler,
    [OP_ROUND] = check_round,
    [OP_NORMALIZE] = check_normalize,
    [OP_REORDER] = check_reorder,
};

enum status op_check(const struct op_desc *d)
{
    if ((unsigned)d->kind >= OP_KIND_COUNT)
        return status_fail(STATUS_INVALID, "unknown kind of operation %d", (int)d->kind);
    /* These checks apply to every kind: the tensors present are valid, and no required tensor is
     * missing. */
    const struct op_roles roles = op_roles(d->kind);
    const uint64_t shapeless = BIT(STATE) | BIT(METRICS) | BIT(SCALER);
    const uint64_t needed = (roles.reads | roles.writes) & ~roles.optional & ~shapeless;
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &d->t[r];
        if (t->ndim == 0 && needed >> r & 1)
            return status_fail(STATUS_INVALID, "%s: tensor %s is missing", op_str(d->kind),
                               role_str(r));
        REQUIRE(t->ndim >= 0 && t->ndim <= TENSOR_MAX_DIMS);
        REQUIRE((unsigned)t->type < DTYPE_COUNT && (unsigned)t->layout <= LAYOUT_OPAQUE);
        REQUIRE(t->type != DTYPE_TF32 && is_precision(t->rounds));
        REQUIRE(t->rounds == DTYPE_F32 || t->type == DTYPE_F32);
        REQUIRE(!t->raw || t->rounds != DTYPE_F32);
        for (int i = 0; i < t->ndim; i++)
            REQUIRE(t->dim[i] >= 1);
        bool blocked = t->layout == LAYOUT_NCHW8C || t->layout == LAYOUT_NCHW16C;
        REQUIRE(t->ndim == 0 || t->ndim == 4 || (t->layout != LAYOUT_NHWC && !blocked));
        REQUIRE(t->ndim == 0 || !blocked || t->dim[1] % tensor_block(t) == 0);
    }
    return checks[d->kind] ? checks[d->kind](d) : STATUS_OK;
}
