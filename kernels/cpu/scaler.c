/* The loss scaler with its state in device memory. */
#include "kernels/cpu/internal.h"

static enum status scale_set(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)plan;
    (void)s;
    const struct scaler_state *scaler = arg[ROLE_SCALER];
    struct step_state *state = arg[ROLE_STATE];
    state->loss_scale = scaler_loss_scale(scaler->scale, state->share);
    state->grad_scale = scaler_grad_scale(scaler->scale, state->divisor);
    return STATUS_OK;
}

static enum status scale_update(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct step_state *state = arg[ROLE_STATE];
    scaler_advance(&plan->desc.attr.scaler, arg[ROLE_SCALER], state->found_inf != 0);
    return STATUS_OK;
}

enum status cpu_plan_scale(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    return cpu_plan_new(dev, desc, sizeof(struct op_plan),
                        desc->kind == OP_SCALE_SET ? scale_set : scale_update, plan);
}
