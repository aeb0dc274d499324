/* The backward half of lowering, which visits the layers in reverse order. A gradient has the
 * layout of its value.
 *
 * If a gradient has only one reader, the reader overwrites it in place where the operation can. If
 * a value has two gradients (the input of a residual block), operations read both and add them. */
#include "model/lower.h"

/* Adds `gradient` to the first gradient of `value`, in place where that is allowed. */
static enum status add_to_first(struct lowering *l, const char *layer, int value, int gradient)
{
    struct arriving *a = &l->grad[value];
    struct draft d = {.desc.kind = OP_ADD};
    int sum = lower_value(l, l->p->value[value].desc, a->shared[0] ? -1 : a->value[0]);
    draft_value(l, &d, ROLE_X, a->value[0]);
    draft_value(l, &d, ROLE_Z, gradient);
    draft_value(l, &d, ROLE_Y, sum);
    a->value[0] = sum;
    a->shared[0] = false;
    return lower_emit(l, PHASE_BACKWARD, layer, &d, -1);
}

/* Adds one more gradient of `value`. At most two stay separate: a third is added to the first. */
static enum status arrive(struct lowering *l, const char *layer, int value, int gradient,
                          bool shared)
{
    struct arriving *a = &l->grad[value];
    if (a->n < 2) {
        a->value[a->n] = gradient;
        a->shared[a->n++] = shared;
        return STATUS_OK;
    }
    return add_to_first(l, layer, value, gradient);
}

/* Sets *dy to the gradient of the layer's result as one tensor, and its `n` to 1. */
static enum status take_one(struct lowering *l, const struct layer *layer, int *dy)
{
    int y = layer->value[ROLE_Y];
    struct arriving *a = &l->grad[y];
    enum status st = a->n < 2 ? STATUS_OK : add_to_first(l, layer->name, y, a->value[1]);
    a->n = 1;
    *dy = a->value[0];
    return st;
}

/* Adds the gradients of `value` to the draft: the first as DY and the second, if any, as DY2. */
static void draft_arriving(struct lowering *l, struct draft *d, int value)
{
    const struct arriving *a = &l->grad[value];
    draft_value(l, d, ROLE_DY, a->value[0]);
    if (a->n == 2)
        draft_value(l, d, ROLE_DY2, a->value[1]);
}

/* Computes the gradient of a ReLU's input from the gradient of its output, in place where that is
 * allowed. */
static enum status backward_relu(struct lowering *l, const struct layer *layer, int *dz)
{
    int y = layer->value[ROLE_Y];
    const struct arriving *a = &l->grad[y];
    struct draft d = {.desc.kind = OP_RELU_BWD};
    *dz = lower_value(l, l->p->value[y].desc, a->shared[0] ? -1 : a->value[0]);
    draft_arriving(l, &d, y);
    draft_value(l, &d, ROLE_Y, y);
    draft_value(l, &d, ROLE_DX, *dz);
    return lower_emit(l, PHASE_BACKWARD, layer->node->name, &d, -1);
}

/* Returns the batch norm whose backward sums are computed together with the data gradient of
 * `layer`; NULL: none. Only the last data gradient of the batch norm's result can compute these
 * sums. */
static struct layer *joined_bn(const struct lowering *l, const struct layer *layer)
{
    struct layer *bn = layer->kind == LAYER_CONV ? lower_producer(l, layer->x) : NULL;
    bool last = bn && bn->joined && l->grad[bn->value[ROLE_Y]].n == bn->users - 1;
    return last ? bn : NULL;
}

/* Emits the data gradient of `layer` and the backward sums of `bn`, whose ReLU writes the layer's
 * input. The emitted gradient is the whole gradient of that input: if the input has a second
 * gradient, it is added. The ReLU's mask is applied to the sum. */
static enum status emit_data_bn(struct lowering *l, const struct layer *layer, struct draft d,
                                struct layer *bn)
{
    struct arriving *a = &l->grad[bn->value[ROLE_Y]];
    int dx = lower_value(l, l->p->value[bn->x].desc, -1);
    int eq = lower_value(l, fuse_eq_desc(bn->node->c), -1);
    int z_eq = bn->z_bn ? lower_value(l, fuse_eq_desc(bn->node->c), -1) : -1;
    d.desc.kind = OP_CONV_BWD_DATA_BN;
    draft_layer(l, &d, bn, ROLE_SET(W));
    if (a->n == 1)
        draft_value(l, &d, ROLE_DY2, a->value[0]);
    draft_value(l, &d, ROLE_DX, dx);
    draft_value(l, &d, ROLE_EQ, eq);
    if (bn->z_bn)
        draft_value(l, &d, ROLE_Z_EQ, z_eq);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    bn->value[ROLE_EQ] = eq;
    bn->value[ROLE_Z_EQ] = z_eq;
    *a = (struct arriving){.n = 1, .value = {dx}};
    return STATUS_OK;
}

