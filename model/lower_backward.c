/* The backward half of lowering: the layers in reverse, each gradient in the layout of its value.
 *
 * A gradient is overwritten in place where its only reader can do so. Two gradients that meet (at a
 * residual's fork) are handed on as a pair to operations that add them while reading. */
#include "model/lower.h"

/* One more gradient for `value`. The pair form holds two; a third is added to the first. */
static enum status arrive(struct lowering *l, const char *layer, int value, int gradient,
                          bool shared)
{
    struct arriving *a = &l->grad[value];
    if (a->n < 2) {
        a->value[a->n] = gradient;
        a->shared[a->n++] = shared;
        return STATUS_OK;
    }
    struct draft d = {.desc.kind = OP_ADD};
    int sum = lower_value(l, l->p->value[value].desc, a->shared[0] ? -1 : a->value[0]);
    draft_value(l, &d, ROLE_X, a->value[0]);
    draft_value(l, &d, ROLE_Z, gradient);
    draft_value(l, &d, ROLE_Y, sum);
    a->value[0] = sum;
    a->shared[0] = false;
    return lower_emit(l, PHASE_BACKWARD, layer, &d, -1);
}

/* The gradient of `value` as one tensor. *overwrite says whether its reader may reuse it. */
static enum status take_one(struct lowering *l, const char *layer, int value, int *dy,
                            bool *overwrite)
{
    struct arriving *a = &l->grad[value];
    *dy = a->value[0];
    *overwrite = !a->shared[0];
    if (a->n < 2)
        return STATUS_OK;
    struct draft d = {.desc.kind = OP_ADD};
    int sum = lower_value(l, l->p->value[value].desc, *overwrite ? *dy : -1);
    draft_value(l, &d, ROLE_X, a->value[0]);
    draft_value(l, &d, ROLE_Z, a->value[1]);
    draft_value(l, &d, ROLE_Y, sum);
    *dy = sum;
    *overwrite = true;
    return lower_emit(l, PHASE_BACKWARD, layer, &d, -1);
}

/* Names DY and, where two gradients meet, DY2. */
static void draft_arriving(struct lowering *l, struct draft *d, int value)
{
    const struct arriving *a = &l->grad[value];
    draft_value(l, d, ROLE_DY, a->value[0]);
    if (a->n == 2)
        draft_value(l, d, ROLE_DY2, a->value[1]);
}

/* The image needs no gradient. */
static bool wants_gradient(const struct lowering *l, int value)
{
    return value != l->value_of[0];
}

/* d(before ReLU) from d(after), in place where that is allowed. */
static enum status backward_relu(struct lowering *l, const struct layer *layer, int *dz)
{
    const struct arriving *a = &l->grad[layer->y];
    struct draft d = {.desc.kind = OP_RELU_BWD};
    *dz = lower_value(l, l->p->value[layer->y].desc, a->shared[0] ? -1 : a->value[0]);
    draft_arriving(l, &d, layer->y);
    draft_value(l, &d, ROLE_Y, layer->y);
    draft_value(l, &d, ROLE_DX, *dz);
    return lower_emit(l, PHASE_BACKWARD, layer->node->name, &d, -1);
}

/* The batch norm that the data gradient of a layer brings the sums of: its other gradients have
 * arrived. NULL: none. */
static struct layer *joined_bn(const struct lowering *l, const struct layer *layer)
{
    struct layer *bn = layer->kind == LAYER_CONV ? lower_producer(l, layer->x) : NULL;
    bool last = bn && bn->joined && l->grad[bn->y].n == bn->users - 1;
    return last ? bn : NULL;
}

/* The gradient of what `layer` reads, with the sums of batch norm `bn`, whose ReLU's result that
 * is. From then on it is the only gradient of that result, and past the ReLU. */
static enum status emit_data_bn(struct lowering *l, const struct layer *layer, struct draft d,
                                struct layer *bn)
{
    const struct node *n = bn->node;
    struct arriving *a = &l->grad[bn->y];
    int dx = lower_value(l, l->p->value[bn->x].desc, -1);
    int eq = lower_value(l, fuse_eq_desc(n->c), -1);
    d.desc.kind = OP_CONV_BWD_DATA_BN;
    if (a->n == 1)
        draft_value(l, &d, ROLE_DY2, a->value[0]);
    draft_value(l, &d, ROLE_X, bn->x);
    draft_value(l, &d, ROLE_Z, bn->z);
    draft_value(l, &d, ROLE_MEAN, bn->mean);
    draft_value(l, &d, ROLE_INVSTD, bn->invstd);
    draft_param(l, &d, ROLE_BN_GAMMA, n->weight);
    draft_param(l, &d, ROLE_BN_BETA, n->bias);
    draft_value(l, &d, ROLE_DX, dx);
    draft_gradient(l, &d, ROLE_DGAMMA, n->weight);
    draft_gradient(l, &d, ROLE_DBETA, n->bias);
    draft_value(l, &d, ROLE_EQ, eq);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    bn->eq = eq;
    *a = (struct arriving){.n = 1, .value = {dx}};
    return STATUS_OK;
}

