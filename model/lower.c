/* Lowers a graph to planned operations. This file has the functions that both the forward and the
 * backward half use. */
#include "model/lower.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

struct tensor_desc lower_typed(const struct lowering *l, struct tensor_desc t, enum dtype type)
{
    bool native = network_native(l->net, type);
    t.type = native ? type : DTYPE_F32;
    t.rounds = native ? DTYPE_F32 : type;
    t.bytes = t.layout == LAYOUT_ANY ? 0 : (size_t)tensor_count(&t) * dtype_size(t.type);
    return t;
}

int lower_value(struct lowering *l, struct tensor_desc desc, int storage)
{
    struct program *p = l->p;
    if (array_reserve(&p->value, p->n_values) != STATUS_OK)
        out_of_memory();
    int v = p->n_values++;
    desc.raw = false; /* set later if the operation's plan leaves the value unrounded */
    p->value[v] = (struct value){
        .desc = desc, .storage = storage < 0 ? v : p->value[storage].storage, .first = -1};
    return v;
}

int lower_view(struct lowering *l, struct tensor_desc desc, int of)
{
    int v = lower_value(l, desc, of);
    l->p->value[v].desc.raw = l->p->value[of].desc.raw;
    return v;
}

void draft_value(struct lowering *l, struct draft *d, enum role role, int value)
{
    if (value < 0)
        return; /* the operation has no such tensor */
    d->desc.t[role] = l->p->value[value].desc;
    d->ref[role] = (struct ref){SPACE_VALUE, value};
}

struct tensor_desc lower_weight_desc(const struct lowering *l, int param)
{
    const struct placement *at = &l->net->place[param];
    struct tensor_desc t = at->desc;
    t.rounds = at->types.copy;
    if (!at->cast)
        return t;
    t.layout = t.ndim > 1 ? LAYOUT_ANY : LAYOUT_PLAIN;
    return lower_typed(l, t, at->types.copy);
}

struct tensor_desc lower_gradient_desc(const struct lowering *l, int param)
{
    return network_gradient_desc(l->net, param);
}

static void draft_param(struct lowering *l, struct draft *d, enum role role, int param)
{
    if (param < 0)
        return;
    const struct placement *at = &l->net->place[param];
    bool kept = at->types.copy == at->types.master;
    d->desc.t[role] = at->desc;
    d->desc.t[role].rounds = at->types.copy;
    d->ref[role] = (struct ref){kept ? SPACE_WEIGHT : SPACE_COPY, param};
}

static void draft_gradient(struct lowering *l, struct draft *d, enum role role, int param)
{
    if (param < 0)
        return;
    d->desc.t[role] = lower_gradient_desc(l, param);
    d->ref[role] = (struct ref){SPACE_GRADIENT, param};
}

void draft_fixed(struct draft *d, enum role role, enum space space, struct tensor_desc desc)
{
    d->desc.t[role] = desc;
    d->ref[role] = (struct ref){space, 0};
}

void draft_layer(struct lowering *l, struct draft *d, const struct layer *layer, uint64_t without)
{
    const struct node *n = layer->node;
    const struct op_roles roles = op_roles(d->desc.kind);
    const int z_weight = layer->z_bn ? layer->z_bn->weight : -1;
    const int z_bias = layer->z_bn ? layer->z_bn->bias : -1;
    const int param[ROLE_COUNT] = {
        [ROLE_W] = n->weight,        [ROLE_B] = n->bias,         [ROLE_RMEAN] = n->mean,
        [ROLE_RVAR] = n->var,        [ROLE_DW] = n->weight,      [ROLE_DB] = n->bias,
        [ROLE_BN_GAMMA] = n->weight, [ROLE_BN_BETA] = n->bias,   [ROLE_Z_GAMMA] = z_weight,
        [ROLE_Z_BETA] = z_bias,      [ROLE_Z_DGAMMA] = z_weight, [ROLE_Z_DBETA] = z_bias};
    const uint64_t params = ROLE_SET(W) | ROLE_SET(B) | ROLE_SET(RMEAN) | ROLE_SET(RVAR) |
                            ROLE_SET(BN_GAMMA) | ROLE_SET(BN_BETA) | ROLE_SET(Z_GAMMA) |
                            ROLE_SET(Z_BETA);
    const uint64_t gradients = ROLE_SET(DW) | ROLE_SET(DB) | ROLE_SET(Z_DGAMMA) | ROLE_SET(Z_DBETA);
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (!(((roles.reads | roles.writes) & ~without) >> r & 1))
            continue;
        if (layer->value[r] >= 0)
            draft_value(l, d, (enum role)r, layer->value[r]);
        else if (params >> r & 1)
            draft_param(l, d, (enum role)r, param[r]);
        else if (gradients >> r & 1)
            draft_gradient(l, d, (enum role)r, param[r]);
        else if (r == ROLE_STATE)
            d->ref[r] = (struct ref){SPACE_STATE, 0};
    }
}