/* Emits the data gradient of `layer`, only at the pixels that the stride reads (it is 0 elsewhere),
 * and adds it to the existing gradient of the layer's input. */
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

/* Emits the data gradient of `layer`; `d` already has kind, attributes, DY and W. */
static enum status emit_data_gradient(struct lowering *l, const struct layer *layer,
                                      struct draft *d)
{
    struct layer *bn = joined_bn(l, layer);
    enum status st = bn ? emit_data_bn(l, layer, *d, bn) : STATUS_UNSUPPORTED;
    bool strided;
    if (st != STATUS_UNSUPPORTED || (bn && bn->value[ROLE_AFFINE] >= 0 && !bn->ender))
        return st;
    TRY(fuse_strided(l, layer, &strided));
    if (strided)
        return emit_data_strided(l, layer, *d);
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    draft_value(l, d, ROLE_DX, dx);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, d, -1));
    return arrive(l, layer->name, layer->x, dx, false);
}

/* Emits the gradients of a convolution or linear layer: the weight gradient first, so that it can
 * be reduced while the data gradient is computed. */
static enum status backward_weighted(struct lowering *l, const struct layer *layer,
                                     enum op_kind weights, enum op_kind data)
{
    const struct node *n = layer->node;
    int dy;
    TRY(layer->relu ? backward_relu(l, layer, &dy) : take_one(l, layer, &dy));

    bool apply = layer->value[ROLE_AFFINE] >= 0;
    struct draft w = {.desc.kind = apply ? OP_CONV_APPLY_BWD_WEIGHTS : weights};
    if (weights == OP_CONV_BWD_WEIGHTS)
        w.desc.attr.conv = lower_conv_attr(n);
    struct draft x = {.desc.kind = data};
    x.desc.attr = w.desc.attr;
    TRY(lower_operand(l, PHASE_BACKWARD, n->name, dy, &dy));
    draft_layer(l, &w, layer, 0);
    draft_value(l, &w, ROLE_DY, dy);
    TRY(lower_emit(l, PHASE_BACKWARD, n->name, &w, -1));
    if (layer->x == l->value_of[0]) /* the image needs no gradient */
        return STATUS_OK;
    draft_layer(l, &x, layer, 0);
    draft_value(l, &x, ROLE_DY, dy);
    return emit_data_gradient(l, layer, &x);
}

/* The backward pass of a batch norm reads Z only if Z is the input of the residual's batch norm. */
static uint64_t without_z(const struct layer *layer)
{
    return layer->z_bn ? 0 : ROLE_SET(Z);
}

/* Emits the rest of a batch norm's backward pass, after a data gradient has computed the backward
 * sums. The ReLU's mask is already applied to DY. DY is therefore also the gradient of the
 * residual. */
static enum status backward_bn_rest(struct lowering *l, const struct layer *layer)
{
    int dy = l->grad[layer->value[ROLE_Y]].value[0], z = layer->value[ROLE_Z], dz = dy;
    struct tensor_desc like = l->p->value[layer->x].desc;
    int dx = lower_value(l, like, z >= 0 ? -1 : dy);
    struct draft d = {.desc.kind = OP_BN_BWD_APPLY};
    draft_layer(l, &d, layer, without_z(layer));
    draft_value(l, &d, ROLE_DY, dy);
    draft_value(l, &d, ROLE_DX, dx);
    if (layer->z_bn) {
        dz = lower_value(l, like, dy);
        draft_value(l, &d, ROLE_DZ, dz);
    }
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    if (z >= 0)
        TRY(arrive(l, layer->name, z, dz, false));
    return arrive(l, layer->name, layer->x, dx, false);
}

/* Emits an operation that reads the gradients of a layer's result, and writes one DX in memory of
 * its own. */
static enum status backward_arriving(struct lowering *l, const struct layer *layer,
                                     const struct op_desc *desc)
{
    struct draft d = {.desc = *desc};
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    draft_layer(l, &d, layer, 0);
    draft_arriving(l, &d, layer->value[ROLE_Y]);
    draft_value(l, &d, ROLE_DX, dx);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    return arrive(l, layer->name, layer->x, dx, false);
}

