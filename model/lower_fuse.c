/* Chooses which operations of convolution and batch norm are fused (lower_trial.h). The end of a
 * residual block is in lower_block.c. */
#include "model/lower_trial.h"

/* ---- sums ---- */

/* Adds the convolution and its batch norm. In the fused form, the batch norm uses the sums that the
 * convolution computes. */
static enum status add_stats(struct trial *t, const struct chain *c, bool fused)
{
    struct op_desc conv = trial_conv(t->l, c->n, fused ? OP_CONV_STATS_FWD : OP_CONV_FWD);
    conv.t[ROLE_X] = *c->x;
    conv.t[ROLE_Y] = lower_result_desc(t->l, c->n, LAYOUT_ANY);
    if (fused)
        conv.t[ROLE_SUMS] = fuse_sums_desc(c->n->c);
    TRY(trial_add(t, &conv));
    const struct tensor_desc *y = &conv.t[ROLE_Y];
    struct op_desc rest = trial_bn(t->l, c->bn, y, fused ? OP_BN_APPLY : OP_BN_FWD_TRAIN);
    struct op_desc finalize = trial_bn(t->l, c->bn, y, OP_BN_FINALIZE);
    if (fused)
        TRY(trial_add(t, &finalize));
    return trial_add(t, &rest);
}

enum status fuse_stats(struct lowering *l, int i, const struct layer *layer, bool *yes)
{
    int next = lower_sole_user(l, i, NODE_BN);
    *yes = false;
    if (!trial_allowed(l, FUSE_STATS) || next < 0 || layer->node->bias >= 0)
        return STATUS_OK;
    struct layer bn = {.node = &l->g->node[next]};
    struct chain c = {
        .layer = layer, .n = layer->node, .bn = &bn, .x = &l->p->value[layer->value[ROLE_X]].desc};
    return trial_decide(l, "stats", &c, add_stats, yes);
}

/* ---- a batch norm that the next convolution applies ---- */

/* Adds all operations of the batch norm, from the statistics in the forward pass to the gradient of
 * its input. The unfused chain stores the normalised tensor, but has other fusions. For example,
 * its backward pass reads a mask instead of Y. */
static enum status add_applied(struct trial *t, const struct chain *c, bool fused)
{
    const struct lowering *l = t->l;
    struct op_desc finalize = trial_bn(l, c->bn, c->x, OP_BN_FINALIZE);
    struct op_desc apply = trial_bn(l, c->bn, c->x, OP_BN_APPLY);
    struct op_desc conv = trial_conv(l, c->n, OP_CONV_STATS_FWD);
    struct op_desc weights =
        trial_conv(l, c->n, fused ? OP_CONV_APPLY_BWD_WEIGHTS : OP_CONV_BWD_WEIGHTS);
    struct op_desc data = fused ? trial_data_bn(l, c) : trial_data(l, c->n, c->x);
    struct op_desc back = trial_bn(l, c->bn, c->x, fused ? OP_BN_BWD_APPLY : OP_BN_BWD);
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

/* Excludes TF32 and batch norm over all ranks. The operands of TF32 are rounded copies of the
 * stored tensor. In batch norm over all ranks, the host reduces the sums before an operation uses
 * them. */
enum status fuse_apply(struct lowering *l, int last, const struct layer *layer, bool *yes)
{
    int next = lower_sole_user(l, last, NODE_CONV);
    *yes = false;
    if (!trial_allowed(l, FUSE_APPLY) || next < 0 || !layer->relu || layer->value[ROLE_Z] >= 0 ||
        l->p->config.sync || l->p->config.policy.operand == DTYPE_TF32)
        return STATUS_OK;
    const struct node *n = &l->g->node[next];
    if (n->bias >= 0 || lower_sole_user(l, next, NODE_BN) < 0)
        return STATUS_OK;
    struct chain c = {
        .layer = layer, .n = n, .bn = layer, .x = &l->p->value[layer->x].desc, .users = 1};
    return trial_decide(l, "apply", &c, add_applied, yes);
}

/* ---- the gradient of a projection that skips pixels ---- */

/* Appends two operations to the trial: the convolution's data gradient, and the backward pass of
 * the batch norm that precedes the convolution. In the unfused form, the batch norm reads that
 * gradient as DY2. In the fused form, DY already contains it. */
static enum status add_strided(struct trial *t, const struct chain *c, bool fused)
{
    const struct node *n = c->n;
    struct op_desc data = trial_data(t->l, n, c->x);
    struct op_desc add = {.kind = OP_ADD_STRIDED, .attr.grid.stride = {n->stride, n->stride}};
    struct op_desc back = trial_bn(t->l, c->bn, c->x, OP_BN_BWD);
    if (c->bn->value[ROLE_MASK] >= 0)
        back.t[ROLE_MASK] = fuse_mask_desc(c->x);
    else if (c->bn->relu)
        back.t[ROLE_Y] = *c->x;
    if (c->bn->value[ROLE_Z] >= 0)
        back.t[ROLE_DZ] = *c->x;
    trial_residual(t->l, &back, c->bn->z_bn);
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
    if (!trial_allowed(l, FUSE_STATS) || n->kind != NODE_CONV || n->kernel != 1 || n->pad != 0 ||
        n->stride == 1 || !bn || bn->kind != LAYER_BN || bn->pool || a->n != 1 || a->shared[0])
        return STATUS_OK;
    struct chain c = {.layer = layer, .n = n, .bn = bn, .x = &l->p->value[bn->x].desc};
    return trial_decide(l, "strided", &c, add_strided, yes);
}

/* ---- masks ---- */

static enum status add_masked(struct trial *t, const struct chain *c, bool fused)
{
    struct op_desc f = trial_bn(t->l, c->bn, c->x, c->forward);
    struct op_desc b = trial_bn(t->l, c->bn, c->x, OP_BN_BWD);
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
    if (!trial_allowed(l, FUSE_STATS) || !layer->relu)
        return STATUS_OK;
    return trial_decide(l, "mask", &c, add_masked, yes);
}
