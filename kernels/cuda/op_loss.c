/* The loss, and the loss scaler with its state in device memory. */
#include "kernels/cuda/plan.h"

static enum status xent_run(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    struct cu_queue q;
    struct cu_xent a = {.type = d->t[ROLE_X].type,
                        .rows = d->t[ROLE_X].dim[0],
                        .classes = (int)d->t[ROLE_X].dim[1],
                        .label_smoothing = d->attr.xent.label_smoothing,
                        .x = arg[ROLE_X],
                        .label = arg[ROLE_LABEL],
                        .partner = d->t[ROLE_PARTNER].ndim ? arg[ROLE_PARTNER] : NULL,
                        .state = arg[ROLE_STATE],
                        .dx = d->t[ROLE_DX].ndim ? arg[ROLE_DX] : NULL,
                        .metrics = arg[ROLE_METRICS],
                        .bad_label = (int64_t *)cuda_device_of(plan->device)->bad_label};
    TRY(cuda_queue(s, &q));
    return cu_softmax_xent(&q, &a, arg[ROLE_WORKSPACE]);
}

enum status cuda_plan_xent(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    TRY(cuda_plan_new(dev, &d, sizeof **plan, xent_run, plan));
    (*plan)->workspace = cu_softmax_xent_workspace(d.t[ROLE_X].dim[0]);
    return STATUS_OK;
}

static enum status scale_run(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    if (plan->desc.kind == OP_SCALE_SET)
        return cu_scale_set(&q, arg[ROLE_SCALER], arg[ROLE_STATE]);
    return cu_scale_update(&q, &plan->desc.attr.scaler, arg[ROLE_SCALER], arg[ROLE_STATE]);
}

enum status cuda_plan_scale(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    return cuda_plan_new(dev, desc, sizeof **plan, scale_run, plan);
}
