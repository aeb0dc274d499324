/* Layouts and types of descriptions, and plans around them. */
#include "kernels/cuda/plan.h"

#include <stdlib.h>

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

/* The type that all floating activations have; F32 where there are none. */
static enum dtype leading_type(const struct op_desc *d)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim > 1 && r != ROLE_DW && dtype_is_float(d->t[r].type))
            return d->t[r].type;
    return DTYPE_F32;
}

static bool may_read_raw(const struct op_desc *d, const struct tensor_desc *t, bool multiplied)
{
    return d->kind == OP_ROUND || d->kind == OP_REORDER || (multiplied && t->rounds == DTYPE_TF32);
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
    if (t->raw && roles.reads >> role & 1 && !may_read_raw(d, t, multiplied))
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel rounds what it reads",
                           op_str(d->kind));
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
            return status_fail(STATUS_UNSUPPORTED, "%s: no kernel where %s is %s",
                               op_str(desc->kind), role_str((enum role)r),
                               layout_str(desc->t[r].layout));
    return STATUS_OK;
}

static void plan_free(struct op_plan *plan)
{
    free(plan);
}

enum status cuda_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                          enum status (*execute)(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                                 struct stream *s),
                          struct op_plan **plan)
{
    *plan = calloc(1, size);
    if (!*plan)
        return status_fail(STATUS_OOM, "no memory for a plan of %s", op_str(desc->kind));
    **plan = (struct op_plan){.device = dev,
                              .desc = *desc,
                              .impl = "own:cuda",
                              .seconds = cuda_op_seconds,
                              .execute = execute,
                              .free = plan_free};
    return STATUS_OK;
}

enum status cuda_round_written(const struct op_plan *plan, void *const arg[ROLE_COUNT],
                               const struct cu_queue *q)
{
    unsigned writes = op_roles(plan->desc.kind).writes;
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &plan->desc.t[r];
        if (writes >> r & 1 && t->ndim == 1 && t->rounds != DTYPE_F32)
            TRY(cu_round(q, t->rounds, t->dim[0], arg[r], arg[r]));
    }
    return STATUS_OK;
}

struct cu_bn_shape cuda_matrix(const struct tensor_desc *t)
{
    return (struct cu_bn_shape){t->type, tensor_count(t) / t->dim[1], (int)t->dim[1]};
}
