/* What of convolution and batch norm is fused: the device's answers to descriptions as they would
 * be planned, and, under FUSE_AUTO, its clock's.
 *
 * A chain of operations that is fused is taken where it takes less than its parts by more than a
 * clock errs from run to run; what is in between, and what cannot be timed, is left in parts. So a
 * choice is a function of times, which a device keeps (kernels/cuda/plan_file.h). */
#include "model/lower.h"

#include <stdlib.h>

/* By how much a fused chain must be faster, as a share of its own time. */
static const double MARGIN = 0.02;

enum { CHAIN_MAX = 8 };

/* Some operations, one after the other, as the device would plan them. */
struct trial {
    const struct lowering *l;
    bool covered; /* every one of them */
    int n;
    struct op_plan *plan[CHAIN_MAX];
};

static struct trial trial_of(const struct lowering *l)
{
    return (struct trial){.l = l, .covered = true};
}

static void trial_close(struct trial *t)
{
    for (int i = 0; i < t->n; i++)
        op_plan_free(t->plan[i]);
    t->n = 0;
}

/* Whether an operation that cannot be planned is done without: the plain plan says what is wrong.
 * Where the clock decides nobody has asked for a form, and one that a library fails at is one that
 * it has not. */
static bool is_lack(const struct trial *t, enum status st)
{
    return st == STATUS_UNSUPPORTED || st == STATUS_INVALID ||
           (st == STATUS_LIBRARY && t->l->p->config.fuse == FUSE_AUTO);
}

/* Adds an operation; where it is covered, its layouts that were ANY become what the plan chose. */
static enum status trial_add(struct trial *t, struct op_desc *d)
{
    struct op_plan *plan;
    if (!t->covered)
        return STATUS_OK;
    enum status st = op_plan(t->l->net->dev, d, &plan);
    if (is_lack(t, st)) {
        t->covered = false;
        return STATUS_OK;
    }
    TRY(st);
    *d = plan->desc;
    t->plan[t->n++] = plan;
    return STATUS_OK;
}

/* Seconds of all operations; 0 where one cannot be timed. */
static enum status trial_seconds(const struct trial *t, double *seconds)
{
    double one;
    *seconds = 0;
    for (int i = 0; i < t->n; i++) {
        enum status st = op_seconds(t->plan[i], &one);
        if (is_lack(t, st))
            one = 0;
        else
            TRY(st);
        if (!(one > 0)) {
            *seconds = 0;
            return STATUS_OK;
        }
        *seconds += one;
    }
    return STATUS_OK;
}

static bool allowed(const struct lowering *l, enum fuse level)
{
    enum fuse f = l->p->config.fuse;
    return l->p->config.train && (f == FUSE_AUTO || f >= level);
}

/* A chain fused, and its parts, which are described only where the clock decides. */
struct rivals {
    struct trial fused, parts;
};

static struct rivals rivals_of(const struct lowering *l)
{
    return (struct rivals){trial_of(l), trial_of(l)};
}

static void rivals_close(struct rivals *r)
{
    trial_close(&r->fused);
    trial_close(&r->parts);
}

/* Does it take the clock to decide? */
static bool compares(const struct rivals *r)
{
    return r->fused.l->p->config.fuse == FUSE_AUTO && r->fused.covered;
}

static enum status note_choice(struct program *p, const struct fusion *choice)
{
    size_t n = (size_t)p->n_fusions + 1;
    struct fusion *grown = realloc(p->fusion, n * sizeof *grown);
    if (!grown)
        return status_fail(STATUS_OOM, "no memory for what is fused");
    p->fusion = grown;
    grown[p->n_fusions++] = *choice;
    return STATUS_OK;
}

