/* Measures a suspected regression again before it is reported.
 *
 * For each cell with a regression, a command is run once for each repeat. It is split into words at
 * blanks and started without a shell. {out} is replaced by the folder for the record of the run,
 * {side} by "base" or "new", and {name} by the name of the cell, in which all characters but
 * letters, digits, dots and dashes become '-'. If the command has {side}, both sides are run again,
 * alternating. Otherwise only the new side is run, and it is compared with the same base as
 * before. */
#pragma once

#include "compare/compare.h"

#include <stdio.h>

enum { CONFIRM_WORDS_MAX = 256 };

struct compare_confirm {
    const char *command;
    const char *dir;   /* new folder for the runs, "DIR/NAME/SIDE/r001"; must not exist */
    char *const *base; /* (n_base) as given to compare_compare, or NULL */
    int n_base;
    char *const *new; /* (n_new) folders of the suspicious runs */
    int n_new;
    const char *history; /* history as given to compare_compare_history, or NULL */
    int64_t last;
};

/* Runs as many repeats as the new side of the cell had, and judges them with the same
 * `compare_config`. A regression becomes COMPARE_UNCONFIRMED if the second comparison excludes it,
 * and COMPARE_INCONCLUSIVE if the second comparison is inconclusive. The second comparison is
 * printed to `out`. STATUS_USAGE if the command has no {out}, or if `dir` exists. STATUS_DATA if a
 * run fails, or if the record of a run cannot be judged. */
MUST_CHECK enum status compare_confirm(const struct compare_confirm *c,
                                       const struct compare_config *config,
                                       struct compare_report *report, FILE *out);
