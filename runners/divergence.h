/* Internal to runners/: the message when training has diverged.
 *
 * The loss, the loss scale and the values to be written to a checkpoint are checked. A check that
 * detects divergence fails with STATUS_DIVERGED. When the run ends, divergence_explain adds to the
 * message the precision and the flags that the user can change. */
#pragma once

#include "runners/session.h"

/* Returns STATUS_OK for a finite loss, else STATUS_DIVERGED. `what` (printf) names the loss in the
 * message. */
MUST_CHECK enum status divergence_check_loss(double loss, const char *what, ...) PRINTF_LIKE(2, 3);

/* Adds to this thread's message of STATUS_DIVERGED the precision, and the flags that the user can
 * change. The message remains one line. */
MUST_CHECK enum status divergence_explain(const struct session *s);
