/* SGD over one flat buffer of all parameters, in one pass. A separate pass checks for gradients
 * that are not finite, and stops at the first one.
 *
 * LARS first computes norms in a separate pass over its segments: each chunk of fixed size gives a
 * sum, and the sums are added in order. LARS's factor for a segment then multiplies the scale of
 * the gradient and the weight decay, and the step is that of SGD. If the norm of the whole gradient
 * is limited, the pass covers all segments, and the clipping factor multiplies the scale of the
 * gradient, but not the weight decay. The gradients of DW and of DW_HALF are fp32 here. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* A thread checks after this number of gradients whether another thread has found a gradient that
 * is not finite. */
enum { CHECK_RUN = 1 << 14 };

/* Maximum number of values of a chunk. One thread sums the squares of a chunk. */
enum { NORM_RUN = 1 << 14 };

/* A part of a segment whose norm is needed. If the gradient's norm is limited, every segment's norm
 * is needed; otherwise only the norms of segments with LARS. */
struct sgd_chunk {
    int segment;
    int64_t begin, end;
};

struct sgd_plan {
    struct op_plan base;
    int64_t n_chunks; /* 0: the step needs no norms */
    struct sgd_chunk *chunk;
    struct sgd_segment segment[]; /* the plan's description points to this copy */
};

/* The workspace of a step that uses LARS or limits the norm of the gradient. */
struct sgd_norms {
    double *w, *dw; /* (chunks) sums of squares */
    double *local;  /* per segment */
};

/* The part of segment i that lies in the calling thread's part of the buffer. */
static struct sgd_segment share_segment(const struct op_desc *d, enum role flat, int i)
{
    struct cpu_share share = cpu_share_of(d->t[flat].dim[0]);
    struct sgd_segment g = d->attr.sgd.segment[i];
    int64_t end = share.begin + share.count;
    g.begin = g.begin > share.begin ? g.begin : share.begin;
    g.end = g.end < end ? g.end : end;
    return g;
}

/* The flat buffer that has the segment's gradient. */
static const float *gradient_of(void *const arg[ROLE_COUNT], const struct sgd_segment *s)
{
    return arg[s->half ? ROLE_DW_HALF : ROLE_DW];
}

/* Sums the squares of all chunks. Every thread of the parallel region must call it. */
static void sum_squares(const struct sgd_plan *p, struct sgd_norms norms, void *const *arg)
{
    const float *w = arg[ROLE_W];
    const struct mixed_kernels *kernels = cpu_device_of(p->base.device)->kernels->mixed;
#pragma omp for
    for (int64_t k = 0; k < p->n_chunks; k++) {
        struct sgd_chunk c = p->chunk[k];
        const struct sgd_segment *s = &p->segment[c.segment];
        norms.w[k] = kernels->squares(ROUND_NONE, w + c.begin, c.end - c.begin);
        norms.dw[k] = kernels->squares(rounding_of(s->gradient), gradient_of(arg, s) + c.begin,
                                       c.end - c.begin);
    }
}

static void set_local_rates(const struct sgd_plan *p, struct sgd_norms norms, float grad_scale)
{
    int64_t k = 0;
    for (int i = 0; i < p->base.desc.attr.sgd.n_segments; i++) {
        const struct sgd_segment *s = &p->segment[i];
        double w = 0, g = 0;
        for (; k < p->n_chunks && p->chunk[k].segment == i; k++) {
            w += norms.w[k];
            g += norms.dw[k];
        }
        w = sqrt(w);
        g = sqrt(g) * (double)grad_scale;
        norms.local[i] =
            s->trust == 0 || w == 0 || g == 0 ? 1 : s->trust * w / (g + s->weight_decay * w);
    }
}

/* Returns the scale of the gradients, made smaller if their norm exceeds the limit. */
static double clipped_scale(const struct sgd_plan *p, struct sgd_norms norms, float grad_scale)
{
    double sum = 0, clip = p->base.desc.attr.sgd.clip;
    if (clip == 0)
        return grad_scale;
    for (int64_t k = 0; k < p->n_chunks; k++)
        sum += norms.dw[k];
    return grad_scale * fmin(1, clip / (sqrt(sum) * (double)grad_scale + 1e-6));
}

static enum status sgd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct sgd_plan *p = (const struct sgd_plan *)base;
    const struct sgd_attr *a = &base->desc.attr.sgd;
    const struct cpu_device *cpu = cpu_device_of(base->device);
    const struct step_state *state = arg[ROLE_STATE];
    float *w = arg[ROLE_W], *v = arg[ROLE_MOMENTUM];
    float *copy = base->desc.t[ROLE_WCOPY].ndim ? arg[ROLE_WCOPY] : NULL;
    if (state->found_inf)
        return STATUS_OK;
    double *sums = arg[ROLE_WORKSPACE];
    struct sgd_norms norms = {sums, sums + p->n_chunks, sums + 2 * p->n_chunks};
    if (p->n_chunks) {
#pragma omp parallel num_threads(base->device->threads)
        sum_squares(p, norms, arg);
        set_local_rates(p, norms, state->grad_scale);
    }
    double grad_scale = clipped_scale(p, norms, state->grad_scale);
