/* ReLU, addition and dropout. */
#include "base/rng.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

static const struct flat_kernels *flat_of(const struct op_plan *plan)
{
    return cpu_device_of(plan->device)->kernels->flat;
}

static enum status relu_fwd(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const float *x = arg[ROLE_X];
    float *y = arg[ROLE_Y];
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of(tensor_count(&p->desc.t[ROLE_X]));
        flat_of(p)->relu(x + at.begin, y + at.begin, at.count);
    }
    return STATUS_OK;
}

static enum status relu_bwd(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const float *dy = arg[ROLE_DY], *y = arg[ROLE_Y];
    const float *dy2 = p->desc.t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL;
    float *dx = arg[ROLE_DX];
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of(tensor_count(&p->desc.t[ROLE_DY]));
        flat_of(p)->relu_grad(dy + at.begin, dy2 ? dy2 + at.begin : NULL, y + at.begin,
                              dx + at.begin, at.count);
    }
    return STATUS_OK;
}

static enum status add(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const float *x = arg[ROLE_X], *z = arg[ROLE_Z];
    float *y = arg[ROLE_Y];
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of(tensor_count(&p->desc.t[ROLE_X]));
        flat_of(p)->add(x + at.begin, z + at.begin, y + at.begin, at.count);
    }
    return STATUS_OK;
}

enum status cpu_plan_elementwise(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan)
{
    struct op_desc d = *desc;
    static const enum role alike[] = {ROLE_X, ROLE_Y, ROLE_Z, ROLE_DX, ROLE_DY, ROLE_DY2};
    enum layout layout = d.t[d.kind == OP_RELU_BWD ? ROLE_DY : ROLE_X].layout;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        TRY(cpu_take(&d, alike[i], DTYPE_F32, layout));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan),
                        d.kind == OP_ADD        ? add
                        : d.kind == OP_RELU_FWD ? relu_fwd
                                                : relu_bwd,
                        plan);
}

static enum status dropout(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct dropout_attr *a = &p->desc.attr.dropout;
    bool forward = p->desc.kind == OP_DROPOUT_FWD;
    const struct tensor_desc *t = &p->desc.t[forward ? ROLE_X : ROLE_DY];
    const struct step_state *state = arg[ROLE_STATE];
    const float *in = arg[forward ? ROLE_X : ROLE_DY];
    float *out = arg[forward ? ROLE_Y : ROLE_DX];
    int64_t rows = t->dim[0], width = tensor_count(t) / rows;
    float scale = 1.0f / (1.0f - a->p);
#pragma omp parallel for num_threads(p->device->threads)
    for (int64_t n = 0; n < rows; n++) {
        struct rng r = rng_at(state->seed, RNG_DROPOUT, state->step,
                              (uint64_t)a->layer << 40 | (state->sample0 + (uint64_t)n));
        for (int64_t i = n * width; i < (n + 1) * width; i++) {
            bool keep = rng_float(&r) >= a->p;
            out[i] = in[i] * (keep ? scale : 0.0f);
        }
    }
    return STATUS_OK;
}

enum status cpu_plan_dropout(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    static const enum role alike[] = {ROLE_X, ROLE_Y, ROLE_DX, ROLE_DY};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        TRY(cpu_take(&d, alike[i], DTYPE_F32, LAYOUT_PLAIN));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan), dropout, plan);
}
