/* Shows a run as lines of text: its throughput, the parts of a step, loss and accuracy, the time
 * left. */
#pragma once

#include "results/run.h"
#include "watch/draw.h"

/* Writes a view of `run`'s records; `run` may have only its latest steps (results/follow.h).
 * STATUS_DATA for times out of range. */
MUST_CHECK enum status view_run(FILE *out, const struct run *run, const struct view_options *o);

/* Whether the run is over: complete, diverged or failed. A run that ended by a signal, a lost rank
 * or a kill is not over, because it may be resumed. */
bool view_is_over(const struct run *run);
