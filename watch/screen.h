/* A terminal that is redrawn repeatedly.
 *
 * The view uses the terminal's alternate screen: at the end of the view, the terminal shows its
 * previous content again. SIGINT, SIGTERM and SIGHUP request the end. SIGTSTP restores the terminal
 * before the process stops. A change of the window's size ends a wait early. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct screen {
    FILE *out;
    bool terminal; /* `out` is a terminal that can be redrawn; if not, only the signals are handled
                    */
    int signals;   /* descriptor from which signals are read */
};

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH, which stay blocked after screen_close. No
 * other code may wait for them. */
MUST_CHECK enum status screen_open(FILE *out, struct screen *s);
void screen_close(struct screen *s); /* also after screen_open failed */

/* The columns and rows of the terminal; 80 and 0 if there is no terminal. */
void screen_size(const struct screen *s, int *width, int *height);

/* Replaces the lines that are shown. */
void screen_show(struct screen *s, const char *text);

/* Waits for `seconds` seconds, or until the window's size changes or a signal requests the end.
 * Sets *ended to whether a signal requested the end. */
MUST_CHECK enum status screen_wait(struct screen *s, double seconds, bool *ended);
