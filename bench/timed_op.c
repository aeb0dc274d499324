/* Allocates the buffers of one planned operation, and times it. */
#include "bench/timed_op.h"

#include "base/array.h"
#include "base/rng.h"

#include <stdlib.h>

enum status timed_op_put(struct timed_op *t, enum role role, const float *plain)
{
    return tensor_upload_floats(t->stream, &t->plan->desc.t[role], t->arg[role], plain);
}

enum status timed_op_get(struct timed_op *t, enum role role, float *plain)
{
    return tensor_download_floats(t->stream, &t->plan->desc.t[role], t->arg[role], plain);
}

static enum status fill(struct timed_op *t, enum role role)
{
    int64_t n = tensor_count(&t->plan->desc.t[role]);
    float *plain;
    TRY(array_new(&plain, n));
    /* Draws small values of both signs: no denormals, no overflow, and no zeros that could save
     * time. */
    struct rng r = rng_at(0, RNG_TEST, 0, 0);
    uint32_t bits = rng_u32(&r) | 1;
    for (int64_t i = 0; i < n; i++) {
        bits = bits * 1664525u + 1013904223u;
        plain[i] = (float)(int32_t)bits * 0x1p-31f;
    }
    enum status st = timed_op_put(t, role, plain);
    free(plain);
    return st;
}

struct tensor_desc timed_op_typed(struct tensor_desc t, enum dtype type, bool operand)
{
    if (type != DTYPE_TF32) {
        t.type = type;
        t.bytes = t.layout == LAYOUT_ANY ? 0 : (size_t)tensor_count(&t) * dtype_size(type);
    } else if (operand) {
        t.rounds = DTYPE_TF32;
    }
    return t;
}

enum status timed_op_open(struct timed_op *t, struct stream *s, const struct op_desc *desc)
{
    const struct backend *b = s->device->backend;
    *t = (struct timed_op){.stream = s};
    TRY(op_plan(s->device, desc, &t->plan));
    TRY(b->event_open(s->device, &t->from));
    TRY(b->event_open(s->device, &t->to));
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *d = &t->plan->desc.t[r];
        if (d->ndim == 0)
            continue;
        TRY(b->alloc(s->device, d->bytes, &t->arg[r]));
        if (dtype_is_float(d->type))
            TRY(fill(t, (enum role)r));
    }
    if (t->plan->workspace)
        TRY(b->alloc(s->device, t->plan->workspace, &t->arg[ROLE_WORKSPACE]));
    return STATUS_OK;
}

void timed_op_close(struct timed_op *t)
{
    if (!t->stream)
        return;
    const struct backend *b = t->stream->device->backend;
    for (int r = 0; r < ROLE_COUNT; r++)
        b->free(t->stream->device, t->arg[r]);
    b->event_close(t->from);
    b->event_close(t->to);
    op_plan_free(t->plan);
    *t = (struct timed_op){0};
}

enum status timed_op_warm(struct timed_op *t)
{
    TRY(op_execute(t->plan, t->arg, t->stream));
    return t->stream->device->backend->stream_sync(t->stream);
}

enum status timed_op_time(void *timed_op, double *seconds)
{
    struct timed_op *t = timed_op;
    const struct backend *b = t->stream->device->backend;
    TRY(b->event_record(t->from, t->stream));
    TRY(op_execute(t->plan, t->arg, t->stream));
    TRY(b->event_record(t->to, t->stream));
    TRY(b->stream_sync(t->stream));
    *seconds = b->event_seconds(t->from, t->to);
    return STATUS_OK;
}
