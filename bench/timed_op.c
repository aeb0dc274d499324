/* Buffers and clock around one planned operation. */
#include "bench/timed_op.h"

#include "base/half_array.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* Small values of both signs: no denormals, no overflow, no runs of zeros to be quick about. */
static void draw(float *x, int64_t n)
{
    struct rng r = rng_at(0, RNG_TEST, 0, 0);
    uint32_t bits = rng_u32(&r) | 1;
    for (int64_t i = 0; i < n; i++) {
        bits = bits * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)bits * 0x1p-31f;
    }
}

enum status timed_op_put(struct timed_op *t, enum role role, const float *plain)
{
    const struct tensor_desc *d = &t->plan->desc.t[role];
    int64_t n = tensor_count(d);
    if (d->type == DTYPE_F32)
        return tensor_upload(t->stream, d, t->arg[role], plain);
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
    if (!narrow)
        return status_fail(STATUS_OOM, "no memory to fill a tensor");
    if (d->type == DTYPE_F16)
        f16_from_floats(plain, 1, narrow, n);
    else
        bf16_from_floats(plain, 1, narrow, n);
    enum status st = tensor_upload(t->stream, d, t->arg[role], narrow);
    free(narrow);
    return st;
}

enum status timed_op_get(struct timed_op *t, enum role role, float *plain)
{
    const struct tensor_desc *d = &t->plan->desc.t[role];
    int64_t n = tensor_count(d);
    if (d->type == DTYPE_F32)
        return tensor_download(t->stream, d, t->arg[role], plain);
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
    if (!narrow)
        return status_fail(STATUS_OOM, "no memory to read a tensor");
    enum status st = tensor_download(t->stream, d, t->arg[role], narrow);
    if (st == STATUS_OK && d->type == DTYPE_F16)
        f16_to_floats(narrow, plain, n);
    else if (st == STATUS_OK)
        bf16_to_floats(narrow, plain, n);
    free(narrow);
    return st;
}

static enum status fill(struct timed_op *t, enum role role)
{
    int64_t n = tensor_count(&t->plan->desc.t[role]);
    float *plain = malloc((size_t)n * sizeof *plain);
    if (!plain)
        return status_fail(STATUS_OOM, "no memory to fill a tensor");
    draw(plain, n);
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

enum status timed_op_open(struct timed_op *t, struct stream *s, const struct op_desc *desc,
                          int samples)
{
    const struct backend *b = s->device->backend;
    *t = (struct timed_op){.stream = s, .cap = samples};
    TRY(op_plan(s->device, desc, &t->plan));
    TRY(b->event_open(s->device, &t->from));
    TRY(b->event_open(s->device, &t->to));
    t->seconds = calloc((size_t)samples + 1, sizeof *t->seconds);
    if (!t->seconds)
        return status_fail(STATUS_OOM, "no memory for timings");
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
        if (t->arg[r])
            b->free(t->stream->device, t->arg[r]);
    if (t->from)
        b->event_close(t->from);
    if (t->to)
        b->event_close(t->to);
    op_plan_free(t->plan);
    free(t->seconds);
    *t = (struct timed_op){0};
}

enum status timed_op_warm(struct timed_op *t)
{
    TRY(op_execute(t->plan, t->arg, t->stream));
    return t->stream->device->backend->stream_sync(t->stream);
}

enum status timed_op_time(struct timed_op *t, double *seconds)
{
    const struct backend *b = t->stream->device->backend;
    TRY(b->event_record(t->from, t->stream));
    TRY(op_execute(t->plan, t->arg, t->stream));
    TRY(b->event_record(t->to, t->stream));
    TRY(b->stream_sync(t->stream));
    *seconds = b->event_seconds(t->from, t->to);
    return STATUS_OK;
}

enum status timed_op_sample(struct timed_op *t)
{
    double seconds;
    TRY(timed_op_time(t, &seconds));
    if (t->n < t->cap)
        t->seconds[t->n++] = seconds;
    return STATUS_OK;
}
