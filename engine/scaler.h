/* Dynamic loss scaling: the state machine of Apex and of torch.amp.GradScaler.
 *
 *   The scale starts at 65536.
 *   After a step whose gradients contain an infinity or NaN:
 *       scale *= backoff (1/2); the step is skipped and the count of clean steps starts again at 0.
 *   After growth_interval (2000) clean steps in a row:
 *       scale *= growth (2), at most max (2^24).
 *
 * A floor stops a run that would skip steps indefinitely: when the scale would fall below `min`,
 * training has diverged, and scaler_update fails. */
#pragma once

#include "base/status.h"
#include "kernels/scaler.h"

struct scaler_rule scaler_default(void);
struct scaler_state scaler_begin(const struct scaler_rule *c);

/* Updates the scale after a step; found_inf says whether the step's gradients overflowed.
 * STATUS_DIVERGED, with a message, when the scale falls below the floor. A static scale does not
 * change, but a step that overflows is skipped and counted too, because infinite gradients must not
 * update the weights. */
MUST_CHECK enum status scaler_update(const struct scaler_rule *c, struct scaler_state *s,
                                     bool found_inf);

/* Checks a state that a device has updated: STATUS_DIVERGED if the scale has collapsed. */
MUST_CHECK enum status scaler_check(const struct scaler_rule *c, const struct scaler_state *s);
