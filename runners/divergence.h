/* Inside runners/: what to tell the user when training has diverged.
 *
 * Whoever finds it (the loss, the loss scaler, a checkpoint about to be written) reports
 * STATUS_DIVERGED with what it found; precision and ways out are added here, once, at the end of
 * the run. */
#ifndef RUNNERS_DIVERGENCE_H
#define RUNNERS_DIVERGENCE_H

#include "runners/session.h"

/* STATUS_OK for a loss that is finite; `what` names it and where it arose. */
MUST_CHECK enum status divergence_check_loss(double loss, const char *what, ...) PRINTF_LIKE(2, 3);

/* Turns this thread's message, of STATUS_DIVERGED, into the one line that the user gets. */
MUST_CHECK enum status divergence_explain(const struct session *s);

#endif
