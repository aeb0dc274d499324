/* Gradients in a narrow type. */
#include "runners/narrowing.h"

#include "base/half_array.h"

static bool in_host_memory(const struct narrowing *n)
{
    return !n->dev->backend->asynchronous;
}

static enum status open_parts(struct narrowing *n)
{
    TRY(n->dev->backend->alloc(n->dev, (size_t)n->count * dtype_size(n->type), &n->narrow));
    if (in_host_memory(n))
        return STATUS_OK;
    TRY(flat_cast_open(n->dev, DTYPE_F32, n->type, n->count, &n->down));
    return flat_cast_open(n->dev, n->type, DTYPE_F32, n->count, &n->up);
}

enum status narrowing_open(struct device *dev, enum dtype type, int64_t count, int ranks,
                           struct narrowing *n)
{
    *n = (struct narrowing){.dev = dev, .type = type, .count = count, .share = 1 / (float)ranks};
    enum status st = open_parts(n);
    if (st != STATUS_OK)
        narrowing_close(n);
    return st;
}

void narrowing_close(struct narrowing *n)
{
    flat_op_close(&n->down);
    flat_op_close(&n->up);
    if (n->narrow)
        n->dev->backend->free(n->dev, n->narrow);
    *n = (struct narrowing){0};
}

void narrowing_describe(const struct narrowing *n, struct comm_op *op)
{
    op->type = n->type;
    op->send = op->recv = n->narrow;
    if (!in_host_memory(n))
        op->factor = n->share;
}

enum status narrowing_down(const struct narrowing *n, struct stream *s, float *gradients)
{
    if (!in_host_memory(n))
        return flat_cast_run(&n->down, s, gradients, n->narrow);
    if (n->type == DTYPE_F16)
        f16_from_floats(gradients, n->share, n->narrow, n->count);
    else
        bf16_from_floats(gradients, n->share, n->narrow, n->count);
    return STATUS_OK;
}

enum status narrowing_up(const struct narrowing *n, struct stream *s, float *gradients)
{
    if (!in_host_memory(n))
        return flat_cast_run(&n->up, s, n->narrow, gradients);
    if (n->type == DTYPE_F16)
        f16_to_floats(n->narrow, gradients, n->count);
    else
        bf16_to_floats(n->narrow, gradients, n->count);
    return STATUS_OK;
}
