/* Programs that take turns of some milliseconds: one runs while the others are stopped. A
 * disturbance of the machine that lasts longer than a turn then slows all of them equally. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct turn {
    pid_t pid;
    bool ended;
};

/* Starts a program (argv[0] is looked up in PATH), discards its standard output, and stops it at
 * once. The caller must pass `t` to turns_end. */
MUST_CHECK enum status turn_begin(char *const *argv, struct turn *t);

/* Lets n programs run in turn, `slice` milliseconds each, until all have ended; with a slice of 0
 * each program runs until it ends. An exit code other than 0 is an error. */
MUST_CHECK enum status turns_take(struct turn *t, int n, int64_t slice);

/* Kills the programs that have not ended. */
void turns_end(struct turn *t, int n);
