/* Operations on flat arrays. */
#include "runners/flat_op.h"

static enum status plan(struct device *dev, const struct op_desc *desc, struct flat_op *o)
{
    *o = (struct flat_op){0};
    TRY(op_plan(dev, desc, &o->plan));
    if (o->plan->workspace == 0)
        return STATUS_OK;
    enum status st = dev->backend->alloc(dev, o->plan->workspace, &o->workspace);
    if (st != STATUS_OK)
        flat_op_close(o);
    return st;
}

void flat_op_close(struct flat_op *o)
{
    if (o->workspace)
        o->plan->device->backend->free(o->plan->device, o->workspace);
    op_plan_free(o->plan);
    *o = (struct flat_op){0};
}

enum status flat_sum_open(struct device *dev, int64_t count, struct flat_op *o)
{
    struct op_desc add = {.kind = OP_ADD};
    add.t[ROLE_X] = add.t[ROLE_Z] = add.t[ROLE_Y] = tensor_1d(DTYPE_F32, count);
    return plan(dev, &add, o);
}

enum status flat_sum_run(const struct flat_op *o, struct stream *stream, float *x, float *z,
                         float *y)
{
    void *arg[ROLE_COUNT] = {
        [ROLE_X] = x, [ROLE_Z] = z, [ROLE_Y] = y, [ROLE_WORKSPACE] = o->workspace};
    return op_execute(o->plan, arg, stream);
}

enum status flat_cast_open(struct device *dev, enum dtype from, enum dtype to, int64_t count,
                           struct flat_op *o)
{
    struct op_desc cast = {.kind = OP_REORDER};
    cast.t[ROLE_X] = tensor_1d(from, count);
    cast.t[ROLE_Y] = tensor_1d(to, count);
    return plan(dev, &cast, o);
}

enum status flat_cast_run(const struct flat_op *o, struct stream *stream, void *x, void *y)
{
    void *arg[ROLE_COUNT] = {[ROLE_X] = x, [ROLE_Y] = y, [ROLE_WORKSPACE] = o->workspace};
    return op_execute(o->plan, arg, stream);
}
