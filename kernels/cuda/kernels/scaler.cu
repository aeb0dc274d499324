/* The loss scaler, run by one thread on the device. */
#include "kernels/cuda/kernels/launch.h"

static __global__ void scale_set(const struct scaler_state *s, struct step_state *state)
{
    await_previous();
    state->loss_scale = scaler_loss_scale(s->scale, state->share);
    state->grad_scale = scaler_grad_scale(s->scale, state->divisor);
}

static __global__ void scale_update(struct scaler_rule rule, struct scaler_state *s,
                                    const struct step_state *state)
{
    await_previous();
    scaler_advance(&rule, s, state->found_inf != 0);
}

enum status cu_scale_set(const struct cu_queue *q, const struct scaler_state *scaler,
                         struct step_state *state)
{
    return launch("scale_set", launch_config(q, 1, 1), scale_set, scaler, state);
}

enum status cu_scale_update(const struct cu_queue *q, const struct scaler_rule *rule,
                            struct scaler_state *scaler, const struct step_state *state)
{
    return launch("scale_update", launch_config(q, 1, 1), scale_update, *rule, scaler, state);
}
