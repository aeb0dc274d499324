/* The loss scaler of a run. */
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

struct scaler_rule scaler_rule(const struct scaler_config *c)
{
    return (struct scaler_rule){.dynamic = c->dynamic,
                                .growth = c->growth,
                                .backoff = c->backoff,
                                .interval = c->interval,
                                .max = c->max,
                                .min = c->min};
}

enum status scaler_check(const struct scaler_config *c, const struct scaler_state *s)
{
    if (!s->collapsed)
        return STATUS_OK;
    return status_fail(STATUS_DIVERGED,
                       "the loss scale has collapsed: gradients overflow at a scale of %g, the "
                       "floor is %g, and %" PRId64 " steps were skipped",
                       s->scale, c->min, s->skipped);
}

enum status scaler_update(const struct scaler_config *c, struct scaler_state *s, bool found_inf)
{
    const struct scaler_rule rule = scaler_rule(c);
    scaler_advance(&rule, s, found_inf);
    return scaler_check(c, s);
}