static enum status decide(const struct rivals *r, const char *form, const struct layer *layer,
                          bool *yes)
{
    const struct lowering *l = r->fused.l;
    struct fusion c = {.form = form, .layer = layer->name};
    *yes = r->fused.covered;
    if (!compares(r))
        return STATUS_OK;
    if (r->parts.covered) {
        TRY(trial_seconds(&r->fused, &c.fused));
        if (c.fused > 0)
            TRY(trial_seconds(&r->parts, &c.parts));
    }
    c.taken = c.fused > 0 && c.fused * (1 + MARGIN) < c.parts;
    *yes = c.taken;
    return note_choice(l->p, &c);
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
    return tensor_2d(DTYPE_U8, x->dim[0] * x->dim[2] * x->dim[3], (x->dim[1] + 7) / 8);
}

struct tensor_desc fuse_strided_desc(const struct tensor_desc *x, int stride)
{
    struct tensor_desc t = *x;
    for (int i = 2; i < 4; i++)
        t.dim[i] = (t.dim[i] + stride - 1) / stride;
    t.bytes = (size_t)tensor_count(&t) * dtype_size(t.type);
    return t;
}

static struct op_desc conv_desc(const struct lowering *l, const struct node *n, enum op_kind kind)
{
    struct op_desc d = {.kind = kind, .attr.conv = lower_conv_attr(n)};
    if (op_roles(kind).writes & 1u << ROLE_DW)
        d.t[ROLE_DW] = lower_gradient_desc(l, n->weight);
    if (op_roles(kind).reads & 1u << ROLE_W)
        d.t[ROLE_W] = lower_weight_desc(l, n->weight);
    return d;
}

