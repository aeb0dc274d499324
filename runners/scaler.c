/* The loss scaler's transitions. */
#include "runners/scaler.h"

#include <inttypes.h>

struct scaler_config scaler_config_default(void)
{
    return (struct scaler_config){.dynamic = true,
                                  .init = 65536,
                                  .growth = 2,
                                  .backoff = 0.5,
                                  .interval = 2000,
                                  .max = 16777216,
                                  .min = 1};
}

struct scaler_state scaler_begin(const struct scaler_config *c)
{
    return (struct scaler_state){.scale = c->init};
}

static enum status back_off(const struct scaler_config *c, struct scaler_state *s)
{
    s->clean = 0;
    s->skipped++;
    if (!c->dynamic)
        return STATUS_OK;
    if (s->scale * c->backoff < c->min)
        return status_fail(STATUS_DIVERGED,
                           "the loss scale has collapsed: gradients overflow at a scale of %g, the "
                           "floor is %g, and %" PRId64 " steps were skipped",
                           s->scale, c->min, s->skipped);
    s->scale *= c->backoff;
    return STATUS_OK;
}

enum status scaler_update(const struct scaler_config *c, struct scaler_state *s, bool found_inf)
{
    if (found_inf)
        return back_off(c, s);
    s->clean++;
    if (c->dynamic && s->clean >= c->interval) {
        s->clean = 0;
        s->scale = s->scale * c->growth < c->max ? s->scale * c->growth : c->max;
    }
    return STATUS_OK;
}
