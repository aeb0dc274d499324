/* Dynamic loss scaling as a pure state machine: the one that hosts, CPU kernels and CUDA kernels
 * run. runners/scaler.h says what the rule means and where its values come from. */
#ifndef KERNELS_SCALER_H
#define KERNELS_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SCALER_FUNCTION static inline __host__ __device__
#else
#define SCALER_FUNCTION static inline
#endif

struct scaler_rule {
    bool dynamic;     /* else the scale stays */
    double growth;    /* factor after `interval` clean steps, up to `max` */
    double backoff;   /* factor after an overflow */
    int64_t interval; /* steps */
    double max, min;
};

struct scaler_state {
    double scale;
    int64_t clean;     /* steps in a row without overflow, since the scale changed last */
    int64_t skipped;   /* steps skipped since the run began */
    int32_t collapsed; /* 1: the scale would have fallen below `min`; nothing goes on after that */
};

/* After a step whose gradients overflowed, or did not. */
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

/* What the loss's gradient is multiplied by: the scale, times the part of the batch that its mean
 * is over. */
SCALER_FUNCTION float scaler_loss_scale(double scale, float share)
{
    return (float)scale * share;
}

/* What gradients are multiplied by before use: they are sums of `divisor` scaled means. */
SCALER_FUNCTION float scaler_grad_scale(double scale, double divisor)
{
    return (float)(1 / ((double)(float)scale * divisor));
}

#endif
