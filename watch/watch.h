/* Watching a run or a study by reading its folder, from any machine that can read the folder. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct watch;

struct watch_options {
    int width, height; /* columns and rows of the screen; height 0: not limited */
    bool ascii;
};

/* Opens the folder of a run or a study. STATUS_DATA if it contains neither. */
MUST_CHECK enum status watch_open(const char *dir, struct watch **out);

/* Reads new records; *over becomes true when the run has ended, or when all runs of the study have
 * ended. A failure may be temporary (a file that is being moved); the next call reads everything
 * again. */
MUST_CHECK enum status watch_poll(struct watch *w, bool *over);

/* Writes the state that was last read, as lines that fit the width. Call it after watch_open or a
 * successful watch_poll. */
MUST_CHECK enum status watch_view(const struct watch *w, const struct watch_options *o, FILE *out);

void watch_close(struct watch *w); /* NULL is fine */

struct watch_follow {
    const char *dir;
    bool once;       /* show the current state, then return */
    bool ascii;      /* use only ASCII characters, except in names */
    double interval; /* seconds between two polls */
};

/* Shows the view on `out`, in place on a terminal, until the run ends or a signal asks to stop. */
MUST_CHECK enum status watch_follow(const struct watch_follow *c, FILE *out);
