/* The list of cases, their names and their layouts. */
#include "verify/cases.h"

#include "verify/describe.h"
#include "verify/precision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

static void append(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, " %s", text);
}

static void append_shape(char *out, size_t size, const char *what, const struct tensor_desc *t)
{
    char text[64] = "";
    for (int i = 0; i < t->ndim; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%lld", i ? "x" : what, (long long)t->dim[i]);
    }
    append(out, size, text);
}

static void append_attributes(char *out, size_t size, const struct op_desc *d)
{
    char text[64] = "";
    switch (d->kind) {
    case OP_CONV_FWD:
    case OP_CONV_BWD_DATA:
    case OP_CONV_BWD_WEIGHTS:
    case OP_CONV_STATS_FWD:
    case OP_CONV_APPLY_BWD_WEIGHTS:
    case OP_CONV_BWD_DATA_BN: {
        const struct conv_attr *a = &d->attr.conv;
        snprintf(text, sizeof text, "s%dx%d p%dx%d g%d%s", a->stride[0], a->stride[1], a->pad[0],
                 a->pad[1], a->groups, a->relu ? " relu" : "");
        break;
    }
    case OP_BN_FWD_TRAIN:
    case OP_BN_FWD_EVAL:
    case OP_BN_BWD:
        snprintf(text, sizeof text, "%s", d->attr.bn.relu ? "relu" : "linear");
        break;
    case OP_MAXPOOL_FWD:
    case OP_MAXPOOL_BWD: {
        const struct pool_attr *a = &d->attr.pool;
        snprintf(text, sizeof text, "k%dx%d s%dx%d p%dx%d", a->kernel[0], a->kernel[1],
                 a->stride[0], a->stride[1], a->pad[0], a->pad[1]);
        break;
    }
    case OP_ADD_STRIDED:
        snprintf(text, sizeof text, "s%dx%d", d->attr.grid.stride[0], d->attr.grid.stride[1]);
        break;
    case OP_LINEAR_FWD:
        snprintf(text, sizeof text, "%s", d->attr.linear.relu ? "relu" : "linear");
        break;
    case OP_DROPOUT_FWD:
    case OP_DROPOUT_BWD:
        snprintf(text, sizeof text, "p=%g", (double)d->attr.dropout.p);
        break;
    case OP_SOFTMAX_XENT:
        snprintf(text, sizeof text, "e=%g", (double)d->attr.xent.label_smoothing);
        break;
    case OP_CHECK_FINITE:
        snprintf(text, sizeof text, "segments=%d", d->attr.sgd.n_segments);
        break;
    case OP_SGD:
        snprintf(text, sizeof text, "m=%g%s%s segments=%d", (double)d->attr.sgd.momentum,
                 d->attr.sgd.nesterov ? " nesterov" : "",
                 d->attr.sgd.segment[0].trust > 0 ? " lars" : "", d->attr.sgd.n_segments);
        break;
    default:
        return;
    }
    append(out, size, text);
}

/* "stored bf16", "rounds fp16 raw", and of segments "rounds fp16/fp32/bf16": the first one's
 * gradient, master and copy. */
static void append_precision(char *out, size_t size, const struct op_desc *d)
{
    char text[64] = "";
    const struct op_desc emulated = emulated_form(d);
    bool stored = precision_is_stored(d);
    if (!precision_is_emulated(&emulated))
        return;
    append(out, size, stored ? "stored" : "rounds");
    if (d->kind == OP_SGD || d->kind == OP_CHECK_FINITE) {
        const struct sgd_segment *s = d->attr.sgd.segment;
        snprintf(text, sizeof text, "%s/%s/%s", dtype_str(s->gradient), dtype_str(s->master),
                 dtype_str(s->copy));
        append(out, size, text);
        return;
    }
    bool raw = false;
    enum dtype type = DTYPE_F32;
    for (int r = 0; r < ROLE_COUNT; r++) {
        raw = raw || d->t[r].raw;
        type = emulated.t[r].rounds != DTYPE_F32 ? emulated.t[r].rounds : type;
    }
    append(out, size, dtype_str(type));
    if (raw)
        append(out, size, "raw");
    if (is_batch_norm(d->kind) && d->t[ROLE_GAMMA].rounds != DTYPE_F32)
        append(out, size, "parameters too");
}

