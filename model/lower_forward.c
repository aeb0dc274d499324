/* The forward half of lowering: fuses conv+ReLU, linear+ReLU and BN(+add)(+ReLU). */
#include "model/lower.h"

#include <stdlib.h>

static const struct node *node_at(const struct lowering *l, int i)
{
    return &l->g->node[i];
}

int lower_sole_user(const struct lowering *l, int i, enum node_kind kind)
{
    return l->n_users[i] == 1 && node_at(l, l->user[i])->kind == kind ? l->user[i] : -1;
}

/* Marks a ReLU that alone uses node i as done, its result being i's; returns the last node. */
static int absorb_relu(struct lowering *l, int i, bool *relu)
{
    int r = lower_sole_user(l, i, NODE_RELU);
    *relu = r >= 0;
    if (r < 0)
        return i;
    l->done[r] = true;
    return r;
}

struct tensor_desc lower_result_desc(const struct lowering *l, const struct node *n,
                                     enum layout layout)
{
    struct tensor_desc t = tensor_4d(DTYPE_F32, layout, l->p->config.batch, n->c, n->h, n->w);
    return lower_typed(l, t, l->p->config.policy.activation);
}

static struct tensor_desc feature_desc(const struct lowering *l, const struct node *n)
{
    struct tensor_desc t = tensor_2d(DTYPE_F32, l->p->config.batch, n->c);
    return lower_typed(l, t, l->p->config.policy.activation);
}

static void remember(struct lowering *l, const struct layer *layer, int last_node)
{
    l->layer[l->n_layers++] = *layer;
    l->value_of[last_node] = layer->y;
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
    return (struct layer){.kind = kind,
                          .name = n->name,
                          .node = n,
                          .x = l->value_of[n->in[0]],
                          .z = -1,
                          .weight = -1,
                          .mean = -1,
                          .invstd = -1,
                          .index = -1,
                          .sums = -1,
                          .affine = -1,
                          .mask = -1,
                          .eq = -1};
}

struct layer *lower_producer(const struct lowering *l, int value)
{
    for (int i = l->n_layers - 1; i >= 0; i--)
        if (l->layer[i].y == value)
            return &l->layer[i];
    return NULL;
}

struct conv_attr lower_conv_attr(const struct node *n)
{
    return (struct conv_attr){
        .stride = {n->stride, n->stride}, .pad = {n->pad, n->pad}, .groups = n->groups};
}

/* `value` in the layout of `like`, by a reorder where it has another; *out is the result. */
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
    layer.y = *out = lower_value(l, to, -1);
    l->layer[l->n_layers++] = layer;
    return lower_reorder(l, PHASE_FORWARD, user->name, value, *out);
}

static enum status draft_weights(struct lowering *l, struct draft *d, struct layer *layer)
{
    const struct node *n = layer->node;
    int bias;
    TRY(draft_weight(l, d, n->name, ROLE_W, n->weight, &layer->weight));
    return draft_weight(l, d, n->name, ROLE_B, n->bias, &bias);
}

/* What the convolution reads, and whether its result's sums come with it. A batch norm that left
 * its own work to it has asked before (fuse_apply). */
static enum status conv_input(struct lowering *l, int i, struct layer *layer, bool *stats)
{
    const struct layer *before = lower_producer(l, layer->x);
    *stats = before && before->kind == LAYER_BN && before->affine >= 0;
    if (*stats) {
        layer->operand = before->x;
        layer->affine = before->affine;
        return STATUS_OK;
    }
    TRY(lower_operand(l, PHASE_FORWARD, layer->name, layer->x, &layer->operand));
    return fuse_stats(l, i, layer, stats);
}