/* X with everything per channel that a kind of batch norm cannot do without. */
static struct op_desc bn_desc(const struct lowering *l, const struct layer *bn,
                              const struct tensor_desc *x, enum op_kind kind)
{
    const struct node *n = bn->node;
    struct op_desc d = {.kind = kind,
                        .attr.bn = {.eps = BN_EPS, .momentum = BN_MOMENTUM, .relu = bn->relu}};
    d.attr.bn.sync = l->p->config.sync;
    d.attr.bn.count = x->dim[0] * x->dim[2] * x->dim[3];
    struct op_roles roles = op_roles(kind);
    unsigned touched = (roles.reads | roles.writes) & ~roles.optional;
    struct tensor_desc channel = tensor_1d(DTYPE_F32, n->c);
    const struct tensor_desc wanted[ROLE_COUNT] = {
        [ROLE_X] = *x,
        [ROLE_Y] = *x,
        [ROLE_DY] = *x,
        [ROLE_DX] = *x,
        [ROLE_GAMMA] = lower_weight_desc(l, n->weight),
        [ROLE_BETA] = lower_weight_desc(l, n->bias),
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

/* What precedes the result of convolution `n` in the backward pass: the gradient of it. */
static struct tensor_desc gradient_of_result(const struct lowering *l, const struct node *n)
{
    struct tensor_desc dy = lower_result_desc(l, n, LAYOUT_ANY);
    if (l->p->config.policy.operand == DTYPE_TF32)
        dy.rounds = DTYPE_TF32;
    return dy;
}

/* The data gradient of convolution `n` with batch norm's sums, X being the latter's input. */
static struct op_desc data_bn_desc(const struct lowering *l, const struct node *n,
                                   const struct layer *bn, const struct tensor_desc *x, int users)
{
    struct op_desc d = conv_desc(l, n, OP_CONV_BWD_DATA_BN);
    d.t[ROLE_DY] = gradient_of_result(l, n);
    d.t[ROLE_X] = d.t[ROLE_DX] = *x;
    if (users > 1)
        d.t[ROLE_DY2] = *x;
    if (bn->z >= 0)
        d.t[ROLE_Z] = *x;
    d.t[ROLE_MEAN] = d.t[ROLE_INVSTD] = tensor_1d(DTYPE_F32, bn->node->c);
    d.t[ROLE_BN_GAMMA] = lower_weight_desc(l, bn->node->weight);
    d.t[ROLE_BN_BETA] = lower_weight_desc(l, bn->node->bias);
    d.t[ROLE_DGAMMA] = lower_gradient_desc(l, bn->node->weight);
    d.t[ROLE_DBETA] = lower_gradient_desc(l, bn->node->bias);
    d.t[ROLE_EQ] = fuse_eq_desc(bn->node->c);
    return d;
}

static struct op_desc data_desc(const struct lowering *l, const struct node *n,
                                const struct tensor_desc *x)
{
    struct op_desc d = conv_desc(l, n, OP_CONV_BWD_DATA);
    d.t[ROLE_DY] = gradient_of_result(l, n);
    d.t[ROLE_DX] = *x;
    return d;
}

/* ---- sums ---- */

/* The convolution, then its batch norm from the sums, or both plain. */
static enum status try_stats(struct trial *t, const struct node *n, const struct layer *bn,
                             const struct tensor_desc *x, bool sums)
{
    struct op_desc conv = conv_desc(t->l, n, sums ? OP_CONV_STATS_FWD : OP_CONV_FWD);
    conv.t[ROLE_X] = *x;
    conv.t[ROLE_Y] = lower_result_desc(t->l, n, LAYOUT_ANY);
    if (sums)
        conv.t[ROLE_SUMS] = fuse_sums_desc(n->c);
    TRY(trial_add(t, &conv));
    const struct tensor_desc *y = &conv.t[ROLE_Y];
    struct op_desc rest = bn_desc(t->l, bn, y, sums ? OP_BN_APPLY : OP_BN_FWD_TRAIN);
    struct op_desc finalize = bn_desc(t->l, bn, y, OP_BN_FINALIZE);
    if (sums)
        TRY(trial_add(t, &finalize));
    return trial_add(t, &rest);
}

enum status fuse_stats(struct lowering *l, int i, const struct layer *layer, bool *yes)
{
    int next = lower_sole_user(l, i, NODE_BN);
    struct rivals r = rivals_of(l);
    enum status st;
    const struct tensor_desc *x = &l->p->value[layer->operand].desc;
    *yes = false;
    if (!allowed(l, FUSE_STATS) || next < 0 || layer->node->bias >= 0)
        return STATUS_OK;
    struct layer bn = {.node = &l->g->node[next]};
    CHECK(try_stats(&r.fused, layer->node, &bn, x, true));
    if (compares(&r))
        CHECK(try_stats(&r.parts, layer->node, &bn, x, false));
    CHECK(decide(&r, "stats", layer, yes));
done:
    rivals_close(&r);
    return st;
}

/* ---- a batch norm that its reader applies ---- */

static enum status try_applied(struct trial *t, const struct node *next, const struct layer *bn,
                               const struct tensor_desc *x)
{
    struct op_desc conv = conv_desc(t->l, next, OP_CONV_STATS_FWD);
    struct op_desc weights = conv_desc(t->l, next, OP_CONV_APPLY_BWD_WEIGHTS);
    struct op_desc data = data_bn_desc(t->l, next, bn, x, 1);
    struct op_desc rest = bn_desc(t->l, bn, x, OP_BN_BWD_APPLY);
    struct op_desc finalize = bn_desc(t->l, bn, x, OP_BN_FINALIZE);
    finalize.t[ROLE_AFFINE] = fuse_affine_desc(t->l, bn->node->c);
    TRY(trial_add(t, &finalize));
    conv.t[ROLE_X] = weights.t[ROLE_X] = *x;
    conv.t[ROLE_AFFINE] = weights.t[ROLE_AFFINE] = finalize.t[ROLE_AFFINE];
    conv.t[ROLE_Y] = lower_result_desc(t->l, next, LAYOUT_ANY);
    conv.t[ROLE_SUMS] = fuse_sums_desc(next->c);
    TRY(trial_add(t, &conv));
    weights.t[ROLE_DY] = data.t[ROLE_DY] = conv.t[ROLE_Y];
    TRY(trial_add(t, &weights));
    TRY(trial_add(t, &data));
    return trial_add(t, &rest);
}

/* The same with the normalised tensor stored, but for what may be fused all the same: the mask, for
 * one, which the backward pass reads in Y's place. */
static enum status try_stored(struct trial *t, const struct node *next, const struct layer *bn,
                              const struct tensor_desc *x)
{
    struct op_desc finalize = bn_desc(t->l, bn, x, OP_BN_FINALIZE);
    struct op_desc apply = bn_desc(t->l, bn, x, OP_BN_APPLY);
    struct op_desc conv = conv_desc(t->l, next, OP_CONV_STATS_FWD);
    struct op_desc weights = conv_desc(t->l, next, OP_CONV_BWD_WEIGHTS);
    struct op_desc data = data_desc(t->l, next, x);
    struct op_desc back = bn_desc(t->l, bn, x, OP_BN_BWD);
    apply.t[ROLE_MASK] = back.t[ROLE_MASK] = fuse_mask_desc(x);
    TRY(trial_add(t, &finalize));
    TRY(trial_add(t, &apply));
    conv.t[ROLE_X] = weights.t[ROLE_X] = *x;
    conv.t[ROLE_Y] = lower_result_desc(t->l, next, LAYOUT_ANY);
    conv.t[ROLE_SUMS] = fuse_sums_desc(next->c);
    TRY(trial_add(t, &conv));
    weights.t[ROLE_DY] = data.t[ROLE_DY] = conv.t[ROLE_Y];
    TRY(trial_add(t, &weights));
    TRY(trial_add(t, &data));
    return trial_add(t, &back);
}

/* TF32's operands are rounded forms of what is stored, and sums over ranks need the host between
 * sums and their use: neither goes with these. */
enum status fuse_apply(struct lowering *l, int last, const struct layer *layer, bool *yes)
{
    struct rivals r = rivals_of(l);
    enum status st;
    int next = lower_sole_user(l, last, NODE_CONV);
    const struct tensor_desc *x = &l->p->value[layer->x].desc;
    *yes = false;
    if (!allowed(l, FUSE_APPLY) || next < 0 || !layer->relu || layer->z >= 0 || l->p->config.sync ||
        l->p->config.policy.operand == DTYPE_TF32)
        return STATUS_OK;
    const struct node *n = &l->g->node[next];
    if (n->bias >= 0 || lower_sole_user(l, next, NODE_BN) < 0)
        return STATUS_OK;
    CHECK(try_applied(&r.fused, n, layer, x));
    if (compares(&r))
        CHECK(try_stored(&r.parts, n, layer, x));
    CHECK(decide(&r, "apply", layer, yes));
done:
    rivals_close(&r);
    return st;
}

/* ---- a batch norm that a data gradient brings the sums of ---- */

static enum status try_joined(struct trial *t, const struct node *n, const struct layer *bn,
                              const struct tensor_desc *x, int users)
{
    struct op_desc data = data_bn_desc(t->l, n, bn, x, users);
    struct op_desc rest = bn_desc(t->l, bn, x, OP_BN_BWD_APPLY);
    TRY(trial_add(t, &data));
    return trial_add(t, &rest);
}

static enum status try_apart(struct trial *t, const struct node *n, const struct layer *bn,
                             const struct tensor_desc *x, int users)
{
    struct op_desc data = data_desc(t->l, n, x);
    struct op_desc back = bn_desc(t->l, bn, x, OP_BN_BWD);
    back.t[ROLE_MASK] = fuse_mask_desc(x);
    if (users > 1)
        back.t[ROLE_DY2] = *x;
    if (bn->z >= 0)
        back.t[ROLE_DZ] = *x;
    TRY(trial_add(t, &data));
    return trial_add(t, &back);
}

/* The user of a node that comes first, so that its gradient comes last. */
static const struct node *first_user(const struct lowering *l, int i)
{
    for (int k = i + 1; k < l->g->n_nodes; k++)
        if (l->g->node[k].in[0] == i || l->g->node[k].in[1] == i)
            return &l->g->node[k];
    return NULL;
}

enum status fuse_join(struct lowering *l, int last, const struct layer *layer, bool *yes)
{
    struct rivals r = rivals_of(l);
    enum status st;
    const struct node *n = first_user(l, last);
    const struct tensor_desc *x = &l->p->value[layer->x].desc;
    int users = l->n_users[last];
    *yes = false;
    if (!allowed(l, FUSE_ALL) || !layer->relu || l->p->config.sync || !n || n->kind != NODE_CONV ||
        users > 2)
        return STATUS_OK;
    CHECK(try_joined(&r.fused, n, layer, x, users));
    if (compares(&r))
        CHECK(try_apart(&r.parts, n, layer, x, users));
    CHECK(decide(&r, "join", layer, yes));
done:
    rivals_close(&r);
    return st;
}

/* ---- the gradient of a projection that skips pixels ---- */

/* The data gradient and the batch norm before it, which takes it as a second one, or finds it added
 * to the first. */
static enum status try_strided(struct trial *t, const struct node *n, const struct layer *bn,
                               const struct tensor_desc *x, bool strided)
{
    struct op_desc data = data_desc(t->l, n, x);
    struct op_desc add = {.kind = OP_ADD_STRIDED, .attr.grid.stride = {n->stride, n->stride}};
    struct op_desc back = bn_desc(t->l, bn, x, OP_BN_BWD);
    if (bn->mask >= 0)
        back.t[ROLE_MASK] = fuse_mask_desc(x);
    else if (bn->relu)
        back.t[ROLE_Y] = *x;
    if (bn->z >= 0)
        back.t[ROLE_DZ] = *x;
    if (strided) {
        data.t[ROLE_DX] = add.t[ROLE_X] = fuse_strided_desc(x, n->stride);
        data.attr.conv.stride[0] = data.attr.conv.stride[1] = 1;
        add.t[ROLE_Y] = *x;
        TRY(trial_add(t, &add));
    } else {
        back.t[ROLE_DY2] = *x;
    }
    TRY(trial_add(t, &data));
    return trial_add(t, &back);
}

enum status fuse_strided(struct lowering *l, const struct layer *layer, bool *yes)
{
    struct rivals r = rivals_of(l);
    enum status st;
    const struct node *n = layer->node;
    const struct layer *bn = lower_producer(l, layer->x);
    const struct arriving *a = &l->grad[layer->x];
    *yes = false;
    if (!allowed(l, FUSE_STATS) || n->kind != NODE_CONV || n->kernel != 1 || n->pad != 0 ||
        n->stride == 1 || !bn || bn->kind != LAYER_BN || a->n != 1 || a->shared[0])
        return STATUS_OK;
    const struct tensor_desc *x = &l->p->value[bn->x].desc;
    CHECK(try_strided(&r.fused, n, bn, x, true));
    if (compares(&r))
        CHECK(try_strided(&r.parts, n, bn, x, false));
    CHECK(decide(&r, "strided", layer, yes));
done:
    rivals_close(&r);
    return st;
}

/* ---- masks ---- */

static enum status try_mask(struct trial *t, const struct layer *bn, const struct tensor_desc *x,
                            enum op_kind forward, bool mask)
{
    struct op_desc f = bn_desc(t->l, bn, x, forward);
    struct op_desc b = bn_desc(t->l, bn, x, OP_BN_BWD);
    if (mask)
        f.t[ROLE_MASK] = b.t[ROLE_MASK] = fuse_mask_desc(x);
    else
        b.t[ROLE_Y] = *x;
    TRY(trial_add(t, &f));
    return trial_add(t, &b);
}

enum status fuse_mask(struct lowering *l, const struct layer *layer, bool *yes)
{
    struct rivals r = rivals_of(l);
    enum status st;
    const struct tensor_desc *x = &l->p->value[layer->x].desc;
    const struct layer *before = lower_producer(l, layer->x);
    enum op_kind forward = before && before->sums >= 0 ? OP_BN_APPLY : OP_BN_FWD_TRAIN;
    *yes = false;
    if (!allowed(l, FUSE_STATS) || !layer->relu)
        return STATUS_OK;
    CHECK(try_mask(&r.fused, layer, x, forward, true));
    if (compares(&r))
        CHECK(try_mask(&r.parts, layer, x, forward, false));
    CHECK(decide(&r, "mask", layer, yes));
done:
    rivals_close(&r);
    return st;
}
