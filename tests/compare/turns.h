/* Programs that take turns of some milliseconds: one runs while the others are stopped. What slows
 * the machine down for longer than a turn then slows all of them alike. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct turn {
    pid_t pid;
    bool ended;
};

/* Starts a program (argv[0] is looked up in PATH), its standard output thrown away, and stops it at
 * once. It must be given to turns_end. */
MUST_CHECK enum status turn_begin(char *const *argv, struct turn *t);

/* Lets n programs run in their order, `slice` milliseconds each, round after round until all have
 * ended; with a slice of 0 each runs until it ends. One that ends with anything but exit code 0 is
 * an error. */
MUST_CHECK enum status turns_take(struct turn *t, int n, int64_t slice);

/* Kills those that have not ended. */
void turns_end(struct turn *t, int n);