int lower_sole_user(const struct lowering *l, int i, enum node_kind kind)
{
    return l->n_users[i] == 1 && l->g->node[l->user[i]].kind == kind ? l->user[i] : -1;
}

struct tensor_desc lower_result_desc(const struct lowering *l, const struct node *n,
                                     enum layout layout)
{
    struct tensor_desc t = tensor_4d(DTYPE_F32, layout, l->p->config.batch, n->c, n->h, n->w);
    return lower_typed(l, t, l->p->config.policy.activation);
}

struct conv_attr lower_conv_attr(const struct node *n)
{
    return (struct conv_attr){
        .stride = {n->stride, n->stride}, .pad = {n->pad, n->pad}, .groups = n->groups};
}

struct pool_attr lower_pool_attr(const struct node *n)
{
    return (struct pool_attr){.kernel = {n->kernel, n->kernel},
                              .stride = {n->stride, n->stride},
                              .pad = {n->pad, n->pad}};
}

static void touch(struct program *p, int value, int step)
{
    struct value *owner = &p->value[p->value[value].storage];
    if (owner->first < 0)
        owner->first = step;
    owner->first = step < owner->first ? step : owner->first;
    owner->last = step > owner->last ? step : owner->last;
}

static void adopt_layout(struct tensor_desc *t, const struct tensor_desc *chosen)
{
    if (t->layout != LAYOUT_ANY)
        return;
    t->layout = chosen->layout;
    t->opaque = chosen->opaque;
    t->bytes = chosen->bytes / dtype_size(chosen->type) * dtype_size(t->type);
}

/* Takes over the plan's choices: layouts that were ANY, and whether results are rounded. */
static void adopt_choices(struct lowering *l, const struct step *s)
{
    uint64_t written = op_roles(s->plan->desc.kind).writes;
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *chosen = &s->plan->desc.t[r];
        if (s->ref[r].space == SPACE_WEIGHT || s->ref[r].space == SPACE_COPY ||
            s->ref[r].space == SPACE_GRADIENT)
            adopt_layout(&l->net->place[s->ref[r].index].desc, chosen);
        if (s->ref[r].space != SPACE_VALUE)
            continue;
        struct tensor_desc *t = &l->p->value[s->ref[r].index].desc;
        adopt_layout(t, chosen);
        if (written >> r & 1)
            t->raw = chosen->raw;
    }
}

/* Rounds in place every unrounded value that the draft reads, and sets *any to whether there is
 * such a value. */
static enum status round_inputs(struct lowering *l, enum phase phase, const char *layer,
                                struct draft *d, bool *any)
{
    uint64_t read = op_roles(d->desc.kind).reads;
    *any = false;
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (!(read >> r & 1) || d->ref[r].space != SPACE_VALUE || !d->desc.t[r].raw)
            continue;
        struct draft round = {.desc.kind = OP_ROUND};
        int value = d->ref[r].index;
        draft_value(l, &round, ROLE_X, value);
        l->p->value[value].desc.raw = false;
        draft_value(l, &round, ROLE_Y, value);
        TRY(lower_emit(l, phase, layer, &round, -1));
        draft_value(l, d, (enum role)r, value);
        *any = true;
    }
    return STATUS_OK;
}

/* Plans a draft. If the device cannot execute the operation on unrounded inputs, first emits
 * operations that round these inputs. */
static enum status plan_draft(struct lowering *l, enum phase phase, const char *layer,
                              const struct draft *d, struct op_plan **plan)
{
    struct draft rounded = *d;
    bool any;
    enum status st = op_plan(l->net->dev, &d->desc, plan);
    if (st != STATUS_UNSUPPORTED || d->desc.kind == OP_ROUND)
        return st;
    TRY(round_inputs(l, phase, layer, &rounded, &any));
    return any ? op_plan(l->net->dev, &rounded.desc, plan) : st;
}

