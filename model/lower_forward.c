/* The forward half of lowering: fuses conv+ReLU, linear+ReLU and BN(+add)(+ReLU). */
#include "model/lower.h"

#include "base/array.h"

static const struct node *node_at(const struct lowering *l, int i)
{
    return &l->g->node[i];
}

/* If a ReLU is the only user of node i, fuses node i and the ReLU. Returns the last node of the
 * group. */
static int absorb_relu(struct lowering *l, int i, bool *relu)
{
    int r = lower_sole_user(l, i, NODE_RELU);
    *relu = r >= 0;
    if (r < 0)
        return i;
    l->done[r] = true;
    return r;
}

static struct tensor_desc feature_desc(const struct lowering *l, const struct node *n)
{
    struct tensor_desc t = tensor_2d(DTYPE_F32, l->p->config.batch, n->c);
    return lower_typed(l, t, l->p->config.policy.activation);
}

static void remember(struct lowering *l, const struct layer *layer, int last_node)
{
    l->layer[l->n_layers++] = *layer;
    l->value_of[last_node] = layer->value[ROLE_Y];
}

/* Emits a layer that consists of one operation; `desc` has its kind and attributes. */
static enum status emit_layer(struct lowering *l, const struct layer *layer,
                              const struct op_desc *desc, int last_node)
{
    struct draft d = {.desc = *desc};
    draft_layer(l, &d, layer, 0);
    draft_end(l, &d, layer);
    TRY(lower_emit(l, PHASE_FORWARD, layer->name, &d, -1));
    remember(l, layer, last_node);
    return STATUS_OK;
}

static void meet_params(struct lowering *l, const struct node *n)
{
    if (n->weight >= 0)
        l->order[l->n_order++] = n->weight;
    if (n->bias >= 0)
        l->order[l->n_order++] = n->bias;
}

static struct layer layer_of(struct lowering *l, enum layer_kind kind, const struct node *n)
{
    struct layer layer = {.kind = kind, .name = n->name, .node = n, .x = l->value_of[n->in[0]]};
    for (int r = 0; r < ROLE_COUNT; r++)
        layer.value[r] = r == ROLE_X ? layer.x : -1;
    return layer;
}

struct layer *lower_producer(const struct lowering *l, int value)
{
    for (int i = l->n_layers - 1; i >= 0; i--)
        if (l->layer[i].value[ROLE_Y] == value)
            return &l->layer[i];
    return NULL;
}

/* Reorders `value` if its layout is not that of `like`; *out is the result, or `value` itself. */
static enum status in_layout_of(struct lowering *l, const struct layer *user, int value,
                                const struct tensor_desc *like, int *out)
{
    struct tensor_desc to = l->p->value[value].desc;
    *out = value;
    if (to.layout == like->layout && to.opaque == like->opaque)
        return STATUS_OK;
    to.layout = like->layout;
    to.opaque = like->opaque;
    to.bytes = like->bytes;
    struct layer layer = *user;
    layer.kind = LAYER_REORDER;
    layer.x = value;
    layer.value[ROLE_Y] = *out = lower_value(l, to, -1);
    l->layer[l->n_layers++] = layer;
    return lower_reorder(l, PHASE_FORWARD, user->name, value, *out);
}

static enum status cast_weights(struct lowering *l, struct layer *layer)
{
    const struct node *n = layer->node;
    TRY(lower_cast(l, n->name, n->weight, &layer->value[ROLE_W]));
    return lower_cast(l, n->name, n->bias, &layer->value[ROLE_B]);
}

/* Sets the convolution's input, and sets *stats to whether the convolution also computes the sums
 * that the next batch norm needs. A convolution that applies the preceding batch norm always
 * computes these sums, because fuse_apply planned it in that form. */
