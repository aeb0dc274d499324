/* Chooses which operations of convolution and batch norm are fused: plans the fused operations on
 * the device and, under FUSE_AUTO, times them.
 *
 * FUSE_AUTO takes a fused chain if it is faster than its parts by more than the run-to-run
 * variation of the timing; otherwise, or if the chain cannot be timed, it takes the parts. The
 * choice therefore depends only on the times, which the device stores
 * (kernels/cuda/plan_file.h). */
#include "model/lower.h"

#include "base/array.h"

/* The time that a fused chain must save, as a fraction of the fused chain's own time. */
static const double MARGIN = 0.02;

enum { CHAIN_MAX = 8 };

/* A sequence of operations as the device would plan them. */
struct trial {
    const struct lowering *l;
    bool covered; /* the device can plan all operations of the sequence */
    int n;
    struct op_plan *plan[CHAIN_MAX];
};

static void trial_close(struct trial *t)
{
    for (int i = 0; i < t->n; i++)
        op_plan_free(t->plan[i]);
    t->n = 0;
}

/* Whether failure `st` only means that the device does not support the operation. (If an unfused
 * part causes an error, that error is reported when the part is planned.) Under FUSE_AUTO the user
 * has not requested a fused form, so a failure of the library counts as missing support too. */
static bool is_lack(const struct trial *t, enum status st)
{
    return st == STATUS_UNSUPPORTED || st == STATUS_INVALID ||
           (st == STATUS_LIBRARY && t->l->p->config.fuse == FUSE_AUTO);
}

/* Adds operation `d`. If the device can plan it, each layout of *d that was ANY becomes the layout
 * that the plan chose. */
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

/* Total seconds of the operations; 0 if one of them cannot be timed. */
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

static enum status note_choice(struct program *p, const struct fusion *choice)
{
    TRY(array_reserve(&p->fusion, p->n_fusions));
    p->fusion[p->n_fusions++] = *choice;
    return STATUS_OK;
}

/* Whether the fused chain, which the device can plan, is faster than its parts. */
static enum status compare(const struct trial *fused, const struct trial *parts, struct fusion *c)
{
    if (parts->covered) {
        TRY(trial_seconds(fused, &c->fused));
        if (c->fused > 0)
            TRY(trial_seconds(parts, &c->parts));
    }
    c->taken = c->fused > 0 && c->fused * (1 + MARGIN) < c->parts;
    return note_choice(fused->l->p, c);
}

/* The description of a chain of operations; each form uses the members that it needs. */
struct chain {
    const struct layer *layer;   /* the layer that the choice is made for */
    const struct node *n;        /* the convolution */
    const struct layer *bn;      /* the batch norm */
    const struct tensor_desc *x; /* input of the chain or of its batch norm */
    int users;                   /* number of users of the batch norm's result */
    enum op_kind forward;        /* the batch norm's forward operation */
};

