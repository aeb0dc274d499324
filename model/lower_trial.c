/* Plans and times chains of operations.
 *
 * FUSE_AUTO takes a fused chain if its unfused parts are slower by more than the run-to-run
 * variation of the timing. Otherwise, or if a time is unknown, it takes the parts. The choice
 * depends only on the times. A GPU measures them once and stores them (kernels/cuda/plan_file.h); a
 * CPU estimates them from bytes. */
#include "model/lower_trial.h"

#include "base/array.h"
#include "base/text.h"

/* The time that a fused chain must save, as a fraction of the fused chain's own time. */
static const double MARGIN = 0.02;

void trial_close(struct trial *t)
{
    for (int i = 0; i < t->n; i++)
        op_plan_free(t->plan[i]);
    t->n = 0;
}

/* A library failure under FUSE_AUTO counts as missing support, because the user has not requested a
 * fused form. The trial keeps its message. But if the device no longer works, no operation can be
 * planned, and this failure is the one that says why. */
static enum status forgive_library(struct trial *t, enum status st)
{
    struct network *net = t->l->net;
    struct first_failure first = {0};
    first_failure_keep(&first, st);
    if (net->dev->backend->stream_sync(net->stream) != STATUS_OK)
        return first_failure_return(&first);
    if (!t->why[0])
        text_clean(t->why, sizeof t->why, first.message);
    return STATUS_OK;
}

/* Returns STATUS_OK if failure `st` only means that the device does not support the operation. (A
 * real error of an unfused part is reported later, when lowering plans the part.) */
static enum status forgive_lack(struct trial *t, enum status st)
{
    if (st == STATUS_LIBRARY && t->l->p->config.fuse == FUSE_AUTO)
        return forgive_library(t, st);
    return st == STATUS_UNSUPPORTED || st == STATUS_INVALID ? STATUS_OK : st;
}

enum status trial_add(struct trial *t, struct op_desc *d)
{
    struct op_plan *plan;
    if (!t->covered)
        return STATUS_OK;
    enum status st = op_plan(t->l->net->dev, d, &plan);
    if (st != STATUS_OK) {
        t->covered = false;
        return forgive_lack(t, st);
    }
    *d = plan->desc;
    t->plan[t->n++] = plan;
    return STATUS_OK;
}

enum status trial_seconds(struct trial *t, double *seconds)
{
    *seconds = 0;
    for (int i = 0; i < t->n; i++) {
        double one = 0;
        enum status st = op_seconds(t->plan[i], &one);
        if (st != STATUS_OK || !(one > 0)) {
            *seconds = 0;
            return forgive_lack(t, st);
        }
        *seconds += one;
    }
    return STATUS_OK;
}

bool trial_allowed(const struct lowering *l, enum fuse level)
{
    enum fuse f = l->p->config.fuse;
    return l->p->config.train && (f == FUSE_AUTO || f >= level);
}

enum status trial_choose(struct program *p, struct fusion *c)
{
    c->taken = c->fused > 0 && c->fused * (1 + MARGIN) < c->parts;
    if (c->taken)
        c->why[0] = '\0';
    TRY(array_reserve(&p->fusion, p->n_fusions));
    p->fusion[p->n_fusions++] = *c;
    return STATUS_OK;
}

/* Whether the fused chain is faster than its parts. If the device cannot plan the chain because its
 * library fails, the choice says so. */
static enum status compare(struct trial *fused, struct trial *parts, struct fusion *c)
{
    if (fused->covered && parts->covered) {
        TRY(trial_seconds(fused, &c->fused));
        if (c->fused > 0)
            TRY(trial_seconds(parts, &c->parts));
    }
    text_clean(c->why, sizeof c->why, fused->why[0] ? fused->why : parts->why);
    return trial_choose(fused->l->p, c);
}

enum status trial_decide(const struct lowering *l, const char *form, const struct chain *chain,
                         enum status (*add)(struct trial *t, const struct chain *c, bool fused),
                         bool *yes)
{
    enum status st;
    struct fusion choice = {.form = form, .layer = chain->layer->name};
    struct trial fused = {.l = l, .covered = true}, parts = fused;
    CHECK(add(&fused, chain, true));
    *yes = fused.covered;
    if (l->p->config.fuse != FUSE_AUTO || (!fused.covered && !fused.why[0]))
        goto done;
    if (fused.covered)
        CHECK(add(&parts, chain, false));
    CHECK(compare(&fused, &parts, &choice));
    *yes = choice.taken;
done:
    trial_close(&fused);
    trial_close(&parts);
    return st;
}

/* ---- descriptions ---- */

struct tensor_desc fuse_sums_desc(int64_t channels)
{
    return tensor_1d(DTYPE_F32, 2 * channels);
}

struct tensor_desc fuse_affine_desc(const struct lowering *l, int64_t channels)
{
    struct tensor_desc t = tensor_1d(DTYPE_F32, 2 * channels);
    return lower_typed(l, t, l->p->config.policy.activation);
}

struct tensor_desc fuse_eq_desc(int64_t channels)
{
    return tensor_1d(DTYPE_F32, 3 * channels);
}

struct tensor_desc fuse_mask_desc(const struct tensor_desc *x)
{
    struct tensor_desc t =
        tensor_2d(DTYPE_U8, x->dim[0] * x->dim[2] * x->dim[3], (x->dim[1] + 7) / 8);
    t.layout = LAYOUT_ANY;
    t.bytes = 0;
    return t;
}

