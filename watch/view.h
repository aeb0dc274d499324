/* Shows a run as lines of text: its throughput, the parts of a step, loss and accuracy, the time
 * left. */
#pragma once

#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

struct view_options {
    int width;      /* maximum number of columns of a line; at least VIEW_MIN_WIDTH */
    bool ascii;     /* use only ASCII characters, except in names */
    double quiet_s; /* seconds since the last record */
};

enum { VIEW_MIN_WIDTH = 40 };

/* Writes a line with a newline. A line that is too wide is cut after a space, so that no number
 * loses digits, and ends with an ellipsis. Text of unknown origin must have been cleaned
 * (base/text.h). */
void draw_line(FILE *out, const struct view_options *o, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Size in bytes of a buffer for the text of a line. */
enum { DRAW_MAX = 1024 };

/* Writes a view of `run`'s records; `run` may have only its latest steps (results/follow.h).
 * STATUS_DATA for times out of range. */
MUST_CHECK enum status view_run(FILE *out, const struct run *run, const struct view_options *o);

/* Whether the run is over: complete, diverged or failed. A run that ended by a signal, a lost rank
 * or a kill is not over, because it may be resumed. */
bool view_is_over(const struct run *run);
