/* Parameters in other types than the optimizer's fp32: the copies of the weights that the passes
 * read, and gradients in half precision.
 *
 * If the policy's type is emulated, the optimizer also writes a second flat buffer, in fp32 rounded
 * to that type. If the device supports the type, a cast produces the copy of each weight when a
 * forward pass first uses the weight. The operations that read a cast choose its layout; the
 * operations that write gradients choose the layout of the flat buffer. If both layouts are equal
 * for all weights, and the device's optimizer can write the type, nothing is cast: the optimizer
 * writes a second flat buffer of that type instead. */
#include "model/lower.h"

#include "base/array.h"

#include <string.h>

/* --- casts --- */

enum status lower_cast(struct lowering *l, const char *layer, int param, int *cast)
{
    *cast = -1;
    if (param < 0 || !l->net->place[param].cast)
        return STATUS_OK;
    *cast = lower_value(l, lower_weight_desc(l, param), -1);
    int slot = lower_reserve(l);
    if (*cast < 0 || slot < 0)
        return STATUS_OOM;
    l->cast[l->n_casts++] = (struct cast){layer, param, *cast, slot};
    return STATUS_OK;
}

static enum status emit_casts(struct lowering *l)
{
    for (int i = 0; i < l->n_casts; i++) {
        const struct cast *c = &l->cast[i];
        struct draft d = {.desc.kind = OP_REORDER};
        d.desc.t[ROLE_X] = l->net->place[c->param].desc;
        d.desc.t[ROLE_X].rounds = l->net->place[c->param].types.master;
        d.ref[ROLE_X] = (struct ref){SPACE_WEIGHT, c->param};
        draft_value(l, &d, ROLE_Y, c->value);
        TRY(lower_emit(l, PHASE_FORWARD, c->layer, &d, c->slot));
    }
    return STATUS_OK;
}

/* --- a second flat buffer of the policy's type --- */

/* Sets *yes to whether the device can plan operation `kind` of the optimizer with a flat buffer of
 * type `type` as tensor `role`. */
static enum status optimizer_has(struct device *dev, enum op_kind kind, enum role role,
                                 enum dtype type, bool *yes)
{
    struct op_plan *plan;
    const struct sgd_segment segment = {
        .end = 1, .gradient = type, .copy = type, .half = role == ROLE_DW_HALF};
    struct op_desc d = {.kind = kind, .attr.sgd = {.n_segments = 1, .segment = &segment}};
    d.t[ROLE_DW] = tensor_1d(DTYPE_F32, 1);
    if (kind == OP_SGD)
        d.t[ROLE_W] = d.t[ROLE_MOMENTUM] = d.t[ROLE_DW];
    d.t[role] = tensor_1d(type, 1);
    enum status st = op_plan(dev, &d, &plan);
    op_plan_free(plan);
    *yes = st == STATUS_OK;
    return st == STATUS_UNSUPPORTED ? STATUS_OK : st;
}

/* Removes a reserved place from the program. */
static void take_out(struct program *p, int slot)
{
    p->n_steps--;
    memmove(p->step + slot, p->step + slot + 1, (size_t)(p->n_steps - slot) * sizeof *p->step);
    for (int v = 0; v < p->n_values; v++) {
        p->value[v].first -= p->value[v].first > slot;
        p->value[v].last -= p->value[v].last > slot;
    }
}

/* Makes the operations that read a cast read the second flat buffer instead. */
static void read_copy(struct program *p, const struct cast *c)
{
    for (int i = 0; i < p->n_steps; i++)
        for (int r = 0; r < ROLE_COUNT; r++) {
            struct ref *ref = &p->step[i].ref[r];
            if (ref->space == SPACE_VALUE && ref->index == c->value)
                *ref = (struct ref){SPACE_COPY, c->param};
        }
    p->value[c->value].first = -1;
    take_out(p, c->slot);
}

enum status lower_casts(struct lowering *l)
{
    struct network *net = l->net;
    bool alike = l->n_casts > 0, first = net->flat_bytes == 0, written = false;
    for (int i = 0; i < l->n_casts; i++) {
        enum layout kept = net->place[l->cast[i].param].desc.layout;
        enum layout read = l->p->value[l->cast[i].value].desc.layout;
        alike = alike && read == kept && kept != LAYOUT_OPAQUE;
    }
    if (!alike)
        return emit_casts(l);
    enum dtype type = net->place[l->cast[0].param].types.copy;
    if (first)
        TRY(optimizer_has(net->dev, OP_SGD, ROLE_WCOPY, type, &written));
    if (written)
        net->copy_type = type;
    if (net->copy_type == DTYPE_F32)
        return emit_casts(l);
    for (int i = l->n_casts - 1; i >= 0; i--) /* removal shifts later places */
        read_copy(l->p, &l->cast[i]);
    return STATUS_OK;
}

