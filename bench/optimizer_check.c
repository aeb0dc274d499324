/* Runs one step of the optimizer, with exact results, on a device and on the reference backend. */
#include "bench/optimizer.h"
#include "bench/timed_op.h"

#include "base/array.h"

#include <stdlib.h>

enum { CHUNK = 1 << 20 }; /* elements that the reference updates at a time */

enum { WEIGHT, GRADIENT, HALF_GRADIENT, MOMENTUM, COPY, BUFFERS };
static const enum role buffer_role[BUFFERS] = {ROLE_W, ROLE_DW, ROLE_DW_HALF, ROLE_MOMENTUM,
                                               ROLE_WCOPY};

struct buffers {
    float *x[BUFFERS];
};

static enum status buffers_new(int64_t n, struct buffers *b)
{
    for (int i = 0; i < BUFFERS; i++)
        TRY(array_new(&b->x[i], n));
    return STATUS_OK;
}

static void buffers_free(struct buffers *b)
{
    for (int i = 0; i < BUFFERS; i++)
        free(b->x[i]);
}

/* Draws whole numbers from -8 to 8 for elements begin .. begin + n - 1. Sets the half-precision
 * copy to 1e6, which cannot be a result. Each segment of `sgd` uses one of two gradient buffers. In
 * the gradient buffer that a segment does not use, the elements of the segment are set to 100. */
static void draw(const struct sgd_attr *sgd, int64_t begin, int64_t n, struct buffers *b)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(begin + i) * 2654435761u;
        b->x[WEIGHT][i] = (float)((int)((bits >> 8) % 17) - 8);
        b->x[GRADIENT][i] = (float)((int)((bits >> 16) % 17) - 8);
        b->x[HALF_GRADIENT][i] = 100;
        b->x[MOMENTUM][i] = (float)((int)((bits >> 12) % 17) - 8);
        b->x[COPY][i] = 1e6f;
    }
    for (int s = 0; s < sgd->n_segments; s++)
        for (int64_t i = sgd->segment[s].begin; sgd->segment[s].half && i < sgd->segment[s].end;
             i++) {
            b->x[HALF_GRADIENT][i] = b->x[GRADIENT][i];
            b->x[GRADIENT][i] = 100;
        }
}

static bool has(const struct timed_op *t, int buffer)
{
    return t->plan->desc.t[buffer_role[buffer]].ndim != 0;
}

static enum status sgd_step(struct timed_op *t, struct buffers *b)
{
    const struct step_state state = {.lr = 0.5f, .loss_scale = 1, .grad_scale = 1};
    const struct backend *be = t->stream->device->backend;
    TRY(be->upload(t->stream, t->arg[ROLE_STATE], &state, sizeof state));
    for (int i = 0; i < BUFFERS; i++)
        if (has(t, i))
            TRY(timed_op_put(t, buffer_role[i], b->x[i]));
    TRY(timed_op_warm(t));
    for (int i = 0; i < BUFFERS; i++)
        if (has(t, i))
            TRY(timed_op_get(t, buffer_role[i], b->x[i]));
    return STATUS_OK;
}

/* Describes the operation `d` for elements begin .. begin + n - 1 only. `segment` must have space
 * for all segments of `d`. */
static struct op_desc part_of(const struct op_desc *d, int64_t begin, int64_t n,
                              struct sgd_segment *segment)
{
    struct op_desc part = *d;
    part.attr.sgd.n_segments = 0;
    part.attr.sgd.segment = segment;
    for (int i = 0; i < BUFFERS; i++)
        if (d->t[buffer_role[i]].ndim)
            part.t[buffer_role[i]] = tensor_1d(DTYPE_F32, n);
    for (int i = 0; i < d->attr.sgd.n_segments; i++) {
        struct sgd_segment s = d->attr.sgd.segment[i];
        s.begin = s.begin > begin ? s.begin - begin : 0;
        s.end = s.end < begin + n ? s.end - begin : n;
        if (s.end > s.begin)
            segment[part.attr.sgd.n_segments++] = s;
    }
    return part;
}

static enum status sgd_reference(const struct op_desc *d, struct stream *ref, struct buffers *b)
{
    struct timed_op t = {0};
    enum status st;
    CHECK(timed_op_open(&t, ref, d));
    CHECK(ref->device->backend->alloc(ref->device, sizeof(struct step_state), &t.arg[ROLE_STATE]));
    CHECK(sgd_step(&t, b));
done:
    timed_op_close(&t);
    return st;
}

enum status optimizer_check(struct timed_op *t, struct stream *ref, int64_t *wrong)
{
    const struct op_desc *d = &t->plan->desc;
    int64_t all = tensor_count(&d->t[ROLE_W]);
    struct buffers got = {{0}}, want = {{0}};
    struct sgd_segment *segment;
    enum status st;
    *wrong = 0;
    CHECK(array_new(&segment, d->attr.sgd.n_segments));
    CHECK(buffers_new(all, &got));
    CHECK(buffers_new(CHUNK, &want));
    draw(&d->attr.sgd, 0, all, &got);
    CHECK(sgd_step(t, &got));
    for (int64_t begin = 0; begin < all; begin += CHUNK) {
        int64_t n = all - begin < CHUNK ? all - begin : CHUNK;
        struct op_desc part = part_of(d, begin, n, segment);
        draw(&part.attr.sgd, begin, n, &want);
        CHECK(sgd_reference(&part, ref, &want));
        /* A segment that needs no half-precision copy still gets such a copy, in the type of the
         * buffer. No pass reads this copy. */
        for (int64_t i = 0; has(t, COPY) && i < n; i++)
            want.x[COPY][i] = dtype_round(d->t[ROLE_WCOPY].type, want.x[COPY][i]);
        for (int b = 0; b < BUFFERS; b++)
            for (int64_t i = 0; has(t, b) && i < n; i++)
                *wrong += got.x[b][begin + i] != want.x[b][i];
    }
done:
    buffers_free(&got);
    buffers_free(&want);
    free(segment);
    return st;
}
