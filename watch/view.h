/* Shows a run as lines of text: its throughput, the parts of a step, loss and accuracy, the time
 * left. */
#pragma once

#include "results/run.h"
#include "watch/draw.h"

/* Writes a view of `run`'s records; `run` may have only its latest steps (results/follow.h).
 * STATUS_DATA for times out of range. */
MUST_CHECK enum status view_run(FILE *out, const struct run *run, const struct view_options *o);

/* Has the run ended finally? After a signal, a lost rank or a kill it may be resumed. */
bool view_is_over(const struct run *run);
