/* Chooses whether a batch norm, its ReLU and the max pooling after it are fused. */
#include "model/lower_trial.h"

struct tensor_desc lower_index_desc(struct tensor_desc y)
{
    y.bytes = y.bytes / dtype_size(y.type) * dtype_size(DTYPE_U8);
    y.type = DTYPE_U8;
    y.rounds = DTYPE_F32;
    return y;
}

/* Adds batch norm and pooling, forward and backward. The unfused operations use a mask, as they do
 * in a program without fused pooling. The fused forward operation does not compute statistics. If
 * the unfused forward operation does, the fused chain has one more operation for them. */
static enum status add_pooled(struct trial *t, const struct chain *c, bool fused)
{
    const struct lowering *l = t->l;
    struct tensor_desc y = lower_result_desc(l, c->n, c->x->layout);
    struct op_desc forward = trial_bn(l, c->bn, c->x, fused ? OP_BN_POOL_FWD : c->forward);
    struct op_desc back = trial_bn(l, c->bn, c->x, fused ? OP_BN_POOL_BWD : OP_BN_BWD);
    struct op_desc statistics = trial_bn(l, c->bn, c->x, OP_BN_STATISTICS);
    struct op_desc pool = {.kind = OP_MAXPOOL_FWD, .attr.pool = lower_pool_attr(c->n)};
    struct op_desc pool_back = {.kind = OP_MAXPOOL_BWD, .attr.pool = pool.attr.pool};
    struct op_desc *first = fused ? &forward : &pool, *second = fused ? &back : &pool_back;
    first->t[ROLE_Y] = second->t[ROLE_DY] = y;
    first->t[ROLE_INDEX] = second->t[ROLE_INDEX] = lower_index_desc(y);
    if (c->users > 1)
        second->t[ROLE_DY2] = y;
    if (fused) {
        forward.attr.bn.pool = back.attr.bn.pool = pool.attr.pool;
        if (c->forward == OP_BN_FWD_TRAIN)
            TRY(trial_add(t, &statistics));
        TRY(trial_add(t, &forward));
        return trial_add(t, &back);
    }
    forward.t[ROLE_MASK] = back.t[ROLE_MASK] = fuse_mask_desc(c->x);
    pool.t[ROLE_X] = pool_back.t[ROLE_DX] = *c->x;
    TRY(trial_add(t, &forward));
    TRY(trial_add(t, &pool));
    TRY(trial_add(t, &pool_back));
    return trial_add(t, &back);
}

/* Excludes batch norm over all ranks, because the fused operations do not sum over ranks. */
enum status fuse_pool(struct lowering *l, struct layer *layer, int *last, struct tensor_desc *y)
{
    const struct layer *before = lower_producer(l, layer->x);
    bool sums = before && before->value[ROLE_SUMS] >= 0, yes;
    int next = lower_sole_user(l, *last, NODE_MAXPOOL);
    if (!trial_allowed(l, FUSE_STATS) || next < 0 || !layer->relu || layer->value[ROLE_Z] >= 0 ||
        l->p->config.sync)
        return STATUS_OK;
    struct chain c = {.layer = layer,
                      .n = &l->g->node[next],
                      .bn = layer,
                      .x = &l->p->value[layer->x].desc,
                      .users = l->n_users[next],
                      .forward = sums ? OP_BN_APPLY : OP_BN_FWD_TRAIN};
    TRY(trial_decide(l, "pool", &c, add_pooled, &yes));
    if (!yes)
        return STATUS_OK;
    layer->pool = c.n;
    l->done[next] = true;
    *last = next;
    *y = lower_result_desc(l, c.n, c.x->layout);
    return STATUS_OK;
}
