/* Plans and runs operations on flat arrays, and compresses gradients. */
#include "engine/flat_op.h"

#include "base/half_array.h"

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

/* y = x rounded to `to`. `from` and `to` are floating types. */
static enum status flat_cast_open(struct device *dev, enum dtype from, enum dtype to, int64_t count,
                                  struct flat_op *o)
{
    struct op_desc cast = {.kind = OP_REORDER};
    cast.t[ROLE_X] = tensor_1d(from, count);
    cast.t[ROLE_Y] = tensor_1d(to, count);
    return plan(dev, &cast, o);
}

static enum status flat_cast_run(const struct flat_op *o, struct stream *stream, void *x, void *y)
{
    void *arg[ROLE_COUNT] = {[ROLE_X] = x, [ROLE_Y] = y, [ROLE_WORKSPACE] = o->workspace};
    return op_execute(o->plan, arg, stream);
}

/* --- gradient compression --- */

static bool in_host_memory(const struct grad_compress *n)
{
    return !n->dev->backend->asynchronous;
}

enum status grad_compress_open(struct device *dev, enum dtype type, int64_t count, int ranks,
                               struct grad_compress *n)
{
    *n =
        (struct grad_compress){.dev = dev, .type = type, .count = count, .share = 1 / (float)ranks};
    enum status st;
    CHECK(dev->backend->alloc(dev, (size_t)count * dtype_size(type), &n->narrow));
    if (!in_host_memory(n)) {
        CHECK(flat_cast_open(dev, DTYPE_F32, type, count, &n->down));
        CHECK(flat_cast_open(dev, type, DTYPE_F32, count, &n->up));
    }
done:
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
    (n->type == DTYPE_F16 ? f16_from_floats : bf16_from_floats)(gradients, n->share, n->narrow,
                                                                n->count);
    return STATUS_OK;
}

enum status grad_compress_decode(const struct grad_compress *n, struct stream *s, float *gradients)
{
    if (!in_host_memory(n))
        return flat_cast_run(&n->up, s, n->narrow, gradients);
    (n->type == DTYPE_F16 ? f16_to_floats : bf16_to_floats)(n->narrow, gradients, n->count);
    return STATUS_OK;
}
