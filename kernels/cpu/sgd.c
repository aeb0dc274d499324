/* SGD over one flat buffer of all parameters, in one pass. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <string.h>

struct sgd_plan {
    struct op_plan base;
    struct sgd_segment segment[]; /* what the description's pointer points to */
};

static enum status sgd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct sgd_attr *a = &base->desc.attr.sgd;
    const struct flat_kernels *kernels = cpu_device_of(base->device)->kernels->flat;
    const struct step_state *state = arg[ROLE_STATE];
    const float *dw = arg[ROLE_DW];
    float *w = arg[ROLE_W], *v = arg[ROLE_MOMENTUM];
    if (state->found_inf)
        return STATUS_OK;
#pragma omp parallel num_threads(base->device->threads)
    {
        struct cpu_share share = cpu_share_of(base->desc.t[ROLE_W].dim[0]);
        int64_t share_end = share.begin + share.count;
        for (int i = 0; i < a->n_segments; i++) {
            const struct sgd_segment *g = &a->segment[i];
            int64_t begin = g->begin > share.begin ? g->begin : share.begin;
            int64_t end = g->end < share_end ? g->end : share_end;
            struct sgd_step step = {state->lr, state->grad_scale, g->weight_decay, a->momentum,
                                    a->nesterov};
            if (begin < end)
                kernels->sgd(step, dw + begin, w + begin, v + begin, end - begin);
        }
    }
    return STATUS_OK;
}

static bool sgd_rounds(const struct op_desc *d)
{
    const struct sgd_attr *a = &d->attr.sgd;
    for (int i = 0; i < a->n_segments; i++)
        if (a->segment[i].gradient != DTYPE_F32 || a->segment[i].master != DTYPE_F32)
            return true;
    return d->t[ROLE_WCOPY].ndim != 0;
}

enum status cpu_plan_sgd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    if (sgd_rounds(&d))
        return status_fail(STATUS_UNSUPPORTED, "sgd: no kernel that rounds");
    TRY(cpu_take(&d, ROLE_W, DTYPE_F32, LAYOUT_PLAIN));
    TRY(cpu_take(&d, ROLE_DW, DTYPE_F32, LAYOUT_PLAIN));
    TRY(cpu_take(&d, ROLE_MOMENTUM, DTYPE_F32, LAYOUT_PLAIN));
    size_t bytes = (size_t)d.attr.sgd.n_segments * sizeof(struct sgd_segment);
    TRY(cpu_plan_new(dev, &d, sizeof(struct sgd_plan) + bytes, sgd, plan));
    struct sgd_plan *p = (struct sgd_plan *)*plan;
    memcpy(p->segment, desc->attr.sgd.segment, bytes);
    p->base.desc.attr.sgd.segment = p->segment;
    return STATUS_OK;
}
