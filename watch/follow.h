/* A live view of a run or a study. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct watch_follow {
    const char *dir;
    bool once;       /* show the current state, then return */
    bool ascii;      /* use only ASCII characters, except in names */
    double interval; /* seconds between two polls */
};

/* Shows the view on `out`, in place on a terminal, until the run ends or a signal asks to stop. */
MUST_CHECK enum status watch_follow(const struct watch_follow *c, FILE *out);