/* --- gradients in half precision --- */

/* The type that the policy gives to the gradients of convolutions' weights, if the device stores
 * it; else F32. */
static enum dtype half_type(const struct network *net)
{
    for (int i = 0; i < net->graph->n_params; i++) {
        enum dtype type = net->place[i].types.gradient;
        if (net->graph->param[i].kind == PARAM_CONV_WEIGHT)
            return network_native(net, type) ? type : DTYPE_F32;
    }
    return DTYPE_F32;
}

enum status network_choose_half_gradients(struct network *net, const struct program_config *config)
{
    enum dtype type = config->half_gradients && config->train ? half_type(net) : DTYPE_F32;
    bool steps, checks;
    net->half_type = DTYPE_F32;
    if (type == DTYPE_F32)
        return STATUS_OK;
    if (config->reduced)
        return status_fail(STATUS_INVALID, "gradients in half precision cannot be reduced");
    TRY(optimizer_has(net->dev, OP_SGD, ROLE_DW_HALF, type, &steps));
    TRY(optimizer_has(net->dev, OP_CHECK_FINITE, ROLE_DW_HALF, type, &checks));
    if (!steps || !checks)
        return STATUS_OK;
    net->half_type = type;
    for (int i = 0; i < net->graph->n_params; i++)
        net->place[i].half_gradient = net->graph->param[i].kind == PARAM_CONV_WEIGHT;
    return STATUS_OK;
}

/* --- the flat buffer's segments --- */

static bool same_treatment(const struct sgd_segment *a, const struct sgd_segment *b)
{
    if (a->trust > 0 || b->trust > 0)
        return false; /* LARS scales each parameter separately */
    return a->weight_decay == b->weight_decay && a->gradient == b->gradient && a->half == b->half &&
           a->master == b->master && a->copy == b->copy;
}

/* Plans the refresh of a segment's copies, if they differ from the weights. */
static enum status plan_refresh(struct network *net, const struct sgd_segment *s,
                                struct op_plan **plan)
{
    bool narrow = net->copy_type != DTYPE_F32;
    *plan = NULL;
    if (s->copy == (narrow ? DTYPE_F32 : s->master))
        return STATUS_OK;
    net->has_copies = true;
    struct op_desc d = {.kind = narrow ? OP_REORDER : OP_ROUND};
    d.t[ROLE_X] = tensor_1d(DTYPE_F32, s->end - s->begin);
    d.t[ROLE_Y] = tensor_1d(net->copy_type, s->end - s->begin);
    d.t[ROLE_Y].rounds = narrow ? DTYPE_F32 : s->copy;
    return op_plan(net->dev, &d, plan);
}

enum status network_segments(struct network *net, const struct program_config *config)
{
    TRY(array_new(&net->segment, net->n_trained + 1));
    TRY(array_new(&net->refresh, net->n_trained + 1));
    for (int i = 0; i < net->n_trained; i++) {
        const struct placement *at = &net->place[net->order[i]];
        bool last = i + 1 == net->n_trained;
        size_t end = last ? net->flat_bytes : net->place[net->order[i + 1]].offset;
        bool recast = at->cast && net->copy_type == DTYPE_F32;
        bool averaged = config->reduced && at->types.master == DTYPE_F32;
        bool own = at->desc.ndim == 1 && config->norm_decays;
        struct sgd_segment s = {.begin = (int64_t)(at->offset / sizeof(float)),
                                .end = (int64_t)(end / sizeof(float)),
                                .weight_decay =
                                    own ? config->norm_weight_decay : config->weight_decay,
                                .gradient = averaged ? DTYPE_F32 : at->types.gradient,
                                .master = at->types.master,
                                .copy = recast ? at->types.master : at->types.copy,
                                .trust = at->desc.ndim > 1 ? config->lars : 0,
                                .half = at->half_gradient};
        struct sgd_segment *before = net->segment + net->n_segments - 1;
        if (i > 0 && same_treatment(&s, before))
            before->end = s.end;
        else
            net->segment[net->n_segments++] = s;
    }
    for (int i = 0; i < net->n_segments; i++)
        TRY(plan_refresh(net, &net->segment[i], &net->refresh[i]));
    return STATUS_OK;
}