static enum status backward_bn(struct lowering *l, const struct layer *layer)
{
    int y = layer->value[ROLE_Y], z = layer->value[ROLE_Z];
    const struct arriving *a = &l->grad[y];
    struct tensor_desc like = l->p->value[layer->x].desc;
    int reuse = a->shared[0] ? -1 : a->value[0];
    struct op_desc pool = {.kind = OP_BN_POOL_BWD, .attr.bn.eps = BN_EPS};
    if (layer->pool) {
        pool.attr.bn.pool = lower_pool_attr(layer->pool);
        return backward_arriving(l, layer, &pool);
    }
    if (layer->value[ROLE_EQ] >= 0)
        return backward_bn_rest(l, layer);
    struct draft d = {
        .desc = {.kind = OP_BN_BWD,
                 .attr.bn = {.eps = BN_EPS, .relu = layer->relu, .sync = l->p->config.sync}}};
    bool reads_y = layer->relu && layer->value[ROLE_MASK] < 0;
    int dz = z >= 0 ? lower_value(l, like, reuse) : -1;
    int dx = lower_value(l, like, dz >= 0 ? -1 : reuse);
    draft_layer(l, &d, layer, without_z(layer) | (reads_y ? 0 : ROLE_SET(Y)));
    draft_arriving(l, &d, y);
    draft_value(l, &d, ROLE_DX, dx);
    draft_value(l, &d, ROLE_DZ, dz);
    TRY(lower_emit(l, PHASE_BACKWARD, layer->name, &d, -1));
    if (z >= 0)
        TRY(arrive(l, layer->name, z, dz, false));
    return arrive(l, layer->name, layer->x, dx, false);
}

/* The backward pass of an addition: both inputs get the same gradient, and neither reader may
 * overwrite it. */
static enum status backward_add(struct lowering *l, const struct layer *layer)
{
    int dy;
    TRY(take_one(l, layer, &dy));
    TRY(arrive(l, layer->name, layer->x, dy, true));
    return arrive(l, layer->name, layer->value[ROLE_Z], dy, true);
}

/* The same for an operation that reads one DY. */
static enum status backward_simple(struct lowering *l, const struct layer *layer,
                                   const struct op_desc *desc)
{
    int dy;
    TRY(take_one(l, layer, &dy));
    return backward_arriving(l, layer, desc);
}

/* Flattening changes no bytes, so the gradient is the same memory in the other shape. */
static enum status backward_flatten(struct lowering *l, const struct layer *layer)
{
    int dy;
    TRY(take_one(l, layer, &dy));
    int dx = lower_view(l, l->p->value[layer->x].desc, dy);
    return arrive(l, layer->name, layer->x, dx, l->grad[layer->value[ROLE_Y]].shared[0]);
}

static enum status backward_reorder(struct lowering *l, const struct layer *layer)
{
    int dy;
    TRY(take_one(l, layer, &dy));
    int dx = lower_value(l, l->p->value[layer->x].desc, -1);
    TRY(lower_reorder(l, PHASE_BACKWARD, layer->name, dy, dx));
    return arrive(l, layer->name, layer->x, dx, false);
}

static enum status backward_layer(struct lowering *l, const struct layer *layer)
{
    struct op_desc d = {0};
    int dx;
    switch (layer->kind) {
    case LAYER_CONV:
        return backward_weighted(l, layer, OP_CONV_BWD_WEIGHTS, OP_CONV_BWD_DATA);
    case LAYER_LINEAR:
        return backward_weighted(l, layer, OP_LINEAR_BWD_WEIGHTS, OP_LINEAR_BWD_DATA);
    case LAYER_BN:
        return backward_bn(l, layer);
    case LAYER_RELU:
        TRY(backward_relu(l, layer, &dx));
        return arrive(l, layer->name, layer->x, dx, false);
    case LAYER_ADD:
        return backward_add(l, layer);
    case LAYER_MAXPOOL:
        d = (struct op_desc){.kind = OP_MAXPOOL_BWD, .attr.pool = lower_pool_attr(layer->node)};
        return backward_arriving(l, layer, &d);
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
        if (l->grad[l->layer[i].value[ROLE_Y]].n > 0)
            TRY(backward_layer(l, &l->layer[i]));
    return STATUS_OK;
}
