/* Makes the list of cases, their names and their layouts. */
#include "verify/cases.h"

#include "verify/describe.h"
#include "verify/precision.h"

#include "base/array.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

/* --- names --- */

static void append_shape(struct op_case *c, const char *what, const struct tensor_desc *t)
{
    text_append(c->name, sizeof c->name, " %s", what);
    for (int i = 0; i < t->ndim; i++)
        text_append(c->name, sizeof c->name, "%s%lld", i ? "x" : "", (long long)t->dim[i]);
}

static void append_attributes(char *out, size_t size, const struct op_desc *d)
{
    if (op_in(d->kind, OPS_CONV | OPS_CONV_FUSED)) {
        const struct conv_attr *a = &d->attr.conv;
        text_append(out, size, " s%dx%d p%dx%d g%d%s", a->stride[0], a->stride[1], a->pad[0],
                    a->pad[1], a->groups, a->relu ? " relu" : "");
    } else if (op_in(d->kind, OPS_BN)) {
        text_append(out, size, " %s", d->attr.bn.relu ? "relu" : "linear");
    } else if (op_in(d->kind, OPS_MAXPOOL | OPS_BN_POOL)) {
        const struct pool_attr *a = op_in(d->kind, OPS_MAXPOOL) ? &d->attr.pool : &d->attr.bn.pool;
        text_append(out, size, " k%dx%d s%dx%d p%dx%d", a->kernel[0], a->kernel[1], a->stride[0],
                    a->stride[1], a->pad[0], a->pad[1]);
    } else if (d->kind == OP_ADD_STRIDED) {
        text_append(out, size, " s%dx%d", d->attr.grid.stride[0], d->attr.grid.stride[1]);
    } else if (d->kind == OP_LINEAR_FWD) {
        text_append(out, size, " %s", d->attr.linear.relu ? "relu" : "linear");
    } else if (op_in(d->kind, OPS_DROPOUT)) {
        text_append(out, size, " p=%g", (double)d->attr.dropout.p);
    } else if (d->kind == OP_SOFTMAX_XENT) {
        text_append(out, size, " e=%g%s", (double)d->attr.xent.label_smoothing,
                    d->t[ROLE_PARTNER].ndim ? " mixed" : "");
    } else if (d->kind == OP_NORMALIZE) {
        text_append(out, size, "%s", d->t[ROLE_PARTNER].ndim ? " mixed" : "");
    } else if (d->kind == OP_CHECK_FINITE) {
        text_append(out, size, " segments=%d", d->attr.sgd.n_segments);
    } else if (d->kind == OP_SGD) {
        text_append(out, size, " m=%g%s%s%s segments=%d", (double)d->attr.sgd.momentum,
                    d->attr.sgd.nesterov ? " nesterov" : "",
                    d->attr.sgd.segment[0].trust > 0 ? " lars" : "",
                    d->attr.sgd.clip > 0 ? " clipped" : "", d->attr.sgd.n_segments);
    }
}

/* Appends the precision, such as "stored bf16" or "rounds fp16 raw"; for segments the types of the
 * first segment's gradient, master and copy, such as "rounds fp16/fp32/bf16". */
static void append_precision(char *out, size_t size, const struct op_desc *d)
{
    const struct op_desc emulated = emulated_form(d);
    bool stored = precision_is_stored(d);
    if (!precision_is_emulated(&emulated))
        return;
    text_append(out, size, " %s", stored ? "stored" : "rounds");
    if (op_in(d->kind, OPS_SGD)) {
        const struct sgd_segment *s = d->attr.sgd.segment;
        text_append(out, size, " %s/%s/%s", dtype_str(s->gradient), dtype_str(s->master),
                    dtype_str(s->copy));
        return;
    }
    bool raw = false;
    enum dtype type = DTYPE_F32;
    for (int r = 0; r < ROLE_COUNT; r++) {
        raw = raw || d->t[r].raw;
        type = emulated.t[r].rounds != DTYPE_F32 ? emulated.t[r].rounds : type;
    }
    text_append(out, size, " %s", dtype_str(type));
    if (raw)
        text_append(out, size, " %s", "raw");
    if (op_in(d->kind, OPS_BN) && d->t[ROLE_GAMMA].rounds != DTYPE_F32)
        text_append(out, size, " %s", "parameters too");
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
        append_shape(c, "", x);
    if (w->ndim > 1 || x->ndim == 0)
        append_shape(c, "w", w);
    if (y->ndim && !tensor_same_shape(x, y))
        append_shape(c, "y", y);
    append_attributes(c->name, sizeof c->name, d);
    uint64_t optional = op_roles(d->kind).optional;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (optional >> r & 1 && d->t[r].ndim)
            text_append(c->name, sizeof c->name, " +%s", role_str((enum role)r));
    append_precision(c->name, sizeof c->name, d);
    if (c->fill != FILL_RANDOM)
        text_append(c->name, sizeof c->name, " %s", fill[c->fill]);
    text_append(c->name, sizeof c->name, " %s", layouts);
}

/* --- layouts --- */

static bool is_weight(int role)
{
    return role == ROLE_W || role == ROLE_DW;
}

/* Sets the layout of each activation in `roles` to `layout`, if that layout fits the activation.
 * Returns whether it fits any activation. */
static bool apply(struct op_desc *d, uint64_t roles, enum layout layout)
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
    cases_add_one(list, list->problems, any, fill, "any");
    cases_add_one(list, list->problems, *d, fill, "plain");
    for (int layout = LAYOUT_NHWC; layout <= LAYOUT_NCHW16C; layout++) {
        struct op_desc known = *d;
        for (int r = 0; r < ROLE_COUNT; r++)
            if (is_weight(r) && d->t[r].ndim == 4)
                known.t[r] = in_layout(d->t[r], LAYOUT_ANY);
        if (apply(&known, ~UINT64_C(0), (enum layout)layout))
            cases_add_one(list, list->problems, known, fill, layout_str((enum layout)layout));
    }
}

static void add_given(struct case_list *list, const struct op_desc *d, enum fill fill)
{
    struct op_roles roles = op_roles(d->kind);
    for (int layout = LAYOUT_PLAIN; layout <= LAYOUT_NCHW16C; layout++) {
        struct op_desc known = *d;
        if (apply(&known, ~UINT64_C(0), (enum layout)layout) || layout == LAYOUT_PLAIN)
            cases_add_one(list, list->problems, known, fill, layout_str((enum layout)layout));
    }
    struct op_desc any = *d;
    bool blocked = apply(&any, roles.reads, LAYOUT_NCHW16C);
    if (apply(&any, roles.writes & ~roles.reads, LAYOUT_ANY))
        cases_add_one(list, list->problems, any, fill, blocked ? "nChw16c to any" : "plain to any");
}

void cases_add(struct case_list *list, struct op_desc d, enum fill fill)
{
    if (op_in(d.kind, OPS_CONV | OPS_LINEAR))
        add_choosing(list, &d, fill);
    else
        add_given(list, &d, fill);
    list->problems++;
}

/* --- the list --- */

void cases_add_one(struct case_list *list, int problem, struct op_desc d, enum fill fill,
                   const char *layouts)
{
    if (list->status != STATUS_OK)
        return;
    list->status = array_reserve(&list->item, list->n);
    if (list->status != STATUS_OK)
        return;
    struct op_case *c = &list->item[list->n++];
    *c = (struct op_case){.problem = problem, .fill = fill, .desc = d};
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
    list->n = 0;
}