static enum status forward_conv(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_CONV, n);
    bool stats;
    int last = absorb_relu(l, i, &layer.relu);
    TRY(conv_input(l, i, &layer, &stats));
    struct draft d = {
        .desc = {.kind = stats ? OP_CONV_STATS_FWD : OP_CONV_FWD, .attr.conv = lower_conv_attr(n)}};
    d.desc.attr.conv.relu = layer.relu;
    layer.y = lower_value(l, lower_result_desc(l, n, LAYOUT_ANY), -1);
    TRY(draft_weights(l, &d, &layer));
    if (stats)
        layer.sums = lower_value(l, fuse_sums_desc(n->c), -1);
    draft_value(l, &d, ROLE_X, layer.operand);
    draft_value(l, &d, ROLE_AFFINE, layer.affine);
    draft_value(l, &d, ROLE_Y, layer.y);
    draft_value(l, &d, ROLE_SUMS, layer.sums);
    meet_params(l, n);
    TRY(lower_emit(l, PHASE_FORWARD, n->name, &d, -1));
    remember(l, &layer, last);
    return STATUS_OK;
}

/* The add that alone uses batch norm i, when its other input is already computed; else -1. */
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

static void draft_bn_saved(struct lowering *l, struct draft *d, struct layer *layer, int64_t c)
{
    layer->mean = lower_value(l, tensor_1d(DTYPE_F32, c), -1);
    layer->invstd = lower_value(l, tensor_1d(DTYPE_F32, c), -1);
    draft_value(l, d, ROLE_MEAN, layer->mean);
    draft_value(l, d, ROLE_INVSTD, layer->invstd);
}

static struct bn_attr bn_attr(const struct lowering *l, const struct layer *layer)
{
    return (struct bn_attr){
        .eps = BN_EPS, .momentum = BN_MOMENTUM, .relu = layer->relu, .sync = l->p->config.sync};
}

/* Statistics from the sums that came with the convolution. */
static enum status emit_finalize(struct lowering *l, struct layer *layer, int sums, bool affine)
{
    const struct node *n = layer->node;
    struct draft d = {.desc = {.kind = OP_BN_FINALIZE, .attr.bn = bn_attr(l, layer)}};
    d.desc.attr.bn.count = (int64_t)l->p->config.batch * n->h * n->w;
    if (affine)
        layer->affine = lower_value(l, fuse_affine_desc(l, n->c), -1);
    draft_value(l, &d, ROLE_SUMS, sums);
    draft_param(l, &d, ROLE_GAMMA, n->weight);
    draft_param(l, &d, ROLE_BETA, n->bias);
    draft_param(l, &d, ROLE_RMEAN, n->mean);
    draft_param(l, &d, ROLE_RVAR, n->var);
    draft_value(l, &d, ROLE_AFFINE, layer->affine);
    draft_bn_saved(l, &d, layer, n->c);
    return lower_emit(l, PHASE_FORWARD, n->name, &d, -1);
}

/* Batch norm in one operation, or in what is left to do once statistics are known. */
static enum status emit_bn(struct lowering *l, struct layer *layer, enum op_kind kind)
{
    const struct node *n = layer->node;
    struct draft d = {.desc = {.kind = kind, .attr.bn = bn_attr(l, layer)}};
    draft_value(l, &d, ROLE_X, layer->x);
    draft_param(l, &d, ROLE_GAMMA, n->weight);
    draft_param(l, &d, ROLE_BETA, n->bias);
    draft_value(l, &d, ROLE_Y, layer->y);
    draft_value(l, &d, ROLE_Z, layer->z);
    draft_value(l, &d, ROLE_MASK, layer->mask);
    if (kind == OP_BN_APPLY) {
        draft_value(l, &d, ROLE_MEAN, layer->mean);
        draft_value(l, &d, ROLE_INVSTD, layer->invstd);
    } else {
        draft_param(l, &d, ROLE_RMEAN, n->mean);
        draft_param(l, &d, ROLE_RVAR, n->var);
    }
    if (kind == OP_BN_FWD_TRAIN)
        draft_bn_saved(l, &d, layer, n->c);
    return lower_emit(l, PHASE_FORWARD, n->name, &d, -1);
}

