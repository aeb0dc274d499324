/* Elementwise operations. All tensors of an operation must have the same order in memory, which may
 * be any order. Dropout requires the plain layout, because its masks depend on rows. */
#include "kernels/cuda/plan.h"

static enum status elements_run(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    const struct tensor_desc *x = &d->t[d->t[ROLE_X].ndim ? ROLE_X : ROLE_DY];
    int64_t n = (int64_t)(x->bytes / dtype_size(x->type)); /* in memory, padding included */
    int64_t rows = x->dim[0];
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    switch (d->kind) {
    case OP_RELU_FWD:
        return cu_relu_fwd(&q, x->type, n, arg[ROLE_X], arg[ROLE_Y]);
    case OP_RELU_BWD:
        return cu_relu_bwd(&q, x->type, n, arg[ROLE_DY], d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                           arg[ROLE_Y], arg[ROLE_DX]);
    case OP_ADD:
        return cu_add(&q, x->type, n, arg[ROLE_X], arg[ROLE_Z], arg[ROLE_Y]);
    case OP_ROUND:
        return cu_round(&q, d->t[ROLE_Y].rounds, n, arg[ROLE_X], arg[ROLE_Y]);
    case OP_DROPOUT_FWD:
        return cu_dropout(&q, x->type, rows, n / rows, &d->attr.dropout, arg[ROLE_STATE],
                          arg[ROLE_X], arg[ROLE_Y]);
    default:
        return cu_dropout(&q, x->type, rows, n / rows, &d->attr.dropout, arg[ROLE_STATE],
                          arg[ROLE_DY], arg[ROLE_DX]);
    }
}

/* The first 4-d tensor whose layout is not ANY; NULL: there is no such tensor. */
static const struct tensor_desc *leader_of(const struct op_desc *d)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim == 4 && d->t[r].layout != LAYOUT_ANY)
            return &d->t[r];
    return NULL;
}

enum status cuda_plan_elements(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    struct op_desc d = *desc;
    const struct tensor_desc *led = leader_of(desc);
    for (int r = 0; led && r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4 && d.t[r].layout == LAYOUT_ANY)
            d.t[r].opaque = led->opaque;
    TRY(cuda_resolve(&d, led ? led->layout : LAYOUT_NHWC));
    for (int r = 0; led && r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4 && (!cuda_lies(&d.t[r], led->layout) || d.t[r].opaque != led->opaque))
            return status_fail(STATUS_UNSUPPORTED, "%s: no kernel for tensors of different layouts",
                               op_str(d.kind));
    return cuda_plan_new(dev, &d, sizeof **plan, elements_run, plan);
}

enum status cuda_plan_dropout(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_PLAIN));
    TRY(cuda_all_lie(&d, LAYOUT_PLAIN));
    return cuda_plan_new(dev, &d, sizeof **plan, elements_run, plan);
}
