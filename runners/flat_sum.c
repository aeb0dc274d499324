/* Sums of flat arrays. */
#include "runners/flat_sum.h"

enum status flat_sum_open(struct device *dev, int64_t count, struct flat_sum *s)
{
    struct op_desc add = {.kind = OP_ADD};
    add.t[ROLE_X] = add.t[ROLE_Z] = add.t[ROLE_Y] = tensor_1d(DTYPE_F32, count);
    *s = (struct flat_sum){0};
    TRY(op_plan(dev, &add, &s->plan));
    if (s->plan->workspace == 0)
        return STATUS_OK;
    enum status st = dev->backend->alloc(dev, s->plan->workspace, &s->workspace);
    if (st != STATUS_OK)
        flat_sum_close(s);
    return st;
}

void flat_sum_close(struct flat_sum *s)
{
    if (s->workspace)
        s->plan->device->backend->free(s->plan->device, s->workspace);
    op_plan_free(s->plan);
    *s = (struct flat_sum){0};
}

enum status flat_sum_run(const struct flat_sum *s, struct stream *stream, float *x, float *z,
                         float *y)
{
    void *arg[ROLE_COUNT] = {
        [ROLE_X] = x, [ROLE_Z] = z, [ROLE_Y] = y, [ROLE_WORKSPACE] = s->workspace};
    return op_execute(s->plan, arg, stream);
}