/* Decides whether the chain is fused. Its parts are planned only under FUSE_AUTO. */
static enum status decide(const struct lowering *l, const char *form, const struct chain *chain,
                          enum status (*add)(struct trial *t, const struct chain *c, bool fused),
                          bool *yes)
{
    enum status st;
    struct fusion choice = {.form = form, .layer = chain->layer->name};
    struct trial fused = {.l = l, .covered = true}, parts = fused;
    CHECK(add(&fused, chain, true));
    *yes = fused.covered;
    if (l->p->config.fuse != FUSE_AUTO || !fused.covered)
        goto done;
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

static struct op_desc conv_desc(const struct lowering *l, const struct node *n, enum op_kind kind)
{
    struct op_desc d = {.kind = kind, .attr.conv = lower_conv_attr(n)};
    if (op_roles(kind).writes & 1u << ROLE_DW)
        d.t[ROLE_DW] = lower_gradient_desc(l, n->weight);
    if (op_roles(kind).reads & 1u << ROLE_W)
        d.t[ROLE_W] = lower_weight_desc(l, n->weight);
    return d;
}

/* Describes a batch norm operation of `kind` on `x`, with all tensors that are not optional. */
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

/* Describes the gradient of the result of convolution `n`. */
static struct tensor_desc gradient_of_result(const struct lowering *l, const struct node *n)
{
    struct tensor_desc dy = lower_result_desc(l, n, LAYOUT_ANY);
    if (l->p->config.policy.operand == DTYPE_TF32)
        dy.rounds = DTYPE_TF32;
    return dy;
}

/* Describes the data gradient of the chain's convolution together with the batch norm's sums. The
 * operation's X is c->x. */
static struct op_desc data_bn_desc(const struct lowering *l, const struct chain *c)
{
    struct op_desc d = bn_desc(l, c->bn, c->x, OP_CONV_BWD_DATA_BN);
    d.attr = conv_desc(l, c->n, OP_CONV_BWD_DATA).attr;
    d.t[ROLE_W] = lower_weight_desc(l, c->n->weight);
    d.t[ROLE_DY] = gradient_of_result(l, c->n);
    if (c->users > 1)
        d.t[ROLE_DY2] = *c->x;
    if (c->bn->value[ROLE_Z] >= 0)
        d.t[ROLE_Z] = *c->x;
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

/* Adds the convolution and its batch norm. In the fused form, the batch norm uses the sums that the
 * convolution computes. */
static enum status add_stats(struct trial *t, const struct chain *c, bool fused)
{
    struct op_desc conv = conv_desc(t->l, c->n, fused ? OP_CONV_STATS_FWD : OP_CONV_FWD);
    conv.t[ROLE_X] = *c->x;
    conv.t[ROLE_Y] = lower_result_desc(t->l, c->n, LAYOUT_ANY);
    if (fused)
        conv.t[ROLE_SUMS] = fuse_sums_desc(c->n->c);
    TRY(trial_add(t, &conv));
    const struct tensor_desc *y = &conv.t[ROLE_Y];
    struct op_desc rest = bn_desc(t->l, c->bn, y, fused ? OP_BN_APPLY : OP_BN_FWD_TRAIN);
    struct op_desc finalize = bn_desc(t->l, c->bn, y, OP_BN_FINALIZE);
    if (fused)
        TRY(trial_add(t, &finalize));
    return trial_add(t, &rest);
}

enum status fuse_stats(struct lowering *l, int i, const struct layer *layer, bool *yes)
{
    int next = lower_sole_user(l, i, NODE_BN);
    *yes = false;
    if (!allowed(l, FUSE_STATS) || next < 0 || layer->node->bias >= 0)
        return STATUS_OK;
    struct layer bn = {.node = &l->g->node[next]};
    struct chain c = {
        .layer = layer, .n = layer->node, .bn = &bn, .x = &l->p->value[layer->value[ROLE_X]].desc};
    return decide(l, "stats", &c, add_stats, yes);
}

/* ---- a batch norm that the next convolution applies ---- */

/* Adds all operations of the batch norm, from the statistics in the forward pass up to the
 * gradient. The unfused parts store the normalised tensor, but use other fusions: for example, the
 * backward pass reads a mask instead of Y. */
static enum status add_applied(struct trial *t, const struct chain *c, bool fused)
{
    const struct lowering *l = t->l;
    struct op_desc finalize = bn_desc(l, c->bn, c->x, OP_BN_FINALIZE);
    struct op_desc apply = bn_desc(l, c->bn, c->x, OP_BN_APPLY);
    struct op_desc conv = conv_desc(l, c->n, OP_CONV_STATS_FWD);
    struct op_desc weights =
        conv_desc(l, c->n, fused ? OP_CONV_APPLY_BWD_WEIGHTS : OP_CONV_BWD_WEIGHTS);
    struct op_desc data = fused ? data_bn_desc(l, c) : data_desc(l, c->n, c->x);
    struct op_desc back = bn_desc(l, c->bn, c->x, fused ? OP_BN_BWD_APPLY : OP_BN_BWD);
    if (fused)
        finalize.t[ROLE_AFFINE] = fuse_affine_desc(l, c->bn->node->c);
    else
        apply.t[ROLE_MASK] = back.t[ROLE_MASK] = fuse_mask_desc(c->x);
    TRY(trial_add(t, &finalize));
    if (!fused)
        TRY(trial_add(t, &apply));
    conv.t[ROLE_X] = weights.t[ROLE_X] = *c->x;
    conv.t[ROLE_AFFINE] = weights.t[ROLE_AFFINE] = finalize.t[ROLE_AFFINE];
    conv.t[ROLE_Y] = lower_result_desc(l, c->n, LAYOUT_ANY);
    conv.t[ROLE_SUMS] = fuse_sums_desc(c->n->c);
    TRY(trial_add(t, &conv));
    weights.t[ROLE_DY] = data.t[ROLE_DY] = conv.t[ROLE_Y];
    TRY(trial_add(t, &weights));
    TRY(trial_add(t, &data));
    return trial_add(t, &back);
}

/* *yes is false for TF32, whose operands are rounded copies of the stored tensor, and for batch
 * norm over all ranks, whose sums the host reduces before they are used. */
enum status fuse_apply(struct lowering *l, int last, const struct layer *layer, bool *yes)
{
    int next = lower_sole_user(l, last, NODE_CONV);
    *yes = false;
    if (!allowed(l, FUSE_APPLY) || next < 0 || !layer->relu || layer->value[ROLE_Z] >= 0 ||
        l->p->config.sync || l->p->config.policy.operand == DTYPE_TF32)
        return STATUS_OK;
    const struct node *n = &l->g->node[next];
    if (n->bias >= 0 || lower_sole_user(l, next, NODE_BN) < 0)
        return STATUS_OK;
    struct chain c = {
        .layer = layer, .n = n, .bn = layer, .x = &l->p->value[layer->x].desc, .users = 1};
    return decide(l, "apply", &c, add_applied, yes);
}

/* ---- a data gradient that also computes a batch norm's backward sums ---- */

static enum status add_joined(struct trial *t, const struct chain *c, bool fused)
{
    struct op_desc data = fused ? data_bn_desc(t->l, c) : data_desc(t->l, c->n, c->x);
    struct op_desc back = bn_desc(t->l, c->bn, c->x, fused ? OP_BN_BWD_APPLY : OP_BN_BWD);
    if (!fused) {
        back.t[ROLE_MASK] = fuse_mask_desc(c->x);
        if (c->users > 1)
            back.t[ROLE_DY2] = *c->x;
        if (c->bn->value[ROLE_Z] >= 0)
            back.t[ROLE_DZ] = *c->x;
    }
    TRY(trial_add(t, &data));
    return trial_add(t, &back);
}

/* Returns the first user of node i. The backward pass computes that user's data gradient last. */
static const struct node *first_user(const struct lowering *l, int i)
{
    for (int k = i + 1; k < l->g->n_nodes; k++)
        if (l->g->node[k].in[0] == i || l->g->node[k].in[1] == i)
            return &l->g->node[k];
    return NULL;
}

enum status fuse_join(struct lowering *l, int last, const struct layer *layer, bool *yes)
{
    struct chain c = {.layer = layer,
                      .n = first_user(l, last),
                      .bn = layer,
                      .x = &l->p->value[layer->x].desc,
                      .users = l->n_users[last]};
    *yes = false;
    if (!allowed(l, FUSE_ALL) || !layer->relu || l->p->config.sync || !c.n ||
        c.n->kind != NODE_CONV || c.users > 2)
        return STATUS_OK;
    return decide(l, "join", &c, add_joined, yes);
}

/* ---- the gradient of a projection that skips pixels ---- */

/* Adds the convolution's data gradient, and the backward pass of the batch norm before the
 * convolution. In the unfused form, the batch norm reads that gradient as DY2; in the fused form,
 * the gradient is already added to DY. */
static enum status add_strided(struct trial *t, const struct chain *c, bool fused)
{
    const struct node *n = c->n;
    struct op_desc data = data_desc(t->l, n, c->x);
    struct op_desc add = {.kind = OP_ADD_STRIDED, .attr.grid.stride = {n->stride, n->stride}};
    struct op_desc back = bn_desc(t->l, c->bn, c->x, OP_BN_BWD);
    if (c->bn->value[ROLE_MASK] >= 0)
        back.t[ROLE_MASK] = fuse_mask_desc(c->x);
    else if (c->bn->relu)
        back.t[ROLE_Y] = *c->x;
    if (c->bn->value[ROLE_Z] >= 0)
        back.t[ROLE_DZ] = *c->x;
    if (fused) {
        data.t[ROLE_DX] = add.t[ROLE_X] = fuse_strided_desc(c->x, n->stride);
        data.attr.conv.stride[0] = data.attr.conv.stride[1] = 1;
        add.t[ROLE_Y] = *c->x;
        TRY(trial_add(t, &add));
    } else {
        back.t[ROLE_DY2] = *c->x;
    }
    TRY(trial_add(t, &data));
    return trial_add(t, &back);
}

enum status fuse_strided(struct lowering *l, const struct layer *layer, bool *yes)
{
    const struct node *n = layer->node;
    const struct layer *bn = lower_producer(l, layer->x);
    const struct arriving *a = &l->grad[layer->x];
    *yes = false;
    if (!allowed(l, FUSE_STATS) || n->kind != NODE_CONV || n->kernel != 1 || n->pad != 0 ||
        n->stride == 1 || !bn || bn->kind != LAYER_BN || a->n != 1 || a->shared[0])
        return STATUS_OK;
    struct chain c = {.layer = layer, .n = n, .bn = bn, .x = &l->p->value[bn->x].desc};
    return decide(l, "strided", &c, add_strided, yes);
}

/* ---- masks ---- */

static enum status add_masked(struct trial *t, const struct chain *c, bool fused)
{
    struct op_desc f = bn_desc(t->l, c->bn, c->x, c->forward);
    struct op_desc b = bn_desc(t->l, c->bn, c->x, OP_BN_BWD);
    if (fused)
        f.t[ROLE_MASK] = b.t[ROLE_MASK] = fuse_mask_desc(c->x);
    else
        b.t[ROLE_Y] = *c->x;
    TRY(trial_add(t, &f));
    b.t[ROLE_MASK] = f.t[ROLE_MASK];
    return trial_add(t, &b);
}

enum status fuse_mask(struct lowering *l, const struct layer *layer, bool *yes)
{
    const struct layer *before = lower_producer(l, layer->x);
    bool sums = before && before->value[ROLE_SUMS] >= 0;
    struct chain c = {.layer = layer,
                      .bn = layer,
                      .x = &l->p->value[layer->x].desc,
                      .forward = sums ? OP_BN_APPLY : OP_BN_FWD_TRAIN};
    *yes = false;
    if (!allowed(l, FUSE_STATS) || !layer->relu)
        return STATUS_OK;
    return decide(l, "mask", &c, add_masked, yes);
}
