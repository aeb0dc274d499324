/* Gradients in a narrow type. */
#include "runners/grad_compress.h"

#include "base/half_array.h"

static bool in_host_memory(const struct grad_compress *n)
{
    return !n->dev->backend->asynchronous;
}

static enum status open_parts(struct grad_compress *n)
{
    TRY(n->dev->backend->alloc(n->dev, (size_t)n->count * dtype_size(n->type), &n->narrow));
    if (in_host_memory(n))
        return STATUS_OK;
    TRY(flat_cast_open(n->dev, DTYPE_F32, n->type, n->count, &n->down));
    return flat_cast_open(n->dev, n->type, DTYPE_F32, n->count, &n->up);
}

enum status grad_compress_open(struct device *dev, enum dtype type, int64_t count, int ranks,
                               struct grad_compress *n)
{
    *n =
        (struct grad_compress){.dev = dev, .type = type, .count = count, .share = 1 / (float)ranks};
    enum status st = open_parts(n);
    if (st != STATUS_OK)
        grad_compress_close(n);
    return st;
}

void grad_compress_close(struct grad_compress *n)
{
    flat_op_close(&n->down);
    flat_op_close(&n->up);
    if (n->narrow)
        n->dev->backend->free(n->dev, n->narrow);
    *n = (struct grad_compress){0};
}

void grad_compress_describe(const struct grad_compress *n, struct comm_op *op)
{
    op->type = n->type;
    op->send = op->recv = n->narrow;
    if (!in_host_memory(n))
        op->factor = n->share;
}

enum status grad_compress_encode(const struct grad_compress *n, struct stream *s, float *gradients)
{
    if (!in_host_memory(n))
        return flat_cast_run(&n->down, s, gradients, n->narrow);
    if (n->type == DTYPE_F16)
        f16_from_floats(gradients, n->share, n->narrow, n->count);
    else
        bf16_from_floats(gradients, n->share, n->narrow, n->count);
    return STATUS_OK;
}

enum status grad_compress_decode(const struct grad_compress *n, struct stream *s, float *gradients)
{
    if (!in_host_memory(n))
        return flat_cast_run(&n->up, s, n->narrow, gradients);
    if (n->type == DTYPE_F16)
        f16_to_floats(n->narrow, gradients, n->count);
    else
        bf16_to_floats(n->narrow, gradients, n->count);
    return STATUS_OK;
}
