/* Watching a run or a study from its folder alone, on any machine that sees it. */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct watch;

struct watch_options {
    int width, height; /* of the screen; height 0: no bound */
    bool ascii;
};

/* A folder that holds neither a run nor a study is STATUS_DATA. */
MUST_CHECK enum status watch_open(const char *dir, struct watch **out);

/* Reads what has come since; *over when the run has ended, or nothing of a study is left to be
 * run. A failure may pass (a file that is being moved); the next call reads everything anew. */
MUST_CHECK enum status watch_poll(struct watch *w, bool *over);

/* Writes what was read last, as lines that fit. Call it after watch_open, or a watch_poll that did
 * not fail. */
MUST_CHECK enum status watch_view(const struct watch *w, const struct watch_options *o, FILE *out);

void watch_close(struct watch *w); /* NULL is fine */
#endif
