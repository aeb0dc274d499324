/* Dynamic loss scaling: the state machine of Apex and of torch.amp.GradScaler.
 *
 *   start at 65536; after a step whose gradients hold an infinity or NaN: scale *= backoff (1/2),
 *   the step is skipped and the count of clean steps starts again; after growth_interval (2000)
 *   clean steps in a row: scale *= growth (2), at most max (2^24).
 *
 * A floor stops a run that would skip steps indefinitely: when the scale would fall below `min`,
 * training has diverged, and scaler_update fails. */
#pragma once

#include "base/status.h"
#include "kernels/scaler.h"

struct scaler_rule scaler_default(void);
struct scaler_state scaler_begin(const struct scaler_rule *c);

/* Updates the scale after a step; found_inf: its gradients overflowed. STATUS_DIVERGED, with a
 * message, when the scale falls below the floor. A static scale stays, but the step is skipped and
 * counted too, since an infinite gradient cannot update a weight. */
MUST_CHECK enum status scaler_update(const struct scaler_rule *c, struct scaler_state *s,
                                     bool found_inf);

/* Checks a state that a device has updated: STATUS_DIVERGED where the scale collapsed. */
MUST_CHECK enum status scaler_check(const struct scaler_rule *c, const struct scaler_state *s);