/* The gradient of what `layer` reads where it is not 0 for its stride's sake, added to the one that
 * is there. */
static enum status emit_data_strided(struct lowering *l, const struct layer *layer, struct draft d)
{
    int stride = layer->node->stride, whole = l->grad[layer->x].value[0];
    int dx = lower_value(l, fuse_strided_desc(&l->p->value[whole].desc, stride), -1);
    struct draft add = {.desc = {.kind = OP_ADD_STRIDED, .attr.grid.stride = {stride, stride}}};
    d.desc.attr.conv.stride[0] = d.desc.attr.conv.stride[1] = 1;
    draft_value(l, &d, ROLE_DX, dx);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    draft_value(l, &add, ROLE_X, dx);
    draft_value(l, &add, ROLE_Y, whole);
    return lower_emit(l, PHASE_BACKWARD, layer->name, &add, -1);
}

/* The gradient of what `layer` reads; `d` has the kind, its attributes, DY and W. */
static enum status emit_data_gradient(struct lowering *l, const struct layer *layer,
                                      struct draft *d)
{
    struct layer *bn = joined_bn(l, layer);
    enum status st = bn ? emit_data_bn(l, layer, *d, bn) : STATUS_UNSUPPORTED;
    bool strided;
    if (st != STATUS_UNSUPPORTED || (bn && bn->affine >= 0))
        return st;
    TRY(fuse_strided(l, layer, &strided));
    if (strided)
        return emit_data_strided(l, layer, *d);
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    draft_value(l, d, ROLE_DX, dx);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, d, -1));
    return arrive(l, layer->name, layer->x, dx, false);
}

/* Convolution and linear alike: weights first, so that their gradient can travel while the data
 * gradient is computed. */
static enum status backward_weighted(struct lowering *l, const struct layer *layer,
                                     enum op_kind weights, enum op_kind data)
{
    const struct node *n = layer->node;
    int dy;
    bool overwrite;
    if (layer->relu)
        TRY(backward_relu(l, layer, &dy));
    else
        TRY(take_one(l, n->name, layer->y, &dy, &overwrite));

    struct draft w = {.desc.kind = layer->affine >= 0 ? OP_CONV_APPLY_BWD_WEIGHTS : weights};
    if (weights == OP_CONV_BWD_WEIGHTS)
        w.desc.attr.conv = lower_conv_attr(n);
    struct draft x = {.desc.kind = data};
    x.desc.attr = w.desc.attr;
    TRY(lower_operand(l, PHASE_BACKWARD, n->name, dy, &dy));
    draft_value(l, &w, ROLE_X, layer->operand);
    draft_value(l, &w, ROLE_AFFINE, layer->affine);
    draft_value(l, &w, ROLE_DY, dy);
    draft_gradient(l, &w, ROLE_DW, n->weight);
    draft_gradient(l, &w, ROLE_DB, n->bias);
    TRY(lower_emit(l, PHASE_BACKWARD, n->name, &w, -1));
    if (!wants_gradient(l, layer->x))
        return STATUS_OK;

    draft_value(l, &x, ROLE_DY, dy);
    if (layer->weight >= 0)
        draft_value(l, &x, ROLE_W, layer->weight);
    else
        draft_param(l, &x, ROLE_W, n->weight);
    return emit_data_gradient(l, layer, &x);
}

/* The rest of a batch norm whose sums came with the gradient: it is past the ReLU, and so what a
 * residual gets. */
static enum status backward_bn_rest(struct lowering *l, const struct layer *layer)
{
    int dy = l->grad[layer->y].value[0];
    int dx = lower_value(l, l->p->value[layer->x].desc, layer->z >= 0 ? -1 : dy);
    struct draft d = {.desc.kind = OP_BN_BWD_APPLY};
    draft_value(l, &d, ROLE_DY, dy);
    draft_value(l, &d, ROLE_X, layer->x);
    draft_value(l, &d, ROLE_EQ, layer->eq);
    draft_value(l, &d, ROLE_DX, dx);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    if (layer->z >= 0)
        TRY(arrive(l, layer->name, layer->z, dy, false));
    return arrive(l, layer->name, layer->x, dx, false);
}

static enum status backward_bn(struct lowering *l, const struct layer *layer)
{
    const struct node *n = layer->node;
    const struct arriving *a = &l->grad[layer->y];
    struct tensor_desc like = l->p->value[layer->x].desc;
    int reuse = a->shared[0] ? -1 : a->value[0];
    if (layer->eq >= 0)
        return backward_bn_rest(l, layer);
    struct draft d = {
        .desc = {.kind = OP_BN_BWD,
                 .attr.bn = {.eps = BN_EPS, .relu = layer->relu, .sync = l->p->config.sync}}};
    int dz = layer->z >= 0 ? lower_value(l, like, reuse) : -1;
    int dx = lower_value(l, like, dz >= 0 ? -1 : reuse);
    draft_arriving(l, &d, layer->y);
    draft_value(l, &d, ROLE_X, layer->x);
    draft_value(l, &d, ROLE_MASK, layer->mask);
    if (layer->relu && layer->mask < 0)
        draft_value(l, &d, ROLE_Y, layer->y);
    draft_param(l, &d, ROLE_GAMMA, n->weight);
    draft_value(l, &d, ROLE_MEAN, layer->mean);
    draft_value(l, &d, ROLE_INVSTD, layer->invstd);
    draft_value(l, &d, ROLE_DX, dx);
    draft_value(l, &d, ROLE_DZ, dz);
    draft_gradient(l, &d, ROLE_DGAMMA, n->weight);
    draft_gradient(l, &d, ROLE_DBETA, n->bias);
    TRY(lower_emit(l, PHASE_BACKWARD, n->name, &d, -1));
    if (layer->z >= 0)
        TRY(arrive(l, n->name, layer->z, dz, false));
    return arrive(l, n->name, layer->x, dx, false);
}

