/* Lowering: from a graph to planned steps. This file holds what both directions need. */
#include "model/lower.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for one more element; NULL when there is no memory. */
static void *grown(void *array, int n, int *cap, size_t size)
{
    if (n < *cap)
        return array;
    int more = *cap ? 2 * *cap : 64;
    void *bigger = realloc(array, (size_t)more * size);
    if (bigger)
        *cap = more;
    return bigger;
}

int lower_value(struct lowering *l, struct tensor_desc desc, int storage)
{
    struct program *p = l->p;
    struct value *more = grown(p->value, p->n_values, &p->cap_values, sizeof *more);
    if (!more)
        return -1;
    p->value = more;
    int v = p->n_values++;
    p->value[v] = (struct value){
        .desc = desc, .storage = storage < 0 ? v : p->value[storage].storage, .first = -1};
    return v;
}

void draft_value(struct lowering *l, struct draft *d, enum role role, int value)
{
    if (value < 0)
        return; /* lower_value found no memory: the plan reports the missing tensor */
    d->desc.t[role] = l->p->value[value].desc;
    d->ref[role] = (struct ref){SPACE_VALUE, value};
}

void draft_param(struct lowering *l, struct draft *d, enum role role, int param)
{
    if (param < 0)
        return;
    d->desc.t[role] = l->net->place[param].desc;
    d->ref[role] = (struct ref){SPACE_WEIGHT, param};
}

void draft_gradient(struct lowering *l, struct draft *d, enum role role, int param)
{
    if (param < 0)
        return;
    d->desc.t[role] = l->net->place[param].desc;
    d->ref[role] = (struct ref){SPACE_GRADIENT, param};
}

void draft_fixed(struct draft *d, enum role role, enum space space, struct tensor_desc desc)
{
    d->desc.t[role] = desc;
    d->ref[role] = (struct ref){space, 0};
}

static void touch(struct program *p, int value, int step)
{
    struct value *owner = &p->value[p->value[value].storage];
    if (owner->first < 0)
        owner->first = step;
    owner->first = step < owner->first ? step : owner->first;
    owner->last = step > owner->last ? step : owner->last;
}

/* Takes over what the plan chose for tensors that were free. */
static void adopt_layouts(struct lowering *l, const struct step *s)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = NULL;
        if (s->ref[r].space == SPACE_VALUE)
            t = &l->p->value[s->ref[r].index].desc;
        else if (s->ref[r].space == SPACE_WEIGHT)
            t = &l->net->place[s->ref[r].index].desc;
        if (t && t->layout == LAYOUT_ANY)
            *t = s->plan->desc.t[r];
    }
}

enum status lower_emit(struct lowering *l, enum phase phase, const char *layer,
                       const struct draft *d, int slot)
{
    struct program *p = l->p;
    if (slot < 0) {
        struct step *more = grown(p->step, p->n_steps, &p->cap_steps, sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for a step");
        p->step = more;
        slot = p->n_steps++;
    }
    struct step *s = &p->step[slot];
    *s = (struct step){.phase = phase, .layer = layer};
    memcpy(s->ref, d->ref, sizeof s->ref);
    enum status st = op_plan(p->net->dev, &d->desc, &s->plan);
    if (st != STATUS_OK)
        return status_context(st, "layer '%s'", layer);
    adopt_layouts(l, s);
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

/* Who uses each node's result: fusing needs a sole user. */
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

/* The optimizer's order is that in which the backward pass completes gradients: the forward order
 * of parameters, reversed. The first program lays it down for all. */
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
    size_t n = (size_t)g->n_nodes;
    struct lowering l = {.p = p, .net = p->net, .g = g};
    enum status st = STATUS_OK;
    l.n_users = calloc(n, sizeof *l.n_users);
    l.user = calloc(n, sizeof *l.user);
    l.done = calloc(n, sizeof *l.done);
    l.value_of = calloc(n, sizeof *l.value_of);
    l.layer = calloc(2 * n, sizeof *l.layer);
    l.order = calloc((size_t)g->n_params, sizeof *l.order);
    if (!l.n_users || !l.user || !l.done || !l.value_of || !l.layer || !l.order) {
        st = status_fail(STATUS_OOM, "no memory to plan '%s'", g->arch);
        goto done;
    }
    count_users(&l);
    CHECK(lower_forward(&l));
    lay_flat(&l);
    if (p->config.train)
        CHECK(lower_backward(&l));
    p->value[p->logits].last = p->n_steps; /* readable after the step */
    CHECK(program_place(p));
done:
    free(l.n_users);
    free(l.user);
    free(l.done);
    free(l.value_of);
    free(l.layer);
    free(l.order);
    free(l.grad);
    return st;
}

enum status program_lower_update(struct program *p)
{
    struct lowering l = {.p = p, .net = p->net, .g = p->net->graph};
    const struct program_config *c = &p->config;
    int64_t count = (int64_t)(p->net->flat_bytes / sizeof(float));
    struct sgd_segment all = {.begin = 0, .end = count, .weight_decay = c->weight_decay};
    struct draft d = {.desc = {.kind = OP_SGD,
                               .attr.sgd = {.momentum = c->momentum,
                                            .nesterov = c->nesterov,
                                            .n_segments = 1,
                                            .segment = &all}}};
    struct tensor_desc flat = tensor_1d(DTYPE_F32, count);
    draft_fixed(&d, ROLE_W, SPACE_FLAT_WEIGHT, flat);
    draft_fixed(&d, ROLE_DW, SPACE_FLAT_GRADIENT, flat);
    draft_fixed(&d, ROLE_MOMENTUM, SPACE_FLAT_MOMENTUM, flat);
    d.ref[ROLE_STATE] = (struct ref){SPACE_STATE, 0};
    return lower_emit(&l, PHASE_UPDATE, "sgd", &d, -1);
}

void program_free(struct program *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_steps; i++)
        op_plan_free(p->step[i].plan);
    free(p->step);
    free(p->value);
    free(p);
}
