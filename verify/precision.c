/* Computes the effect of narrow precision on values. */
#include "verify/precision.h"

#include "verify/describe.h"

static const struct sgd_segment *segment_of(const struct op_desc *d, int64_t i)
{
    const struct sgd_segment *s = d->attr.sgd.segment;
    while (i >= s->end)
        s++;
    return s;
}

static bool is_gradient(enum role role)
{
    return role == ROLE_DW || role == ROLE_DW_HALF;
}

float precision_read(const struct op_desc *d, enum role role, int64_t i, float v)
{
    if (op_in(d->kind, OPS_SGD))
        return is_gradient(role) ? dtype_round(segment_of(d, i)->gradient, v) : v;
    if (d->kind == OP_REORDER) /* a reorder does not round */
        return v;
    return dtype_round(d->t[role].rounds, v);
}

enum dtype precision_of(const struct op_desc *d, enum role role, int64_t i)
{
    if (op_in(d->kind, OPS_SGD) && !is_gradient(role)) {
        const struct sgd_segment *s = segment_of(d, i);
        return role == ROLE_WCOPY && s->copy != DTYPE_F32 ? s->copy : s->master;
    }
    return d->t[role].raw ? DTYPE_F32 : d->t[role].rounds;
}

float precision_written(const struct op_desc *d, enum role role, int64_t i, float v)
{
    if (op_in(d->kind, OPS_SGD) && role == ROLE_WCOPY) /* WCOPY is a copy of the rounded W */
        v = precision_written(d, ROLE_W, i, v);
    return dtype_round(precision_of(d, role, i), v);
}

void precision_none(const struct op_desc *d, struct precision_none *none)
{
    none->desc = *d;
    for (int r = 0; r < ROLE_COUNT; r++) {
        /* DZ of BN_BWD stays rounded, because BN_BWD computes other outputs from the stored DZ. */
        if (d->kind != OP_BN_BWD || r != ROLE_DZ)
            none->desc.t[r].rounds = DTYPE_F32;
        none->desc.t[r].raw = false;
    }
    for (int i = 0; op_in(d->kind, OPS_SGD) && i < d->attr.sgd.n_segments; i++) {
        none->segment[i] = d->attr.sgd.segment[i];
        none->segment[i].gradient = none->segment[i].master = none->segment[i].copy = DTYPE_F32;
        none->desc.attr.sgd.segment = none->segment;
    }
}

/* Makes the fp32 tensors in `roles` round to `precision`. */
static void set_rounds(struct op_desc *d, uint64_t roles, enum dtype precision)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles >> r & 1 && d->t[r].ndim && d->t[r].type == DTYPE_F32)
            d->t[r].rounds = precision;
}

struct op_desc with_precision(const struct op_desc *d, enum dtype precision, bool raw)
{
    const uint64_t always_wide = WITH(MEAN) | WITH(INVSTD);
    const uint64_t per_channel =
        WITH(GAMMA) | WITH(BETA) | WITH(RMEAN) | WITH(RVAR) | WITH(DGAMMA) | WITH(DBETA);
    struct op_roles roles = op_roles(d->kind);
    uint64_t narrow = precision == DTYPE_TF32 ? roles.reads : roles.reads | roles.writes;
    struct op_desc n = *d;
    set_rounds(&n, narrow & ~(op_in(d->kind, OPS_BN) ? always_wide | per_channel : 0), precision);
    for (int r = 0; r < ROLE_COUNT; r++)
        n.t[r].raw = raw && n.t[r].rounds != DTYPE_F32 && roles.reads >> r & 1;
    return n;
}

struct op_desc with_narrow_batch_norm(const struct op_desc *d, enum dtype precision)
{
    struct op_desc n = with_precision(d, precision, false);
    set_rounds(&n, ~(WITH(MEAN) | WITH(INVSTD)), precision);
    return n;
}

static struct tensor_desc retyped(struct tensor_desc t, enum dtype type, enum dtype rounds)
{
    t.type = type;
    t.rounds = rounds;
    return in_layout(t, t.layout);
}

struct op_desc with_type(const struct op_desc *d, enum dtype type)
{
    const uint64_t always_wide = WITH(DW) | WITH(DB);
    struct op_desc n = with_precision(d, type, false);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (n.t[r].rounds != DTYPE_F32 && !(always_wide >> r & 1))
            n.t[r] = retyped(n.t[r], type, DTYPE_F32);
    return n;
}

static bool is_narrow(enum dtype type)
{
    return type == DTYPE_F16 || type == DTYPE_BF16;
}

struct op_desc emulated_form(const struct op_desc *d)
{
    struct op_desc e = *d;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (e.t[r].ndim && is_narrow(e.t[r].type))
            e.t[r] = retyped(e.t[r], DTYPE_F32, e.t[r].type);
    return e;
}

bool precision_is_stored(const struct op_desc *d)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim && is_narrow(d->t[r].type))
            return true;
    return false;
}

bool precision_is_emulated(const struct op_desc *d)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].rounds != DTYPE_F32)
            return true;
    for (int i = 0; op_in(d->kind, OPS_SGD) && i < d->attr.sgd.n_segments; i++) {
        const struct sgd_segment *s = &d->attr.sgd.segment[i];
        if (s->gradient != DTYPE_F32 || s->master != DTYPE_F32 || s->copy != DTYPE_F32)
            return true;
    }
    return false;
}