struct tensor_desc fuse_strided_desc(const struct tensor_desc *x, int stride)
{
    struct tensor_desc t = *x;
    for (int i = 2; i < 4; i++)
        t.dim[i] = (t.dim[i] + stride - 1) / stride;
    t.bytes = (size_t)tensor_count(&t) * dtype_size(t.type);
    return t;
}

struct op_desc trial_conv(const struct lowering *l, const struct node *n, enum op_kind kind)
{
    struct op_desc d = {.kind = kind, .attr.conv = lower_conv_attr(n)};
    if (op_roles(kind).writes & ROLE_SET(DW))
        d.t[ROLE_DW] = lower_gradient_desc(l, n->weight);
    if (op_roles(kind).reads & ROLE_SET(W))
        d.t[ROLE_W] = lower_weight_desc(l, n->weight);
    return d;
}

struct op_desc trial_bn(const struct lowering *l, const struct layer *bn,
                        const struct tensor_desc *x, enum op_kind kind)
{
    const struct node *n = bn->node;
    struct op_desc d = {.kind = kind,
                        .attr.bn = {.eps = BN_EPS, .momentum = BN_MOMENTUM, .relu = bn->relu}};
    d.attr.bn.sync = l->p->config.sync;
    d.attr.bn.count = x->dim[0] * x->dim[2] * x->dim[3];
    struct op_roles roles = op_roles(kind);
    uint64_t touched = (roles.reads | roles.writes) & ~roles.optional;
    struct tensor_desc channel = tensor_1d(DTYPE_F32, n->c);
    const struct tensor_desc wanted[ROLE_COUNT] = {
        [ROLE_X] = *x,
        [ROLE_Y] = *x,
        [ROLE_DY] = *x,
        [ROLE_DX] = *x,
        [ROLE_GAMMA] = lower_weight_desc(l, n->weight),
        [ROLE_BETA] = lower_weight_desc(l, n->bias),
        [ROLE_BN_GAMMA] = lower_weight_desc(l, n->weight),
        [ROLE_BN_BETA] = lower_weight_desc(l, n->bias),
        [ROLE_DGAMMA] = lower_gradient_desc(l, n->weight),
        [ROLE_DBETA] = lower_gradient_desc(l, n->bias),
        [ROLE_MEAN] = channel,
        [ROLE_INVSTD] = channel,
        [ROLE_RMEAN] = lower_weight_desc(l, n->mean),
        [ROLE_RVAR] = lower_weight_desc(l, n->var),
        [ROLE_SUMS] = fuse_sums_desc(n->c),
        [ROLE_EQ] = fuse_eq_desc(n->c),
    };
    for (int r = 0; r < ROLE_COUNT; r++)
        if (touched >> r & 1)
            d.t[r] = wanted[r];
    return d;
}

void trial_residual(const struct lowering *l, struct op_desc *d, const struct node *z)
{
    struct op_roles roles = op_roles(d->kind);
    struct tensor_desc x = d->t[ROLE_X];
    if (!z)
        return;
    struct tensor_desc channel = tensor_1d(DTYPE_F32, z->c);
    const struct tensor_desc wanted[ROLE_COUNT] = {
        [ROLE_Z] = x,
        [ROLE_DZ] = x,
        [ROLE_Z_AFFINE] = fuse_sums_desc(z->c),
        [ROLE_Z_GAMMA] = lower_weight_desc(l, z->weight),
        [ROLE_Z_BETA] = lower_weight_desc(l, z->bias),
        [ROLE_Z_MEAN] = channel,
        [ROLE_Z_INVSTD] = channel,
        [ROLE_Z_DGAMMA] = lower_gradient_desc(l, z->weight),
        [ROLE_Z_DBETA] = lower_gradient_desc(l, z->bias),
        [ROLE_Z_EQ] = fuse_eq_desc(z->c),
    };
    for (int r = 0; r < ROLE_COUNT; r++)
        if (wanted[r].ndim && (roles.reads | roles.writes) >> r & 1)
            d->t[r] = wanted[r];
}

/* Describes the gradient of the result of convolution `n`. */
static struct tensor_desc gradient_of_result(const struct lowering *l, const struct node *n)
{
    struct tensor_desc dy = lower_result_desc(l, n, LAYOUT_ANY);
    if (l->p->config.policy.operand == DTYPE_TF32)
        dy.rounds = DTYPE_TF32;
    return dy;
}

struct op_desc trial_data_bn(const struct lowering *l, const struct chain *c)
{
    struct op_desc d = trial_bn(l, c->bn, c->x, OP_CONV_BWD_DATA_BN);
    d.attr = trial_conv(l, c->n, OP_CONV_BWD_DATA).attr;
    d.t[ROLE_W] = lower_weight_desc(l, c->n->weight);
    d.t[ROLE_DY] = gradient_of_result(l, c->n);
    if (c->users > 1)
        d.t[ROLE_DY2] = *c->x;
    if (c->bn->value[ROLE_Z] >= 0)
        d.t[ROLE_Z] = *c->x;
    trial_residual(l, &d, c->bn->z_bn);
    return d;
}

struct op_desc trial_data(const struct lowering *l, const struct node *n,
                          const struct tensor_desc *x)
{
    struct op_desc d = trial_conv(l, n, OP_CONV_BWD_DATA);
    d.t[ROLE_DY] = gradient_of_result(l, n);
    d.t[ROLE_DX] = *x;
    return d;
}
