/* Measuring again what looks like a regression, before it is called one.
 *
 * A command is run for each repeat of each cell with a regression. It is split into words at blanks
 * and started without a shell; in its words {out} becomes the folder that the run must leave its
 * record in, {name} the cell's name, with what is no letter, digit, dot or dash as '-', and {side}
 * "base" or "new". Where {side} is among them both sides are run again, in turns; else the new one
 * alone, which is held against the same base as before. */
#ifndef COMPARE_CONFIRM_H
#define COMPARE_CONFIRM_H

#include "compare/compare.h"

#include <stdio.h>

enum { CONFIRM_WORDS_MAX = 256 };

struct compare_confirm {
    const char *command;
    const char *dir;   /* of the runs, "DIR/NAME/SIDE/r001"; nothing may be there yet */
    char *const *base; /* (n_base) as given to compare_compare, or NULL */
    int n_base;
    char *const *new; /* (n_new) that were suspicious */
    int n_new;
    const char *history; /* as given to compare_compare_history, or NULL */
    int64_t last;
};

/* Runs as many repeats as the cell's new side had, and judges them by the same configuration. A
 * regression becomes COMPARE_UNCONFIRMED when it was judged again and is none. What was measured
 * again is printed to `out`. STATUS_USAGE for a command without {out}; STATUS_DATA when a run
 * fails, or when what it leaves cannot be judged. */
MUST_CHECK enum status compare_confirm(const struct compare_confirm *c,
                                       const struct compare_config *config,
                                       struct compare_report *report, FILE *out);
#endif