/* The training form, fused as far as the device and the program's configuration have it. */
static enum status train_bn(struct lowering *l, struct layer *layer, int last)
{
    const struct layer *before = lower_producer(l, layer->x);
    int sums = before ? before->sums : -1;
    bool apply = false, mask = false;
    if (sums >= 0)
        TRY(fuse_apply(l, last, layer, &apply));
    layer->users = l->n_users[last];
    layer->joined = apply;
    if (!apply)
        TRY(fuse_join(l, last, layer, &layer->joined));
    if (!layer->joined)
        TRY(fuse_mask(l, layer, &mask));
    if (mask)
        layer->mask = lower_value(l, fuse_mask_desc(&l->p->value[layer->x].desc), -1);
    if (sums < 0)
        return emit_bn(l, layer, OP_BN_FWD_TRAIN);
    TRY(emit_finalize(l, layer, sums, apply));
    return apply ? STATUS_OK : emit_bn(l, layer, OP_BN_APPLY);
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
        TRY(in_layout_of(l, &layer, l->value_of[other], &like, &layer.z));
    layer.y = lower_value(l, like, -1);
    meet_params(l, n);
    if (l->p->config.train)
        TRY(train_bn(l, &layer, last));
    else
        TRY(emit_bn(l, &layer, OP_BN_FWD_EVAL));
    remember(l, &layer, last);
    return STATUS_OK;
}

/* ReLU or add that no neighbour could take along. */
static enum status forward_elementwise(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    bool add = n->kind == NODE_ADD;
    struct layer layer = layer_of(l, add ? LAYER_ADD : LAYER_RELU, n);
    layer.name = add ? "add" : n->name;
    struct tensor_desc like = l->p->value[layer.x].desc;
    struct draft d = {.desc.kind = add ? OP_ADD : OP_RELU_FWD};
    if (add)
        TRY(in_layout_of(l, &layer, l->value_of[n->in[1]], &like, &layer.z));
    layer.y = lower_value(l, like, -1);
    draft_value(l, &d, ROLE_X, layer.x);
    draft_value(l, &d, ROLE_Z, layer.z);
    draft_value(l, &d, ROLE_Y, layer.y);
    TRY(lower_emit(l, PHASE_FORWARD, layer.name, &d, -1));
    remember(l, &layer, i);
    return STATUS_OK;
}

static enum status forward_maxpool(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_MAXPOOL, n);
    struct tensor_desc y = lower_result_desc(l, n, l->p->value[layer.x].desc.layout);
    struct draft d = {.desc = {.kind = OP_MAXPOOL_FWD,
                               .attr.pool = {.kernel = {n->kernel, n->kernel},
                                             .stride = {n->stride, n->stride},
                                             .pad = {n->pad, n->pad}}}};
    layer.y = lower_value(l, y, -1);
    draft_value(l, &d, ROLE_X, layer.x);
    draft_value(l, &d, ROLE_Y, layer.y);
    if (l->p->config.train) {
        y.bytes = y.bytes / dtype_size(y.type) * dtype_size(DTYPE_U8);
        y.type = DTYPE_U8;
        y.rounds = DTYPE_F32;
        layer.index = lower_value(l, y, -1);
        draft_value(l, &d, ROLE_INDEX, layer.index);
    }
    TRY(lower_emit(l, PHASE_FORWARD, n->name, &d, -1));
    remember(l, &layer, i);
    return STATUS_OK;
}

/* Pools into the plain layout: what follows flattens. */
static enum status forward_avgpool(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_AVGPOOL, n);
    struct draft d = {.desc.kind = OP_AVGPOOL_FWD};
    layer.y = lower_value(l, lower_result_desc(l, n, LAYOUT_PLAIN), -1);
    draft_value(l, &d, ROLE_X, layer.x);
    draft_value(l, &d, ROLE_Y, layer.y);
    TRY(lower_emit(l, PHASE_FORWARD, n->name, &d, -1));
    remember(l, &layer, i);
    return STATUS_OK;
}

/* The same memory, seen as (N, F). */
static enum status forward_flatten(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_FLATTEN, n);
    layer.name = "flatten";
    struct tensor_desc plain = lower_result_desc(l, node_at(l, n->in[0]), LAYOUT_PLAIN);
    TRY(in_layout_of(l, &layer, layer.x, &plain, &layer.x));
    layer.y = lower_view(l, feature_desc(l, n), layer.x);
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
    struct draft d = {.desc = {.kind = OP_DROPOUT_FWD,
                               .attr.dropout = {.p = n->dropout_p, .layer = layer.dropout}}};
    layer.y = lower_value(l, l->p->value[layer.x].desc, -1);
    draft_value(l, &d, ROLE_X, layer.x);
    draft_value(l, &d, ROLE_Y, layer.y);
    d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    TRY(lower_emit(l, PHASE_FORWARD, n->name, &d, -1));
    remember(l, &layer, i);
    return STATUS_OK;
}

