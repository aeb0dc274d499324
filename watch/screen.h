/* A terminal that is drawn again and again.
 *
 * The view has the terminal's second screen to itself, so that what was there before comes back
 * afterwards. SIGINT, SIGTERM and SIGHUP are taken as requests to end, SIGTSTP puts the terminal in
 * order before the process stops, and a change of the window's size ends a wait early. */
#ifndef WATCH_SCREEN_H
#define WATCH_SCREEN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct screen {
    FILE *out;
    bool terminal; /* `out` is one; else nothing of the above happens but for the signals */
    int signals;   /* a descriptor from which they are read */
};

/* Signals must not have been waited for elsewhere; they stay blocked afterwards. */
MUST_CHECK enum status screen_open(FILE *out, struct screen *s);
void screen_close(struct screen *s); /* fine on one that failed to open */

/* Columns and rows of the terminal; 80 and 0 where there is none. */
void screen_size(const struct screen *s, int *width, int *height);

/* Puts lines in place of those before. */
void screen_show(struct screen *s, const char *text);

/* Waits for some seconds, or until the window changes; *ended when it should end. */
MUST_CHECK enum status screen_wait(struct screen *s, double seconds, bool *ended);
#endif
