/* Dynamic loss scaling as a pure state machine, shared by host code, CPU kernels and CUDA kernels.
 * engine/scaler.h explains the rule and the source of its values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SCALER_FUNCTION static inline __host__ __device__
#else
#define SCALER_FUNCTION static inline
#endif

struct scaler_rule {
    bool dynamic;     /* false: the scale stays at `init` */
    double init;      /* initial scale, by default 65536; if not dynamic, the static scale */
    double growth;    /* factor after `interval` clean steps, by default 2; the scale is limited to
                       * `max` */
    double backoff;   /* factor after an overflow, by default 0.5 */
    int64_t interval; /* number of steps, by default 2000 */
    double max;       /* largest scale, by default 2^24 */
    double min;       /* smallest scale, by default 1 */
};

struct scaler_state {
    double scale;
    int64_t clean;     /* consecutive steps without overflow since the scale last changed */
    int64_t skipped;   /* steps skipped since the run began */
    int32_t collapsed; /* 1: the scale would have fallen below `min`; never reset */
};

/* Updates the state after a step; `overflowed`: whether the step's gradients overflowed. */
SCALER_FUNCTION void scaler_advance(const struct scaler_rule *r, struct scaler_state *s,
                                    bool overflowed)
{
    if (s->collapsed)
        return;
    if (overflowed) {
        s->clean = 0;
        s->skipped++;
        if (!r->dynamic)
            return;
        if (s->scale * r->backoff < r->min)
            s->collapsed = 1;
        else
            s->scale *= r->backoff;
        return;
    }
    s->clean++;
    if (!r->dynamic || s->clean < r->interval)
        return;
    s->clean = 0;
    s->scale = s->scale * r->growth < r->max ? s->scale * r->growth : r->max;
}

/* The factor of the loss's gradient: the scale times `share`. This device's mean loss covers only
 * the fraction `share` of the batch's rows. */
SCALER_FUNCTION float scaler_loss_scale(double scale, float share)
{
    return (float)scale * share;
}

/* The factor that turns gradients, which are sums of `divisor` scaled means, into an unscaled
 * mean. */
SCALER_FUNCTION float scaler_grad_scale(double scale, double divisor)
{
    return (float)(1 / ((double)(float)scale * divisor));
}
