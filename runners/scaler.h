/* Dynamic loss scaling: the state machine of Apex and of torch.amp.GradScaler.
 *
 *   start at 65536; after a step whose gradients hold an infinity or NaN: scale *= backoff (1/2),
 *   the step is skipped and the count of clean steps starts again; after growth_interval (2000)
 *   clean steps in a row: scale *= growth (2), at most max (2^24).
 *
 * A floor ends what otherwise goes on for ever without a word: when the scale would fall below
 * `min`, training has diverged, and scaler_update says so. */
#ifndef RUNNERS_SCALER_H
#define RUNNERS_SCALER_H

#include "base/status.h"
#include "kernels/scaler.h"

struct scaler_config {
    bool dynamic;     /* else the scale stays at `init` */
    double init;      /* 65536; a static scale is this */
    double growth;    /* 2 */
    double backoff;   /* 0.5 */
    int64_t interval; /* 2000 */
    double max;       /* 2^24 */
    double min;       /* 1 */
};

struct scaler_config scaler_config_default(void);
struct scaler_state scaler_begin(const struct scaler_config *c);

/* What moves the scale on, for devices that keep it themselves. */
struct scaler_rule scaler_rule(const struct scaler_config *c);

/* After a step: found_inf says whether its gradients overflowed. STATUS_DIVERGED, with a message,
 * when the scale falls below the floor. With a static scale the step is skipped and counted
 * all the same, and the scale stays: an infinite gradient is of no use to any weight. */
MUST_CHECK enum status scaler_update(const struct scaler_config *c, struct scaler_state *s,
                                     bool found_inf);

/* The same for a state that a device has moved on: STATUS_DIVERGED where it collapsed. */
MUST_CHECK enum status scaler_check(const struct scaler_config *c, const struct scaler_state *s);
#endif
