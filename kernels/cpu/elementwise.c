/* ReLU, addition, rounding and dropout. */
#include "base/rng.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

/* For a plan whose tensors all round to what `role` rounds to. */
static const struct flat_kernels *flat_of(const struct op_plan *plan, enum role role)
{
    return cpu_device_of(plan->device)->kernels->flat[rounding_of(plan->desc.t[role].rounds)];
}

static enum status relu_fwd(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const float *x = arg[ROLE_X];
    float *y = arg[ROLE_Y];
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of(tensor_count(&p->desc.t[ROLE_X]));
        flat_of(p, ROLE_X)->relu(x + at.begin, y + at.begin, at.count);
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
        flat_of(p, ROLE_DY)
            ->relu_grad(dy + at.begin, dy2 ? dy2 + at.begin : NULL, y + at.begin, dx + at.begin,
                        at.count);
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
        flat_of(p, ROLE_X)->add(x + at.begin, z + at.begin, y + at.begin, at.count);
    }
    return STATUS_OK;
}

enum status cpu_plan_elementwise(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan)
{
    struct op_desc d = *desc;
    static const enum role alike[] = {ROLE_X, ROLE_Y, ROLE_Z, ROLE_DX, ROLE_DY, ROLE_DY2};
    struct tensor_desc lead = d.t[d.kind == OP_RELU_BWD ? ROLE_DY : ROLE_X];
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        TRY(cpu_take_rounded(&d, alike[i], lead.layout, lead.rounds));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan),
                        d.kind == OP_ADD        ? add
                        : d.kind == OP_RELU_FWD ? relu_fwd
                                                : relu_bwd,
                        plan);
}

static enum status round_all(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct mixed_kernels *kernels = cpu_device_of(p->device)->kernels->mixed;
    const struct tensor_desc *t = &p->desc.t[ROLE_Y];
    const float *x = arg[ROLE_X];
    float *y = arg[ROLE_Y];
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of((int64_t)(t->bytes / sizeof(float)));
        kernels->round(rounding_of(t->rounds), x + at.begin, y + at.begin, at.count);
    }
    return STATUS_OK;
}

/* In any order, even one that only the library knows: all bytes are values or padding of zeros. */
enum status cpu_plan_round(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    struct tensor_desc *x = &d.t[ROLE_X], *y = &d.t[ROLE_Y];
    enum layout layout = x->layout == LAYOUT_ANY ? LAYOUT_PLAIN : x->layout;
    x->layout = y->layout = layout;
    for (int i = 0; i < 2 && layout != LAYOUT_OPAQUE; i++)
        d.t[i ? ROLE_Y : ROLE_X].bytes = (size_t)tensor_count(x) * sizeof(float);
    if (!tensor_same(x, y) || x->bytes != y->bytes || x->bytes == 0)
        return status_fail(STATUS_UNSUPPORTED, "round: no kernel where X and Y lie differently");
    if (x->raw && x->rounds != y->rounds)
        return status_fail(STATUS_UNSUPPORTED, "round: no kernel that rounds from %s to %s",
                           dtype_str(x->rounds), dtype_str(y->rounds));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan), round_all, plan);
}

static enum status dropout(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct dropout_attr *a = &p->desc.attr.dropout;
    bool forward = p->desc.kind == OP_DROPOUT_FWD;
    const struct tensor_desc *t = &p->desc.t[forward ? ROLE_X : ROLE_DY];
    const struct step_state *state = arg[ROLE_STATE];
    const struct mixed_kernels *kernels = cpu_device_of(p->device)->kernels->mixed;
    enum rounding to = rounding_of(t->rounds);
    int64_t rows = t->dim[0], width = tensor_count(t) / rows;
    float scale = 1.0f / (1.0f - a->p);
#pragma omp parallel for num_threads(p->device->threads)
    for (int64_t n = 0; n < rows; n++) {
        struct rng r = rng_at(state->seed, RNG_DROPOUT, state->step,
                              (uint64_t)a->layer << 40 | (state->sample0 + (uint64_t)n));
        const float *in = (const float *)arg[forward ? ROLE_X : ROLE_DY] + n * width;
        float *out = (float *)arg[forward ? ROLE_Y : ROLE_DX] + n * width;
        if (to != ROUND_NONE) {
            kernels->round(to, in, out, width);
            in = out;
        }
        for (int64_t i = 0; i < width; i++) {
            bool keep = rng_float(&r) >= a->p;
            out[i] = in[i] * (keep ? scale : 0.0f);
        }
        if (to != ROUND_NONE)
            kernels->round(to, out, out, width);
    }
    return STATUS_OK;
}

enum status cpu_plan_dropout(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    static const enum role alike[] = {ROLE_X, ROLE_Y, ROLE_DX, ROLE_DY};
    enum dtype rounds = d.t[d.kind == OP_DROPOUT_FWD ? ROLE_X : ROLE_DY].rounds;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        TRY(cpu_take_rounded(&d, alike[i], LAYOUT_PLAIN, rounds));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan), dropout, plan);
}