static enum status backward_relu_alone(struct lowering *l, const struct layer *layer)
{
    int dx;
    TRY(backward_relu(l, layer, &dx));
    return arrive(l, layer->name, layer->x, dx, false);
}

/* Both inputs get the same gradient, and neither reader may overwrite it. */
static enum status backward_add(struct lowering *l, const struct layer *layer)
{
    int dy;
    bool overwrite;
    TRY(take_one(l, layer->name, layer->y, &dy, &overwrite));
    TRY(arrive(l, layer->name, layer->x, dy, true));
    return arrive(l, layer->name, layer->z, dy, true);
}

static enum status backward_maxpool(struct lowering *l, const struct layer *layer)
{
    const struct node *n = layer->node;
    struct draft d = {.desc = {.kind = OP_MAXPOOL_BWD,
                               .attr.pool = {.kernel = {n->kernel, n->kernel},
                                             .stride = {n->stride, n->stride},
                                             .pad = {n->pad, n->pad}}}};
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    draft_arriving(l, &d, layer->y);
    draft_value(l, &d, ROLE_INDEX, layer->index);
    draft_value(l, &d, ROLE_DX, dx);
    TRY(lower_emit(l, PHASE_BACKWARD, n->name, &d, -1));
    return arrive(l, n->name, layer->x, dx, false);
}

/* Operations with one DY and one DX of their own memory, and nothing else. */
static enum status backward_simple(struct lowering *l, const struct layer *layer,
                                   const struct op_desc *desc)
{
    int dy;
    bool overwrite;
    TRY(take_one(l, layer->name, layer->y, &dy, &overwrite));
    struct draft d = {.desc = *desc};
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    draft_value(l, &d, ROLE_DY, dy);
    draft_value(l, &d, ROLE_DX, dx);
    if (desc->kind == OP_DROPOUT_BWD)
        d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    return arrive(l, layer->name, layer->x, dx, false);
}

/* Flattening changes no byte: the gradient is the same memory in the other shape. */
static enum status backward_flatten(struct lowering *l, const struct layer *layer)
{
    int dy;
    bool overwrite;
    TRY(take_one(l, layer->name, layer->y, &dy, &overwrite));
    int dx = lower_view(l, l->p->value[layer->x].desc, dy);
    return arrive(l, layer->name, layer->x, dx, !overwrite);
}

static enum status backward_reorder(struct lowering *l, const struct layer *layer)
{
    int dy;
    bool overwrite;
    TRY(take_one(l, layer->name, layer->y, &dy, &overwrite));
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    TRY(lower_reorder(l, PHASE_BACKWARD, layer->name, dy, dx));
    return arrive(l, layer->name, layer->x, dx, false);
}

static enum status backward_layer(struct lowering *l, const struct layer *layer)
{
    struct op_desc d = {0};
    switch (layer->kind) {
    case LAYER_CONV:
        return backward_weighted(l, layer, OP_CONV_BWD_WEIGHTS, OP_CONV_BWD_DATA);
    case LAYER_LINEAR:
        return backward_weighted(l, layer, OP_LINEAR_BWD_WEIGHTS, OP_LINEAR_BWD_DATA);
    case LAYER_BN:
        return backward_bn(l, layer);
    case LAYER_RELU:
        return backward_relu_alone(l, layer);
    case LAYER_ADD:
        return backward_add(l, layer);
    case LAYER_MAXPOOL:
        return backward_maxpool(l, layer);
    case LAYER_AVGPOOL:
        d.kind = OP_AVGPOOL_BWD;
        return backward_simple(l, layer, &d);
    case LAYER_DROPOUT:
        d.kind = OP_DROPOUT_BWD;
        d.attr.dropout = (struct dropout_attr){layer->node->dropout_p, layer->dropout};
        return backward_simple(l, layer, &d);
    case LAYER_FLATTEN:
        return backward_flatten(l, layer);
    case LAYER_REORDER:
        return backward_reorder(l, layer);
    }
    return status_fail(STATUS_INVALID, "layer '%s' has no backward pass", layer->name);
}

enum status lower_backward(struct lowering *l)
{
    for (int i = l->n_layers - 1; i >= 0; i--)
        if (l->grad[l->layer[i].y].n > 0)
            TRY(backward_layer(l, &l->layer[i]));
    return STATUS_OK;
}