int lower_reserve(struct lowering *l)
{
    struct program *p = l->p;
    if (array_reserve(&p->step, p->n_steps) != STATUS_OK)
        return -1;
    p->step[p->n_steps] = (struct step){0};
    return p->n_steps++;
}

enum status lower_emit(struct lowering *l, enum phase phase, const char *layer,
                       const struct draft *d, int slot)
{
    struct program *p = l->p;
    struct op_plan *plan;
    enum status st = plan_draft(l, phase, layer, d, &plan);
    if (st != STATUS_OK)
        return status_context(st, "layer '%s'", layer);
    if (slot < 0)
        slot = lower_reserve(l);
    if (slot < 0) {
        op_plan_free(plan);
        return STATUS_OOM;
    }
    struct step *s = &p->step[slot];
    *s = (struct step){.phase = phase, .layer = layer, .plan = plan};
    memcpy(s->ref, d->ref, sizeof s->ref);
    adopt_choices(l, s);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (s->ref[r].space == SPACE_VALUE)
            touch(p, s->ref[r].index, slot);
    if (s->plan->workspace) {
        s->ref[ROLE_WORKSPACE] = (struct ref){SPACE_WORKSPACE, 0};
        if (s->plan->workspace > p->workspace_bytes)
            p->workspace_bytes = s->plan->workspace;
    }
    return STATUS_OK;
}

enum status lower_reorder(struct lowering *l, enum phase phase, const char *layer, int value,
                          int out)
{
    struct draft d = {.desc.kind = OP_REORDER};
    draft_value(l, &d, ROLE_X, value);
    draft_value(l, &d, ROLE_Y, out);
    return lower_emit(l, phase, layer, &d, -1);
}

enum status lower_scaler(struct lowering *l, enum phase phase, enum op_kind kind)
{
    struct draft d = {.desc = {.kind = kind}};
    if (kind == OP_SCALE_UPDATE)
        d.desc.attr.scaler = *l->p->config.scaler;
    d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    d.ref[ROLE_SCALER] = (struct ref){SPACE_SCALER, 0};
    return lower_emit(l, phase, "scaler", &d, -1);
}

enum status lower_operand(struct lowering *l, enum phase phase, const char *layer, int value,
                          int *out)
{
    *out = value;
    if (l->p->config.policy.operand != DTYPE_TF32)
        return STATUS_OK;
    struct tensor_desc narrow = l->p->value[value].desc;
    if (narrow.layout == LAYOUT_ANY) { /* the value is the image, which no other node reads */
        l->p->value[value].desc.rounds = DTYPE_TF32;
        return STATUS_OK;
    }
    narrow.rounds = DTYPE_TF32;
    if (!l->net->emulate &&
        device_native(l->net->dev, DTYPE_TF32)) { /* no rounding: the multiplication rounds its
                                                   * operands */
        *out = lower_value(l, narrow, value);
        l->p->value[*out].desc.raw = true;
        return STATUS_OK;
    }
    struct draft d = {.desc.kind = OP_ROUND};
    *out = lower_value(l, narrow, -1);
    draft_value(l, &d, ROLE_X, value);
    draft_value(l, &d, ROLE_Y, *out);
    return lower_emit(l, phase, layer, &d, -1);
}

/* Counts the users of each node's result: most fusions need a result with only one user. */
static void count_users(struct lowering *l)
{
    for (int i = 0; i < l->g->n_nodes; i++) {
        for (int k = 0; k < 2; k++) {
            int in = l->g->node[i].in[k];
            if (in >= 0) {
                l->n_users[in]++;
                l->user[in] = i;
            }
        }
    }
}

/* Sets the layout of parameters for which no plan has chosen one. Normally the operation that
 * writes the gradient chooses the layout, but a network that is not trained has no such
 * operation. */
static void settle_layouts(struct network *net)
{
    for (int i = 0; i < net->graph->n_params; i++) {
        struct tensor_desc *t = &net->place[i].desc;
        if (t->layout != LAYOUT_ANY)
            continue;
        t->layout = LAYOUT_PLAIN;
        t->bytes = (size_t)tensor_count(t) * dtype_size(t->type);
    }
}

/* Lays out the flat buffer in the order in which the backward pass completes gradients. This is the
 * reverse of the parameters' forward order. The first program does this for all programs. */
