/* Checks the layouts and types of descriptions, and makes plans from them. */
#include "kernels/cuda/plan.h"

bool cuda_lies(const struct tensor_desc *t, enum layout layout)
{
    bool either = t->ndim == 4 && (t->dim[1] == 1 || t->dim[2] * t->dim[3] == 1);
    bool known = t->layout == LAYOUT_PLAIN || t->layout == LAYOUT_NHWC;
    return t->layout == layout || (either && known && layout != LAYOUT_OPAQUE);
}

int64_t cuda_channels(const struct tensor_desc *t)
{
    return t->layout == LAYOUT_OPAQUE ? t->opaque : t->dim[1];
}

void cuda_set_channels(struct tensor_desc *t, int64_t channels)
{
    bool padded = channels != t->dim[1];
    t->layout = padded ? LAYOUT_OPAQUE : LAYOUT_NHWC;
    t->opaque = padded ? (int32_t)channels : 0;
    t->bytes = (size_t)(t->dim[0] * channels * t->dim[2] * t->dim[3]) * dtype_size(t->type);
}

/* The type of the floating tensors of 2 or more dimensions, except DW; F32 if there is no such
 * tensor. */
static enum dtype leading_type(const struct op_desc *d)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim > 1 && r != ROLE_DW && dtype_is_float(d->t[r].type))
            return d->t[r].type;
    return DTYPE_F32;
}

static enum status resolve_one(struct op_desc *d, enum role role, enum layout led, enum dtype type,
                               bool multiplied)
{
    struct tensor_desc *t = &d->t[role];
    struct op_roles roles = op_roles(d->kind);
    bool written = roles.writes >> role & 1;
    if (t->layout == LAYOUT_ANY)
        t->layout = t->ndim == 4 ? led : LAYOUT_PLAIN;
    if (t->ndim == 4 && t->layout == LAYOUT_OPAQUE)
        cuda_set_channels(t, t->opaque);
    else
        t->bytes = (size_t)tensor_count(t) * dtype_size(t->type);
    bool rounds =
        d->kind == OP_ROUND || d->kind == OP_REORDER || (multiplied && t->rounds == DTYPE_TF32);
    if (t->raw && roles.reads >> role & 1 && !rounds)
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel rounds its inputs", op_str(d->kind));
    if (t->ndim > 1 && role != ROLE_DW && d->kind != OP_REORDER && dtype_is_float(t->type) &&
        t->type != type)
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel mixes %s and %s", op_str(d->kind),
                           dtype_str(t->type), dtype_str(type));
    if (written)
        t->raw = t->rounds != DTYPE_F32 && t->ndim > 1 && d->kind != OP_ROUND;
    return STATUS_OK;
}

static enum status resolve(struct op_desc *desc, enum layout led, bool multiplied)
{
    enum dtype type = leading_type(desc);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (desc->t[r].ndim)
            TRY(resolve_one(desc, (enum role)r, led, type, multiplied));
    return STATUS_OK;
}

enum status cuda_resolve(struct op_desc *desc, enum layout led)
{
    return resolve(desc, led, false);
}

enum status cuda_resolve_operands(struct op_desc *desc, enum layout led)
{
    return resolve(desc, led, true);
}

enum status cuda_all_lie(const struct op_desc *desc, enum layout led)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (desc->t[r].ndim == 4 && !cuda_lies(&desc->t[r], led))
            return status_fail(STATUS_UNSUPPORTED, "%s: no kernel for %s in layout %s",
                               op_str(desc->kind), role_str((enum role)r),
                               layout_str(desc->t[r].layout));
    return STATUS_OK;
}

enum status cuda_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                          op_executor *execute, struct op_plan **plan)
{
    TRY(op_plan_new(dev, desc, size, "own:cuda", execute, plan));
    (*plan)->seconds = cuda_op_seconds;
    return STATUS_OK;
}

enum status cuda_round_written(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                               const struct cu_queue *q)
{
    uint64_t writes = op_roles(plan->desc.kind).writes;
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &plan->desc.t[r];
        if (writes >> r & 1 && cuda_rounds_result(t))
            TRY(cu_round(q, t->rounds, t->dim[0], arg[r], arg[r]));
    }
    return STATUS_OK;
}

struct cu_bn_shape cuda_matrix(const struct tensor_desc *t)
{
    return (struct cu_bn_shape){t->type, tensor_count(t) / t->dim[1], (int)t->dim[1]};
}

struct cu_pool cuda_pool_of(const struct tensor_desc *x, const struct tensor_desc *y)
{
    return (struct cu_pool){.type = x->type,
                            .n = (int)x->dim[0],
                            .c = (int)x->dim[1],
                            .in = {(int)x->dim[2], (int)x->dim[3]},
                            .out = {(int)y->dim[2], (int)y->dim[3]}};
}

struct cu_bn_statistics cuda_bn_statistics(const struct op_desc *d, void *const arg[ROLE_COUNT])
{
    return (struct cu_bn_statistics){arg[ROLE_MEAN], arg[ROLE_INVSTD], arg[ROLE_RMEAN],
                                     arg[ROLE_RVAR], d->attr.bn.eps,   d->attr.bn.momentum};
}
