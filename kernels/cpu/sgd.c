/* SGD over one flat buffer of all parameters, in one pass, and the check for gradients that are not
 * finite, in another that stops at the first. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <stdatomic.h>
#include <string.h>

/* Copies at least this large have left the caches by the time that they are read. */
enum { STREAM_BYTES = 4 << 20 };

/* Gradients between two looks at whether another thread has found what all are looking for. */
enum { CHECK_RUN = 1 << 14 };

struct sgd_plan {
    struct op_plan base;
    struct sgd_segment segment[]; /* what the description's pointer points to */
};

/* Segment i as far as the calling thread's share of the buffer reaches. */
static struct sgd_segment share_segment(const struct op_desc *d, enum role flat, int i)
{
    struct cpu_share share = cpu_share_of(d->t[flat].dim[0]);
    struct sgd_segment g = d->attr.sgd.segment[i];
    int64_t end = share.begin + share.count;
    g.begin = g.begin > share.begin ? g.begin : share.begin;
    g.end = g.end < end ? g.end : end;
    return g;
}

static enum status sgd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct sgd_attr *a = &base->desc.attr.sgd;
    const struct mixed_kernels *kernels = cpu_device_of(base->device)->kernels->mixed;
    const struct step_state *state = arg[ROLE_STATE];
    const float *dw = arg[ROLE_DW];
    float *w = arg[ROLE_W], *v = arg[ROLE_MOMENTUM];
    float *copy = base->desc.t[ROLE_WCOPY].ndim ? arg[ROLE_WCOPY] : NULL;
    if (state->found_inf)
        return STATUS_OK;
#pragma omp parallel num_threads(base->device->threads)
    for (int i = 0; i < a->n_segments; i++) {
        struct sgd_segment g = share_segment(&base->desc, ROLE_W, i);
        struct sgd_step step = {
            .lr = state->lr,
            .grad_scale = state->grad_scale,
            .weight_decay = g.weight_decay,
            .momentum = a->momentum,
            .nesterov = a->nesterov,
            .gradient = rounding_of(g.gradient),
            .master = rounding_of(g.master),
            .copy = rounding_of(g.copy),
            .stream = base->desc.t[ROLE_WCOPY].bytes >= STREAM_BYTES,
        };
        if (g.begin < g.end)
            kernels->sgd(step, dw + g.begin, w + g.begin, v + g.begin, copy ? copy + g.begin : NULL,
                         g.end - g.begin);
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
    const float *dw = arg[ROLE_DW];
    struct step_state *state = arg[ROLE_STATE];
    atomic_bool found = false;
#pragma omp parallel num_threads(base->device->threads)
    for (int i = 0; i < base->desc.attr.sgd.n_segments; i++) {
        struct sgd_segment g = share_segment(&base->desc, ROLE_DW, i);
        if (segment_overflows(kernels, &g, dw, &found))
            atomic_store_explicit(&found, true, memory_order_relaxed);
    }
    state->found_inf = found;
    return STATUS_OK;
}

static enum status plan_segments(struct device *dev, const struct op_desc *desc,
                                 enum status (*execute)(struct op_plan *plan,
                                                        void *const arg[ROLE_COUNT],
                                                        struct stream *s),
                                 struct op_plan **plan)
{
    static const enum role flat[] = {ROLE_W, ROLE_DW, ROLE_MOMENTUM, ROLE_WCOPY};
    struct op_desc d = *desc;
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
        TRY(cpu_take(&d, flat[i], DTYPE_F32, LAYOUT_PLAIN));
    size_t bytes = (size_t)d.attr.sgd.n_segments * sizeof(struct sgd_segment);
    TRY(cpu_plan_new(dev, &d, sizeof(struct sgd_plan) + bytes, execute, plan));
    struct sgd_plan *p = (struct sgd_plan *)*plan;
    memcpy(p->segment, desc->attr.sgd.segment, bytes);
    p->base.desc.attr.sgd.segment = p->segment;
    return STATUS_OK;
}

enum status cpu_plan_sgd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    return plan_segments(dev, desc, sgd, plan);
}

enum status cpu_plan_check_finite(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **plan)
{
    return plan_segments(dev, desc, check_finite, plan);
}