static void lay_flat(struct lowering *l)
{
    struct network *net = l->net;
    if (net->flat_bytes)
        return;
    for (int i = 0; i < l->n_order; i++) {
        int param = l->order[l->n_order - 1 - i];
        net->order[i] = param;
        net->place[param].offset = net->flat_bytes;
        net->flat_bytes += (net->place[param].desc.bytes + 63) / 64 * 64;
    }
    net->n_trained = l->n_order;
    for (int i = 0; i < l->g->n_params; i++) {
        if (param_is_trained(&l->g->param[i]))
            continue;
        net->place[i].offset = net->stats_bytes;
        net->stats_bytes += (net->place[i].desc.bytes + 63) / 64 * 64;
    }
}

enum status program_lower(struct program *p)
{
    const struct graph *g = p->net->graph;
    int n = g->n_nodes;
    struct lowering l = {.p = p, .net = p->net, .g = g};
    enum status st;
    CHECK(array_new(&l.n_users, n));
    CHECK(array_new(&l.user, n));
    CHECK(array_new(&l.done, n));
    CHECK(array_new(&l.value_of, n));
    CHECK(array_new(&l.layer, 2 * n));
    CHECK(array_new(&l.order, g->n_params));
    CHECK(array_new(&l.cast, g->n_params));
    count_users(&l);
    CHECK(lower_forward(&l));
    if (p->config.train)
        CHECK(lower_backward(&l));
    settle_layouts(p->net);
    CHECK(lower_casts(&l));
    lay_flat(&l);
    p->value[p->logits].last = p->n_steps; /* readable after the step */
    if (p->config.wgrad_stream)
        program_plan_wgrad_stream(p);
    CHECK(program_place(p));
done:
    free(l.n_users);
    free(l.user);
    free(l.done);
    free(l.value_of);
    free(l.layer);
    free(l.order);
    free(l.cast);
    free(l.grad);
    return st;
}

enum status program_lower_update(struct program *p)
{
    struct lowering l = {.p = p, .net = p->net, .g = p->net->graph};
    const struct program_config *c = &p->config;
    struct tensor_desc flat = tensor_1d(DTYPE_F32, (int64_t)(p->net->flat_bytes / sizeof(float)));
    struct tensor_desc copies = tensor_1d(p->net->copy_type, flat.dim[0]);
    struct tensor_desc half = tensor_1d(p->net->half_type, flat.dim[0]);
    bool has_half = p->net->half_type != DTYPE_F32;
    struct sgd_attr attr = {.momentum = c->momentum,
                            .nesterov = c->nesterov,
                            .clip = c->clip,
                            .n_segments = p->net->n_segments,
                            .segment = p->net->segment};
    struct draft check = {.desc = {.kind = OP_CHECK_FINITE, .attr.sgd = attr}};
    struct draft d = {.desc = {.kind = OP_SGD, .attr.sgd = attr}};
    if (c->check_finite) {
        draft_fixed(&check, ROLE_DW, SPACE_FLAT_GRADIENT, flat);
        if (has_half)
            draft_fixed(&check, ROLE_DW_HALF, SPACE_FLAT_HALF_GRADIENT, half);
        check.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
        TRY(lower_emit(&l, PHASE_CHECK, "check", &check, -1));
    }
    draft_fixed(&d, ROLE_W, SPACE_FLAT_WEIGHT, flat);
    draft_fixed(&d, ROLE_DW, SPACE_FLAT_GRADIENT, flat);
    if (has_half)
        draft_fixed(&d, ROLE_DW_HALF, SPACE_FLAT_HALF_GRADIENT, half);
    draft_fixed(&d, ROLE_MOMENTUM, SPACE_FLAT_MOMENTUM, flat);
    if (p->net->has_copies)
        draft_fixed(&d, ROLE_WCOPY, SPACE_FLAT_COPY, copies);
    d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    TRY(lower_emit(&l, PHASE_UPDATE, "sgd", &d, -1));
    return c->scaler ? lower_scaler(&l, PHASE_UPDATE, OP_SCALE_UPDATE) : STATUS_OK;
}

void program_free(struct program *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_steps; i++)
        op_plan_free(p->step[i].plan);
    program_free_graph_segments(p);
    free(p->fusion);
    free(p->step);
    free(p->value);
    free(p);
}