static enum status conv_input(struct lowering *l, int i, struct layer *layer, bool *stats)
{
    const struct layer *before = lower_producer(l, layer->x);
    bool bn = before && before->kind == LAYER_BN;
    *stats = bn && before->ender == layer->node; /* the layer also stores the batch norm's result */
    if (*stats)
        return STATUS_OK;
    *stats = bn && before->value[ROLE_AFFINE] >= 0 && !before->ender;
    if (*stats) {
        layer->value[ROLE_X] = before->x;
        layer->value[ROLE_AFFINE] = before->value[ROLE_AFFINE];
        return STATUS_OK;
    }
    TRY(lower_operand(l, PHASE_FORWARD, layer->name, layer->x, &layer->value[ROLE_X]));
    return fuse_stats(l, i, layer, stats);
}

static enum status forward_conv(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_CONV, n);
    bool stats;
    int last = absorb_relu(l, i, &layer.relu);
    TRY(conv_input(l, i, &layer, &stats));
    struct op_desc d = {.kind = stats ? OP_CONV_STATS_FWD : OP_CONV_FWD,
                        .attr.conv = lower_conv_attr(n)};
    d.attr.conv.relu = layer.relu;
    layer.value[ROLE_Y] = lower_value(l, lower_result_desc(l, n, LAYOUT_ANY), -1);
    TRY(cast_weights(l, &layer));
    if (stats)
        layer.value[ROLE_SUMS] = lower_value(l, fuse_sums_desc(n->c), -1);
    meet_params(l, n);
    return emit_layer(l, &layer, &d, last);
}

/* Tries to fuse the addition that follows batch norm i. Requires that the addition is the only user
 * of i, and that the addition's other input comes before i. On success sets *other to that input
 * and returns the addition's index. Otherwise returns -1. */
static int absorb_add(struct lowering *l, int i, int *other)
{
    int a = lower_sole_user(l, i, NODE_ADD);
    if (a < 0)
        return -1;
    const struct node *n = node_at(l, a);
    *other = n->in[0] == i ? n->in[1] : n->in[0];
    if (*other >= i)
        return -1;
    l->done[a] = true;
    return a;
}

static void keep_statistics(struct lowering *l, struct layer *layer)
{
    struct tensor_desc channels = tensor_1d(DTYPE_F32, layer->node->c);
    layer->value[ROLE_MEAN] = lower_value(l, channels, -1);
    layer->value[ROLE_INVSTD] = lower_value(l, channels, -1);
}

static struct bn_attr bn_attr(const struct lowering *l, const struct layer *layer)
{
    struct bn_attr a = {
        .eps = BN_EPS, .momentum = BN_MOMENTUM, .relu = layer->relu, .sync = l->p->config.sync};
    if (layer->pool)
        a.pool = lower_pool_attr(layer->pool);
    return a;
}

/* Emits the operation that computes the statistics from the convolution's sums. `affine` describes
 * AFFINE; NULL: not wanted. */
static enum status emit_finalize(struct lowering *l, struct layer *layer, int sums,
                                 const struct tensor_desc *affine)
{
    const struct node *n = layer->node;
    struct draft d = {.desc = {.kind = OP_BN_FINALIZE, .attr.bn = bn_attr(l, layer)}};
    d.desc.attr.bn.count = (int64_t)l->p->config.batch * n->h * n->w;
    if (affine)
        layer->value[ROLE_AFFINE] = lower_value(l, *affine, -1);
    keep_statistics(l, layer);
    draft_layer(l, &d, layer, 0);
    draft_value(l, &d, ROLE_SUMS, sums);
    return lower_emit(l, PHASE_FORWARD, n->name, &d, -1);
}

/* Emits batch norm as one operation or, after emit_finalize, only the operation that applies the
 * statistics. */
static enum status emit_bn(struct lowering *l, struct layer *layer, enum op_kind kind)
{
    struct draft d = {.desc = {.kind = kind, .attr.bn = bn_attr(l, layer)}};
    if (kind == OP_BN_FWD_TRAIN || kind == OP_BN_STATISTICS)
        keep_statistics(l, layer);
    draft_layer(l, &d, layer, 0);
    return lower_emit(l, PHASE_FORWARD, layer->name, &d, -1);
}

