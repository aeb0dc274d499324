/* The loss. */
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
