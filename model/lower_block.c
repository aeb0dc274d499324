/* Chooses how to compute the end of a residual block. This end consists of the block's last batch
 * norm, whose result is added to the shortcut, and of the shortcut's batch norm. */
#include "model/lower_trial.h"

#include <string.h>

/* ---- a data gradient that also computes a batch norm's backward sums ---- */

static enum status add_joined(struct trial *t, const struct chain *c, bool fused)
{
    struct op_desc data = fused ? trial_data_bn(t->l, c) : trial_data(t->l, c->n, c->x);
    struct op_desc back = trial_bn(t->l, c->bn, c->x, fused ? OP_BN_BWD_APPLY : OP_BN_BWD);
    if (!fused) {
        back.t[ROLE_MASK] = fuse_mask_desc(c->x);
        if (c->users > 1)
            back.t[ROLE_DY2] = *c->x;
        if (c->bn->value[ROLE_Z] >= 0)
            back.t[ROLE_DZ] = *c->x;
    }
    trial_residual(t->l, &back, c->bn->z_bn);
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
    if (!trial_allowed(l, FUSE_ALL) || !layer->relu || l->p->config.sync || !c.n ||
        c.n->kind != NODE_CONV || c.users > 2)
        return STATUS_OK;
    return trial_decide(l, "join", &c, add_joined, yes);
}

/* ---- a block's last batch norm, applied by the next convolution ---- */

static enum status add_end(struct trial *t, const struct chain *c, bool fused)
{
    const struct lowering *l = t->l;
    struct tensor_desc affine = fuse_affine_desc(l, c->bn->node->c);
    struct op_desc apply = trial_bn(l, c->bn, c->x, OP_BN_APPLY);
    struct op_desc conv = trial_conv(l, c->n, OP_CONV_STATS_FWD);
    conv.t[ROLE_X] = *c->x;
    conv.t[ROLE_Y] = lower_result_desc(l, c->n, LAYOUT_ANY);
    conv.t[ROLE_SUMS] = fuse_sums_desc(c->n->c);
    if (fused) {
        conv.t[ROLE_Z] = conv.t[ROLE_APPLIED] = *c->x;
        conv.t[ROLE_AFFINE] = affine;
        if (c->bn->z_bn)
            conv.t[ROLE_Z_AFFINE] = affine;
        return trial_add(t, &conv);
    }
    apply.t[ROLE_Z] = *c->x;
    trial_residual(l, &apply, c->bn->z_bn);
    TRY(trial_add(t, &apply));
    return trial_add(t, &conv);
}

/* TF32 is excluded, because its operands are rounded copies of the stored tensor. */
enum status fuse_end(struct lowering *l, int last, struct layer *layer)
{
    const struct node *next = first_user(l, last);
    bool yes;
    if (!trial_allowed(l, FUSE_ALL) || !layer->joined || layer->value[ROLE_Z] < 0 || !next ||
        next->kind != NODE_CONV || next->bias >= 0 || l->p->config.policy.operand == DTYPE_TF32 ||
        lower_sole_user(l, (int)(next - l->g->node), NODE_BN) < 0)
        return STATUS_OK;
    struct chain c = {.layer = layer, .n = next, .bn = layer, .x = &l->p->value[layer->x].desc};
    TRY(trial_decide(l, "output", &c, add_end, &yes));
    layer->ender = yes ? next : NULL;
    return STATUS_OK;
}

void draft_end(struct lowering *l, struct draft *d, const struct layer *layer)
{
    const struct layer *bn = lower_producer(l, layer->x);
    if (!bn || layer->node != bn->ender)
        return;
    draft_value(l, d, ROLE_X, bn->x);
    draft_value(l, d, ROLE_AFFINE, bn->value[ROLE_AFFINE]);
    draft_value(l, d, ROLE_Z, bn->value[ROLE_Z]);
    draft_value(l, d, ROLE_Z_AFFINE, bn->value[ROLE_Z_AFFINE]);
    draft_value(l, d, ROLE_APPLIED, bn->value[ROLE_Y]);
}

/* ---- the shortcut's batch norm, applied by the block's last batch norm ---- */

/* The last batch norm of a block, and the batch norm of its shortcut. */
struct ends {
    struct chain chain;           /* its member `bn` is the block's last batch norm */
    const struct layer *shortcut; /* the shortcut's batch norm */
    bool joins;                   /* the next data gradient may compute the backward sums */
    char why[FUSION_WHY_MAX];     /* the first failure of the device's library; empty: none */
};

/* Adds the operations of both batch norms to the trial, from the statistics of the shortcut to the
 * gradients. Also adds the operation that computes the data gradient for their backward passes. */