static enum status forward_linear(struct lowering *l, int i)
{
    const struct node *n = node_at(l, i);
    struct layer layer = layer_of(l, LAYER_LINEAR, n);
    int last = absorb_relu(l, i, &layer.relu);
    struct draft d = {.desc = {.kind = OP_LINEAR_FWD, .attr.linear.relu = layer.relu}};
    TRY(lower_operand(l, PHASE_FORWARD, n->name, layer.x, &layer.operand));
    layer.y = lower_value(l, feature_desc(l, n), -1);
    TRY(draft_weights(l, &d, &layer));
    draft_value(l, &d, ROLE_X, layer.operand);
    draft_value(l, &d, ROLE_Y, layer.y);
    meet_params(l, n);
    TRY(lower_emit(l, PHASE_FORWARD, n->name, &d, -1));
    remember(l, &layer, last);
    return STATUS_OK;
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
    return status_fail(STATUS_INVALID, "the graph of '%s' has its input in the middle", l->g->arch);
}

/* Pixels (or given floats) into the layout that the first convolution chose. Takes slot 0, which
 * was reserved before that layout was known. */
static enum status emit_input(struct lowering *l, int value)
{
    const struct program_config *c = &l->p->config;
    int64_t s = l->g->image_size;
    struct tensor_desc *v = &l->p->value[value].desc;
    if (v->layout == LAYOUT_ANY) {
        v->layout = LAYOUT_PLAIN;
        v->bytes = (size_t)tensor_count(v) * dtype_size(v->type);
    }
    struct draft d = {.desc.kind = c->float_input ? OP_REORDER : OP_NORMALIZE};
    struct tensor_desc in = c->float_input ? tensor_4d(DTYPE_F32, LAYOUT_PLAIN, c->batch, 3, s, s)
                                           : tensor_4d(DTYPE_U8, LAYOUT_NHWC, c->batch, 3, s, s);
    for (int k = 0; k < 3 && !c->float_input; k++) {
        d.desc.attr.normalize.mean[k] = c->mean[k];
        d.desc.attr.normalize.std[k] = c->std[k];
    }
    l->p->image_bytes = in.bytes;
    draft_fixed(&d, ROLE_X, SPACE_IMAGES, in);
    draft_value(l, &d, ROLE_Y, value);
    return lower_emit(l, PHASE_INPUT, "input", &d, 0);
}

/* The loss, and in training the gradient that starts the backward pass. */
static enum status emit_loss(struct lowering *l)
{
    const struct program_config *c = &l->p->config;
    struct draft d = {
        .desc = {.kind = OP_SOFTMAX_XENT, .attr.xent.label_smoothing = c->label_smoothing}};
    draft_value(l, &d, ROLE_X, l->p->logits);
    draft_fixed(&d, ROLE_LABEL, SPACE_LABELS, tensor_1d(DTYPE_I32, c->batch));
    d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    d.ref[ROLE_METRICS] = (struct ref){SPACE_METRICS, 0};
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
    p->cap_steps = 256;
    p->step = calloc((size_t)p->cap_steps, sizeof *p->step);
    if (!p->step)
        return status_fail(STATUS_OOM, "no memory for steps");
    p->n_steps = 1; /* slot 0: emit_input */
    struct tensor_desc input = tensor_4d(DTYPE_F32, LAYOUT_ANY, p->config.batch, 3, s, s);
    int image = lower_value(l, lower_typed(l, input, p->config.policy.activation), -1);
    l->value_of[0] = image;
    for (int i = 1; i < l->g->n_nodes; i++)
        if (!l->done[i])
            TRY(forward_node(l, i));
    TRY(emit_input(l, image));

    p->logits = l->value_of[l->g->n_nodes - 1];
    l->n_forward_values = p->n_values;
    l->grad = calloc((size_t)p->n_values, sizeof *l->grad);
    if (!l->grad)
        return status_fail(STATUS_OOM, "no memory for gradients");
    return emit_loss(l);
}