/* Emits batch norm and the max pooling that is fused with it. */
static enum status emit_bn_pool(struct lowering *l, struct layer *layer, int sums)
{
    struct tensor_desc y = l->p->value[layer->value[ROLE_Y]].desc;
    layer->value[ROLE_INDEX] = lower_value(l, lower_index_desc(y), -1);
    if (sums >= 0)
        TRY(emit_finalize(l, layer, sums, NULL));
    else
        TRY(emit_bn(l, layer, OP_BN_STATISTICS));
    return emit_bn(l, layer, OP_BN_POOL_FWD);
}

/* Emits the statistics of the residual's batch norm. */
static enum status finalize_residual(struct lowering *l, struct layer *layer,
                                     const struct tensor_desc *affine)
{
    struct layer *z = l->layer;
    while (z->node != layer->z_bn)
        z++;
    TRY(emit_finalize(l, z, lower_producer(l, z->x)->value[ROLE_SUMS], affine));
    layer->value[ROLE_Z_AFFINE] = z->value[ROLE_AFFINE];
    layer->value[ROLE_Z_MEAN] = z->value[ROLE_MEAN];
    layer->value[ROLE_Z_INVSTD] = z->value[ROLE_INVSTD];
    return STATUS_OK;
}

/* Emits batch norm in training, fused as far as the device and the program's configuration
 * allow. */
static enum status train_bn(struct lowering *l, struct layer *layer, int last)
{
    const struct layer *before = lower_producer(l, layer->x);
    int sums = before ? before->value[ROLE_SUMS] : -1;
    bool apply = false, mask = false;
    const struct tensor_desc narrow = fuse_affine_desc(l, layer->node->c);
    const struct tensor_desc wide = fuse_sums_desc(layer->node->c);
    if (layer->pool)
        return emit_bn_pool(l, layer, sums);
    if (sums >= 0)
        TRY(fuse_shortcut(l, last, layer, &layer->added));
    if (layer->added)
        return STATUS_OK; /* BN_FINALIZE is emitted with the block's last batch norm */
    if (sums >= 0)
        TRY(fuse_apply(l, last, layer, &apply));
    layer->users = l->n_users[last];
    layer->joined = apply;
    if (!apply)
        TRY(fuse_join(l, last, layer, &layer->joined));
    if (!apply && sums >= 0)
        TRY(fuse_end(l, last, layer));
    if (layer->z_bn)
        TRY(finalize_residual(l, layer, layer->ender ? &narrow : &wide));
    if (!layer->joined)
        TRY(fuse_mask(l, layer, &mask));
    if (mask)
        layer->value[ROLE_MASK] = lower_value(l, fuse_mask_desc(&l->p->value[layer->x].desc), -1);
    if (sums < 0)
        return emit_bn(l, layer, OP_BN_FWD_TRAIN);
    bool applied = apply || layer->ender;
    TRY(emit_finalize(l, layer, sums, applied ? &narrow : NULL));
    return applied ? STATUS_OK : emit_bn(l, layer, OP_BN_APPLY);
}

/* Sets Z to the residual `value` in the layout of X. If `value` is the result of a batch norm and
 * is not stored, sets Z to the batch norm's input instead. */
static enum status take_residual(struct lowering *l, struct layer *layer, int value)
{
    struct tensor_desc like = l->p->value[layer->x].desc;
    const struct layer *z = lower_producer(l, value);
    if (z && z->added) {
        value = z->x;
        layer->z_bn = z->node;
    }
    return in_layout_of(l, layer, value, &like, &layer->value[ROLE_Z]);
}

static enum status forward_bn(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_BN, n);
    int other = -1, last = i;
    int add = absorb_add(l, i, &other);
    if (add >= 0)
        last = add;
    last = absorb_relu(l, last, &layer.relu);
    struct tensor_desc like = l->p->value[layer.x].desc;
    if (add >= 0)
        TRY(take_residual(l, &layer, l->value_of[other]));
    if (l->p->config.train)
        TRY(fuse_pool(l, &layer, &last, &like));
    layer.value[ROLE_Y] = lower_value(l, like, -1);
    meet_params(l, n);
    if (l->p->config.train)
        TRY(train_bn(l, &layer, last));
    else
        TRY(emit_bn(l, &layer, OP_BN_FWD_EVAL));
    remember(l, &layer, last);
    return STATUS_OK;
}

