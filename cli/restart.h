/* Beginning a run again in a new process, where this one has lost its device. */
#ifndef CLI_RESTART_H
#define CLI_RESTART_H

#include "runners/ladder.h"

/* The falls of the process that this one follows, if it does; else a ladder of none. */
void restart_load(struct ladder *l);

/* Replaces this process by the same command, which finds these falls. Returns where that is not
 * possible. */
void restart_process(const struct ladder *l);

#endif
