/* The loss scaler's transitions, those of runners/scaler.c, by one thread on the device. */
#include "kernels/cuda/kernels/launch.h"

static __device__ void back_off(const struct cu_scaler_config &c, struct cu_scaler *s)
{
    s->clean = 0;
    s->skipped++;
    if (!c.dynamic)
        return;
    if (s->scale * c.backoff < c.min)
        s->collapsed = 1;
    else
        s->scale *= c.backoff;
}

static __device__ void count_clean(const struct cu_scaler_config &c, struct cu_scaler *s)
{
    s->clean++;
    if (!c.dynamic || s->clean < c.interval)
        return;
    s->clean = 0;
    s->scale = s->scale * c.growth < c.max ? s->scale * c.growth : c.max;
}

static __global__ void scaler_update(struct cu_scaler_config c, double divisor, struct cu_scaler *s,
                                     struct step_state *state)
{
    if (s->collapsed)
        return;
    if (state->found_inf)
        back_off(c, s);
    else
        count_clean(c, s);
    state->loss_scale = (float)s->scale;
    state->grad_scale = (float)(1 / (s->scale * divisor));
}

enum status cu_scaler_update(const struct cu_queue *q, const struct cu_scaler_config *c,
                             double divisor, struct cu_scaler *scaler, struct step_state *state)
{
    return launch("scaler_update", launch_config(q, 1, 1), scaler_update, *c, divisor, scaler,
                  state);
}