/* Emits a ReLU or an addition that was not fused into another layer. */
static enum status forward_elementwise(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    bool add = n->kind == NODE_ADD;
    struct layer layer = layer_of(l, add ? LAYER_ADD : LAYER_RELU, n);
    layer.name = add ? "add" : n->name;
    struct tensor_desc like = l->p->value[layer.x].desc;
    struct op_desc d = {.kind = add ? OP_ADD : OP_RELU_FWD};
    if (add)
        TRY(in_layout_of(l, &layer, l->value_of[n->in[1]], &like, &layer.value[ROLE_Z]));
    layer.value[ROLE_Y] = lower_value(l, like, -1);
    return emit_layer(l, &layer, &d, i);
}

static enum status forward_maxpool(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_MAXPOOL, n);
    struct tensor_desc y = lower_result_desc(l, n, l->p->value[layer.x].desc.layout);
    struct op_desc d = {.kind = OP_MAXPOOL_FWD, .attr.pool = lower_pool_attr(n)};
    layer.value[ROLE_Y] = lower_value(l, y, -1);
    if (l->p->config.train)
        layer.value[ROLE_INDEX] = lower_value(l, lower_index_desc(y), -1);
    return emit_layer(l, &layer, &d, i);
}

/* Pools into the plain layout, because a flatten follows. */
static enum status forward_avgpool(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_AVGPOOL, n);
    struct op_desc d = {.kind = OP_AVGPOOL_FWD};
    layer.value[ROLE_Y] = lower_value(l, lower_result_desc(l, n, LAYOUT_PLAIN), -1);
    return emit_layer(l, &layer, &d, i);
}

/* The result is the same memory with the shape (N, F). */
static enum status forward_flatten(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_FLATTEN, n);
    layer.name = "flatten";
    struct tensor_desc plain = lower_result_desc(l, node_at(l, n->in[0]), LAYOUT_PLAIN);
    TRY(in_layout_of(l, &layer, layer.x, &plain, &layer.x));
    layer.value[ROLE_Y] = lower_view(l, feature_desc(l, n), layer.x);
    remember(l, &layer, i);
    return STATUS_OK;
}

static enum status forward_dropout(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    const struct program_config *c = &l->p->config;
    struct layer layer = layer_of(l, LAYER_DROPOUT, n);
    layer.dropout = l->n_dropouts++;
    if (!c->train || c->no_dropout || n->dropout_p == 0) {
        l->value_of[i] = layer.x;
        return STATUS_OK;
    }
    struct op_desc d = {.kind = OP_DROPOUT_FWD,
                        .attr.dropout = {.p = n->dropout_p, .layer = layer.dropout}};
    layer.value[ROLE_Y] = lower_value(l, l->p->value[layer.x].desc, -1);
    return emit_layer(l, &layer, &d, i);
}

static enum status forward_linear(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_LINEAR, n);
    int last = absorb_relu(l, i, &layer.relu);
    struct op_desc d = {.kind = OP_LINEAR_FWD, .attr.linear.relu = layer.relu};
    TRY(lower_operand(l, PHASE_FORWARD, n->name, layer.x, &layer.value[ROLE_X]));
    layer.value[ROLE_Y] = lower_value(l, feature_desc(l, n), -1);
    TRY(cast_weights(l, &layer));
    meet_params(l, n);
    return emit_layer(l, &layer, &d, last);
}

static enum status forward_node(struct lowering *l, int i)
{
    switch (node_at(l, i)->kind) {
    case NODE_CONV:
        return forward_conv(l, i);
    case NODE_BN:
        return forward_bn(l, i);
    case NODE_RELU:
    case NODE_ADD:
        return forward_elementwise(l, i);
    case NODE_MAXPOOL:
        return forward_maxpool(l, i);
    case NODE_AVGPOOL:
        return forward_avgpool(l, i);
    case NODE_FLATTEN:
        return forward_flatten(l, i);
    case NODE_DROPOUT:
        return forward_dropout(l, i);
    case NODE_LINEAR:
        return forward_linear(l, i);
    case NODE_INPUT:
        break;
    }
    return status_fail(STATUS_INVALID, "the input of the graph '%s' is not its first node",
                       l->g->arch);
}

