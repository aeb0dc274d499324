/* The loss scaler with its state in device memory. */
#include "kernels/cuda/plan.h"

static enum status run_set(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct cu_queue q;
    (void)plan;
    TRY(cuda_queue(s, &q));
    return cu_scale_set(&q, arg[ROLE_SCALER], arg[ROLE_STATE]);
}

static enum status run_update(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cu_scale_update(&q, &plan->desc.attr.scaler, arg[ROLE_SCALER], arg[ROLE_STATE]);
}

enum status cuda_plan_scale(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    return cuda_plan_new(dev, desc, sizeof **plan,
                         desc->kind == OP_SCALE_SET ? run_set : run_update, plan);
}
