/* Operations on single elements: ReLU, addition, rounding and dropout. */
#include "base/rng.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

/* Returns the kernels for the kind of element that the tensor has. */
static const struct flat_kernels *flat_of(const struct op_plan *plan, enum role role)
{
    return cpu_device_of(plan->device)->kernels->flat[element_of(&plan->desc.t[role])];
}

/* The address of the calling thread's part of a tensor; NULL if the plan has no such tensor. */
static void *share_of(const struct op_plan *p, void *const arg[ROLE_COUNT], enum role role,
                      struct cpu_share at)
{
    const struct tensor_desc *t = &p->desc.t[role];
    return t->ndim ? element_at(arg[role], element_of(t), at.begin) : NULL;
}

static enum status elementwise(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    enum op_kind kind = p->desc.kind;
    enum role lead = kind == OP_RELU_BWD ? ROLE_DY : ROLE_X;
    const struct flat_kernels *kernels = flat_of(p, lead);
    (void)s;
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of(tensor_count(&p->desc.t[lead]));
        void *first = share_of(p, arg, lead, at), *y = share_of(p, arg, ROLE_Y, at);
        if (kind == OP_RELU_FWD)
            kernels->relu(first, y, at.count);
        else if (kind == OP_ADD)
            kernels->add(first, share_of(p, arg, ROLE_Z, at), y, at.count);
        else
            kernels->relu_grad(first, share_of(p, arg, ROLE_DY2, at), y,
                               share_of(p, arg, ROLE_DX, at), at.count);
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
        TRY(cpu_take_like(&d, alike[i], lead.layout, &lead));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan), elementwise, plan);
}

static enum status round_all(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const float *x = arg[ROLE_X];
    float *y = arg[ROLE_Y];
#pragma omp parallel num_threads(p->device->threads)
    {
        struct cpu_share at = cpu_share_of((int64_t)(p->desc.t[ROLE_Y].bytes / sizeof(float)));
        flat_of(p, ROLE_Y)->put(x + at.begin, y + at.begin, at.count);
    }
    return STATUS_OK;
}

/* Supports any layout, including OPAQUE, because all bytes are values or zero padding. */
enum status cpu_plan_round(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    struct tensor_desc *x = &d.t[ROLE_X], *y = &d.t[ROLE_Y];
    enum layout layout = x->layout == LAYOUT_ANY ? LAYOUT_PLAIN : x->layout;
    x->layout = y->layout = layout;
    for (int i = 0; i < 2 && layout != LAYOUT_OPAQUE; i++)
        d.t[i ? ROLE_Y : ROLE_X].bytes = (size_t)tensor_count(x) * sizeof(float);
    if (!tensor_same(x, y) || x->bytes != y->bytes || x->bytes == 0)
        return status_fail(STATUS_UNSUPPORTED, "round: no kernel for different layouts of X and Y");
    if (x->raw && x->rounds != y->rounds)
        return status_fail(STATUS_UNSUPPORTED, "round: no kernel from precision %s to precision %s",
                           dtype_str(x->rounds), dtype_str(y->rounds));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan), round_all, plan);
}

/* The number of values of a row that are converted to float at a time. */
enum { RUN = 256 };

/* Applies dropout to one row, with a mask drawn from `r`. */
static void dropout_row(const struct op_plan *p, struct rng r, const void *in, void *out)
{
    bool forward = p->desc.kind == OP_DROPOUT_FWD;
    const struct tensor_desc *t = &p->desc.t[forward ? ROLE_X : ROLE_DY];
    const struct flat_kernels *kernels = flat_of(p, forward ? ROLE_X : ROLE_DY);
    enum element element = element_of(t);
    int64_t width = tensor_count(t) / t->dim[0];
    float threshold = p->desc.attr.dropout.p, scale = 1.0f / (1.0f - threshold);
    for (int64_t at = 0; at < width; at += RUN) {
        int64_t n = width - at < RUN ? width - at : RUN;
        float value[RUN];
        kernels->get(element_at(in, element, at), value, n);
        for (int64_t i = 0; i < n; i++) {
            bool keep = rng_float(&r) >= threshold;
            value[i] *= keep ? scale : 0.0f;
        }
        kernels->put(value, element_at(out, element, at), n);
    }
}

static enum status dropout(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct dropout_attr *a = &p->desc.attr.dropout;
    bool forward = p->desc.kind == OP_DROPOUT_FWD;
    const struct tensor_desc *t = &p->desc.t[forward ? ROLE_X : ROLE_DY];
    const struct step_state *state = arg[ROLE_STATE];
    int64_t rows = t->dim[0], width = tensor_count(t) / rows;
#pragma omp parallel for num_threads(p->device->threads)
    for (int64_t n = 0; n < rows; n++) {
        struct rng r = rng_at(state->seed, RNG_DROPOUT, state->step,
                              (uint64_t)a->layer << 40 | (state->sample0 + (uint64_t)n));
        dropout_row(p, r, element_at(arg[forward ? ROLE_X : ROLE_DY], element_of(t), n * width),
                    element_at(arg[forward ? ROLE_Y : ROLE_DX], element_of(t), n * width));
    }
    return STATUS_OK;
}

enum status cpu_plan_dropout(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    static const enum role alike[] = {ROLE_X, ROLE_Y, ROLE_DX, ROLE_DY};
    struct tensor_desc lead = d.t[d.kind == OP_DROPOUT_FWD ? ROLE_X : ROLE_DY];
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        TRY(cpu_take_like(&d, alike[i], LAYOUT_PLAIN, &lead));
    return cpu_plan_new(dev, &d, sizeof(struct op_plan), dropout, plan);
}
