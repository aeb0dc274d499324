/* A run as lines of text: how fast it is, where a step's time goes, what it has learnt, how long it
 * will take. */
#ifndef WATCH_VIEW_H
#define WATCH_VIEW_H

#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

struct view_options {
    int width;      /* columns; no line is longer. At least VIEW_MIN_WIDTH */
    bool ascii;     /* no character beyond ASCII, but for names */
    double quiet_s; /* since the last record */
};

enum { VIEW_MIN_WIDTH = 40 };

/* Writes what `run`'s records say; `run` may hold its latest steps alone (results/follow.h).
 * STATUS_DATA for times beyond all measure. */
MUST_CHECK enum status view_run(FILE *out, const struct run *run, const struct view_options *o);
#endif