#pragma omp parallel num_threads(base->device->threads)
    for (int i = 0; i < a->n_segments; i++) {
        struct sgd_segment g = share_segment(&base->desc, ROLE_W, i);
        double local = p->n_chunks ? norms.local[i] : 1;
        struct sgd_step step = {
            .lr = state->lr,
            .grad_scale = (float)(local * grad_scale),
            .weight_decay = (float)(local * g.weight_decay),
            .momentum = a->momentum,
            .nesterov = a->nesterov,
            .gradient = rounding_of(g.gradient),
            .master = rounding_of(g.master),
            .copy = rounding_of(g.copy),
            .stream = base->desc.t[ROLE_WCOPY].bytes >= cpu->stream_bytes,
        };
        if (g.begin < g.end)
            cpu->kernels->mixed->sgd(step, gradient_of(arg, &g) + g.begin, w + g.begin, v + g.begin,
                                     copy ? copy + g.begin : NULL, g.end - g.begin);
    }
    return STATUS_OK;
}

static bool segment_overflows(const struct mixed_kernels *kernels, const struct sgd_segment *g,
                              const float *dw, const atomic_bool *found)
{
    for (int64_t at = g->begin; at < g->end; at += CHECK_RUN) {
        int64_t left = g->end - at;
        if (atomic_load_explicit(found, memory_order_relaxed))
            return true;
        if (kernels->overflows(rounding_of(g->gradient), dw + at,
                               left < CHECK_RUN ? left : CHECK_RUN))
            return true;
    }
    return false;
}

static enum status check_finite(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct mixed_kernels *kernels = cpu_device_of(base->device)->kernels->mixed;
    struct step_state *state = arg[ROLE_STATE];
    atomic_bool found = false;
#pragma omp parallel num_threads(base->device->threads)
    for (int i = 0; i < base->desc.attr.sgd.n_segments; i++) {
        struct sgd_segment g = share_segment(&base->desc, ROLE_DW, i);
        if (segment_overflows(kernels, &g, gradient_of(arg, &g), &found))
            atomic_store_explicit(&found, true, memory_order_relaxed);
    }
    state->found_inf = found;
    return STATUS_OK;
}

/* Cuts the segments whose norms are needed into chunks, and returns the number of chunks. If
 * `chunk` is NULL, the function only counts the chunks. */
static int64_t cut_chunks(const struct sgd_attr *a, struct sgd_chunk *chunk)
{
    int64_t n = 0;
    for (int i = 0; i < a->n_segments; i++) {
        const struct sgd_segment *s = &a->segment[i];
        bool needed = s->trust > 0 || a->clip > 0;
        for (int64_t at = s->begin; needed && at < s->end; at += NORM_RUN, n++)
            if (chunk)
                chunk[n] =
                    (struct sgd_chunk){i, at, at + NORM_RUN < s->end ? at + NORM_RUN : s->end};
    }
    return n;
}

static enum status plan_segments(struct device *dev, const struct op_desc *desc, int64_t n_chunks,
                                 op_executor *execute, struct op_plan **plan)
{
    static const enum role flat[] = {ROLE_W, ROLE_DW, ROLE_DW_HALF, ROLE_MOMENTUM, ROLE_WCOPY};
    struct op_desc d = *desc;
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
        TRY(cpu_take(&d, flat[i], DTYPE_F32, LAYOUT_PLAIN));
    size_t bytes = (size_t)d.attr.sgd.n_segments * sizeof(struct sgd_segment);
    size_t chunk_bytes = (size_t)n_chunks * sizeof(struct sgd_chunk);
    TRY(cpu_plan_new(dev, &d, sizeof(struct sgd_plan) + bytes + chunk_bytes, execute, plan));
    struct sgd_plan *p = (struct sgd_plan *)*plan;
    memcpy(p->segment, desc->attr.sgd.segment, bytes);
    p->base.desc.attr.sgd.segment = p->segment;
    p->n_chunks = n_chunks;
    if (n_chunks) {
        p->chunk = (struct sgd_chunk *)(p->segment + d.attr.sgd.n_segments);
        cut_chunks(&d.attr.sgd, p->chunk);
        p->base.workspace = (2 * (size_t)n_chunks + (size_t)d.attr.sgd.n_segments) * sizeof(double);
    }
    return STATUS_OK;
}

enum status cpu_plan_sgd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    return plan_segments(dev, desc, cut_chunks(&desc->attr.sgd, NULL), sgd, plan);
}

enum status cpu_plan_check_finite(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan)
{
    return plan_segments(dev, desc, 0, check_finite, plan);
}