static void case_name(struct op_case *c, const char *layouts)
{
    static const char *const fill[] = {"",          "large-mean", "constant", "nan",
                                       "found-inf", "huge",       "tiny",     "ties"};
    const struct op_desc *d = &c->desc;
    snprintf(c->name, sizeof c->name, "%s", op_str(d->kind));
    const struct tensor_desc *x = d->t[ROLE_X].ndim ? &d->t[ROLE_X] : &d->t[ROLE_DX];
    const struct tensor_desc *y = d->t[ROLE_Y].ndim ? &d->t[ROLE_Y] : &d->t[ROLE_DY];
    const struct tensor_desc *w = d->t[ROLE_W].ndim ? &d->t[ROLE_W] : &d->t[ROLE_DW];
    if (x->ndim)
        append_shape(c->name, sizeof c->name, "", x);
    if (w->ndim > 1 || x->ndim == 0)
        append_shape(c->name, sizeof c->name, "w", w);
    if (y->ndim && !tensor_same_shape(x, y))
        append_shape(c->name, sizeof c->name, "y", y);
    append_attributes(c->name, sizeof c->name, d);
    unsigned optional = op_roles(d->kind).optional;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (optional >> r & 1 && d->t[r].ndim) {
            char text[16];
            snprintf(text, sizeof text, "+%s", role_str((enum role)r));
            append(c->name, sizeof c->name, text);
        }
    append_precision(c->name, sizeof c->name, d);
    if (c->fill != FILL_RANDOM)
        append(c->name, sizeof c->name, fill[c->fill]);
    append(c->name, sizeof c->name, layouts);
}

/* --- layouts --- */

static bool chooses_layout(enum op_kind kind)
{
    return kind == OP_CONV_FWD || kind == OP_CONV_BWD_DATA || kind == OP_CONV_BWD_WEIGHTS ||
           kind == OP_LINEAR_FWD || kind == OP_LINEAR_BWD_DATA || kind == OP_LINEAR_BWD_WEIGHTS;
}

static bool is_weight(int role)
{
    return role == ROLE_W || role == ROLE_DW;
}

/* Gives activations among `roles` the layout where it fits; says whether any took it. */
static bool apply(struct op_desc *d, unsigned roles, enum layout layout)
{
    bool taken = false;
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = &d->t[r];
        if (!(roles >> r & 1) || t->ndim != 4 || is_weight(r) || !layout_fits(t, layout))
            continue;
        *t = in_layout(*t, layout);
        taken = true;
    }
    return taken;
}

static void add_choosing(struct case_list *list, const struct op_desc *d, enum fill fill)
{
    struct op_desc any = *d;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim > 1)
            any.t[r] = in_layout(d->t[r], LAYOUT_ANY);
    cases_add_one(list, list->problems, &any, fill, "any");
    cases_add_one(list, list->problems, d, fill, "plain");
    for (int layout = LAYOUT_NHWC; layout <= LAYOUT_NCHW16C; layout++) {
        struct op_desc known = *d;
        for (int r = 0; r < ROLE_COUNT; r++)
            if (is_weight(r) && d->t[r].ndim == 4)
                known.t[r] = in_layout(d->t[r], LAYOUT_ANY);
        if (apply(&known, ~0u, (enum layout)layout))
            cases_add_one(list, list->problems, &known, fill, layout_str((enum layout)layout));
    }
}

static void add_given(struct case_list *list, const struct op_desc *d, enum fill fill)
{
    struct op_roles roles = op_roles(d->kind);
    for (int layout = LAYOUT_PLAIN; layout <= LAYOUT_NCHW16C; layout++) {
        struct op_desc known = *d;
        if (apply(&known, ~0u, (enum layout)layout) || layout == LAYOUT_PLAIN)
            cases_add_one(list, list->problems, &known, fill, layout_str((enum layout)layout));
    }
    struct op_desc any = *d;
    bool blocked = apply(&any, roles.reads, LAYOUT_NCHW16C);
    if (apply(&any, roles.writes & ~roles.reads, LAYOUT_ANY))
        cases_add_one(list, list->problems, &any, fill,
                      blocked ? "nChw16c to any" : "plain to any");
}

void cases_add(struct case_list *list, const struct op_desc *d, enum fill fill)
{
    if (chooses_layout(d->kind))
        add_choosing(list, d, fill);
    else
        add_given(list, d, fill);
    list->problems++;
}

/* --- the list --- */

void cases_add_one(struct case_list *list, int problem, const struct op_desc *d, enum fill fill,
                   const char *layouts)
{
    if (list->status != STATUS_OK)
        return;
    if (list->n == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 256;
        struct op_case *item = realloc(list->item, (size_t)capacity * sizeof *item);
        if (!item) {
            list->status = status_fail(STATUS_OOM, "no memory for %d cases", capacity);
            return;
        }
        list->item = item;
        list->capacity = capacity;
    }
    struct op_case *c = &list->item[list->n++];
    *c = (struct op_case){.problem = problem, .fill = fill, .desc = *d};
    case_name(c, layouts);
}

enum status case_list_new(struct case_list *list)
{
    *list = (struct case_list){0};
    cases_conv(list);
    cases_bn(list);
    cases_rest(list);
    cases_precision(list);
    cases_fused(list);
    if (list->status != STATUS_OK)
        case_list_free(list);
    return list->status;
}

void case_list_free(struct case_list *list)
{
    free(list->item);
    list->item = NULL;
    list->n = list->capacity = 0;
}
