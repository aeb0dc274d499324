/* The loss scaler with its state in device memory. */
#include "kernels/cuda/plan.h"

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