static enum status add_ends(struct trial *t, const struct ends *e, bool fused, bool joined)
{
    const struct lowering *l = t->l;
    const struct chain *c = &e->chain;
    struct op_desc finalize = trial_bn(l, e->shortcut, c->x, OP_BN_FINALIZE);
    struct op_desc shortcut = trial_bn(l, e->shortcut, c->x, OP_BN_APPLY);
    struct op_desc apply = trial_bn(l, c->bn, c->x, OP_BN_APPLY);
    struct op_desc back = trial_bn(l, c->bn, c->x, joined ? OP_BN_BWD_APPLY : OP_BN_BWD);
    struct op_desc rest = trial_bn(l, e->shortcut, c->x, OP_BN_BWD);
    apply.t[ROLE_Z] = *c->x;
    trial_residual(l, &apply, c->bn->z_bn);
    trial_residual(l, &back, c->bn->z_bn);
    if (fused)
        finalize.t[ROLE_AFFINE] = fuse_sums_desc(c->bn->node->c);
    if (!joined) {
        apply.t[ROLE_MASK] = fuse_mask_desc(c->x);
        back.t[ROLE_DZ] = *c->x;
        if (c->users > 1)
            back.t[ROLE_DY2] = *c->x;
    }
    TRY(trial_add(t, &finalize));
    if (!fused)
        TRY(trial_add(t, &shortcut));
    TRY(trial_add(t, &apply));
    back.t[ROLE_MASK] = apply.t[ROLE_MASK];
    if (c->n) {
        struct op_desc data = joined ? trial_data_bn(l, c) : trial_data(l, c->n, c->x);
        TRY(trial_add(t, &data));
    }
    TRY(trial_add(t, &back));
    return fused ? STATUS_OK : trial_add(t, &rest);
}

/* Sets *covered to whether the device can plan the block's end. Under FUSE_AUTO also sets *seconds
 * to the time of the block's end; 0: unknown. If e->joins is set, *seconds is the shorter of two
 * times: with the backward sums computed by the next data gradient, and with the sums computed by a
 * separate operation. */
static enum status time_ends(const struct lowering *l, struct ends *e, bool fused, bool *covered,
                             double *seconds)
{
    enum status st = STATUS_OK;
    struct layer bn = *e->chain.bn;
    struct ends variant = *e;
    variant.chain.bn = &bn;
    bn.z_bn = fused ? e->shortcut->node : NULL;
    *seconds = 0;
    for (int joined = 0; joined <= e->joins && st == STATUS_OK; joined++) {
        struct trial t = {.l = l, .covered = true};
        double one = 0;
        st = add_ends(&t, &variant, fused, joined);
        if (st == STATUS_OK && t.covered && l->p->config.fuse == FUSE_AUTO)
            st = trial_seconds(&t, &one);
        if (!joined)
            *covered = t.covered;
        if (!e->why[0])
            memcpy(e->why, t.why, sizeof e->why);
        if (one > 0 && (*seconds == 0 || one < *seconds))
            *seconds = one;
        trial_close(&t);
    }
    return st;
}

/* If batch norm i is on a shortcut, sets *end to the batch norm of the other input of the addition,
 * and *last to the ReLU after the addition. Otherwise returns false. */
static bool find_end(const struct lowering *l, int i, int *end, int *last)
{
    int add = lower_sole_user(l, i, NODE_ADD);
    if (add < 0)
        return false;
    const struct node *n = &l->g->node[add];
    *end = n->in[0] == i ? n->in[1] : n->in[0];
    *last = lower_sole_user(l, add, NODE_RELU);
    return *end > i && *last >= 0 && lower_sole_user(l, *end, NODE_ADD) == add &&
           l->g->node[*end].kind == NODE_BN;
}

enum status fuse_shortcut(struct lowering *l, int i, const struct layer *layer, bool *yes)
{
    int end, last;
    *yes = false;
    if (!trial_allowed(l, FUSE_APPLY) || layer->relu || layer->value[ROLE_Z] >= 0 ||
        l->p->config.sync || !find_end(l, i, &end, &last))
        return STATUS_OK;
    const struct node *next = first_user(l, last);
    bool conv = next && next->kind == NODE_CONV;
    struct layer bn = {.node = &l->g->node[end], .relu = true, .value = {[ROLE_Z] = layer->x}};
    struct ends e = {.chain = {.layer = layer,
                               .n = conv ? next : NULL,
                               .bn = &bn,
                               .x = &l->p->value[layer->x].desc,
                               .users = l->n_users[last]},
                     .shortcut = layer,
                     .joins = conv && trial_allowed(l, FUSE_ALL) && l->n_users[last] <= 2};
    struct fusion choice = {.form = "shortcut", .layer = layer->name};
    TRY(time_ends(l, &e, true, yes, &choice.fused));
    bool covered = *yes;
    if (l->p->config.fuse != FUSE_AUTO || (!covered && !e.why[0]))
        return STATUS_OK;
    if (covered)
        TRY(time_ends(l, &e, false, &covered, &choice.parts));
    *yes = false;
    memcpy(choice.why, e.why, sizeof choice.why);
    TRY(trial_choose(l->p, &choice));
    *yes = choice.taken;
    return STATUS_OK;
}