/* If the program uses mixup, makes the draft's operation mix the rows of the batch. */
static void draft_mix(const struct lowering *l, struct draft *d)
{
    const struct program_config *c = &l->p->config;
    if (!c->mixes)
        return;
    draft_fixed(d, ROLE_PARTNER, SPACE_PARTNERS, tensor_1d(DTYPE_I32, c->batch));
    d->ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
}

/* Emits the conversion of the images (pixels, or floats from the caller) to the layout that the
 * first convolution chose. The conversion is the program's first operation; its slot, 0, was
 * reserved before that layout was known. */
static enum status emit_input(struct lowering *l, int value)
{
    const struct program_config *c = &l->p->config;
    int64_t s = l->g->image_size;
    struct tensor_desc *v = &l->p->value[value].desc;
    if (v->layout == LAYOUT_ANY) {
        v->layout = LAYOUT_PLAIN;
        v->bytes = (size_t)tensor_count(v) * dtype_size(v->type);
    }
    if (c->float_input && c->mixes)
        return status_fail(STATUS_INVALID, "mixup needs images as pixels, not as floats");
    struct draft d = {.desc.kind = c->float_input ? OP_REORDER : OP_NORMALIZE};
    struct tensor_desc in = c->float_input ? tensor_4d(DTYPE_F32, LAYOUT_PLAIN, c->batch, 3, s, s)
                                           : tensor_4d(DTYPE_U8, LAYOUT_NHWC, c->batch, 3, s, s);
    for (int k = 0; k < 3 && !c->float_input; k++) {
        d.desc.attr.normalize.mean[k] = c->mean[k];
        d.desc.attr.normalize.std[k] = c->std[k];
    }
    l->p->image_bytes = in.bytes;
    draft_fixed(&d, ROLE_X, SPACE_IMAGES, in);
    draft_mix(l, &d);
    draft_value(l, &d, ROLE_Y, value);
    return lower_emit(l, PHASE_INPUT, "input", &d, 0);
}

/* Emits the loss and, in training, the gradient that starts the backward pass. */
static enum status emit_loss(struct lowering *l)
{
    const struct program_config *c = &l->p->config;
    struct draft d = {
        .desc = {.kind = OP_SOFTMAX_XENT, .attr.xent.label_smoothing = c->label_smoothing}};
    draft_value(l, &d, ROLE_X, l->p->logits);
    draft_fixed(&d, ROLE_LABEL, SPACE_LABELS, tensor_1d(DTYPE_I32, c->batch));
    d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    d.ref[ROLE_METRICS] = (struct ref){SPACE_METRICS, 0};
    draft_mix(l, &d);
    if (c->train && c->scaler)
        TRY(lower_scaler(l, PHASE_LOSS, OP_SCALE_SET));
    if (c->train) {
        struct arriving *a = &l->grad[l->p->logits];
        a->value[a->n++] = lower_value(l, l->p->value[l->p->logits].desc, -1);
        draft_value(l, &d, ROLE_DX, a->value[0]);
    }
    return lower_emit(l, PHASE_LOSS, "loss", &d, -1);
}

enum status lower_forward(struct lowering *l)
{
    struct program *p = l->p;
    int64_t s = l->g->image_size;
    if (lower_reserve(l) < 0) /* slot 0: emit_input */
        return STATUS_OOM;
    struct tensor_desc input = tensor_4d(DTYPE_F32, LAYOUT_ANY, p->config.batch, 3, s, s);
    int image = lower_value(l, lower_typed(l, input, p->config.policy.activation), -1);
    l->value_of[0] = image;
    for (int i = 1; i < l->g->n_nodes; i++)
        if (!l->done[i])
            TRY(forward_node(l, i));
    TRY(emit_input(l, image));

    p->logits = l->value_of[l->g->n_nodes - 1];
    TRY(array_new(&l->grad, p->n_values));
    return emit_loss(l);
}
