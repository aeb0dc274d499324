/* Updates and checks the loss scaler of a run. */
#include "engine/scaler.h"

#include <inttypes.h>

struct scaler_rule scaler_default(void)
{
    return (struct scaler_rule){.dynamic = true,
                                .init = 65536,
                                .growth = 2,
                                .backoff = 0.5,
                                .interval = 2000,
                                .max = 16777216,
                                .min = 1};
}

struct scaler_state scaler_begin(const struct scaler_rule *c)
{
    return (struct scaler_state){.scale = c->init};
}

enum status scaler_check(const struct scaler_rule *c, const struct scaler_state *s)
{
    if (!s->collapsed)
        return STATUS_OK;
    return status_fail(STATUS_DIVERGED,
                       "the loss scale has collapsed: gradients overflow even at the scale %g, the "
                       "lowest allowed is %g, and %" PRId64 " steps were skipped",
                       s->scale, c->min, s->skipped);
}

enum status scaler_update(const struct scaler_rule *c, struct scaler_state *s, bool found_inf)
{
    scaler_advance(c, s, found_inf);
    return scaler_check(c, s);
}
