/* Makes plans for the backend's own kernels. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <omp.h>

enum status cpu_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                         op_executor *execute, struct op_plan **plan)
{
    return op_plan_new(dev, desc, size, cpu_device_of(dev)->kernels->impl, execute, plan);
}

static enum status take(struct op_desc *desc, enum role role, enum dtype type, enum layout layout,
                        enum dtype rounds)
{
    struct tensor_desc *t = &desc->t[role];
    if (t->ndim == 0)
        return STATUS_OK;
    if (t->layout == LAYOUT_ANY)
        t->layout = layout;
    if (t->type != type || t->layout != layout)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: no kernel takes a tensor of type %s and layout %s (only %s and %s)",
                           op_str(desc->kind), dtype_str(t->type), layout_str(t->layout),
                           dtype_str(type), layout_str(layout));
    if (t->rounds != rounds)
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel that rounds %s to %s",
                           op_str(desc->kind), role_str(role), dtype_str(t->rounds));
    t->bytes = (size_t)tensor_count(t) * dtype_size(type);
    if (op_roles(desc->kind).writes >> role & 1)
        t->raw = false;
    return STATUS_OK;
}

enum status cpu_take(struct op_desc *desc, enum role role, enum dtype type, enum layout layout)
{
    return take(desc, role, type, layout, DTYPE_F32);
}

enum status cpu_take_like(struct op_desc *desc, enum role role, enum layout layout,
                          const struct tensor_desc *like)
{
    if (!dtype_is_float(like->type))
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel for type %s", op_str(desc->kind),
                           dtype_str(like->type));
    return take(desc, role, like->type, layout, like->rounds);
}

enum status cpu_take_rounded(struct op_desc *desc, enum role role, enum layout layout,
                             enum dtype rounds)
{
    return take(desc, role, DTYPE_F32, layout, rounds);
}

struct cpu_share cpu_share_of(int64_t n)
{
    int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    int64_t lines = (n + LINE - 1) / LINE;
    int64_t begin = lines * me / team * LINE, end = lines * (me + 1) / team * LINE;
    return (struct cpu_share){begin, (end < n ? end : n) - begin};
}
