/* Which rank a process is, and its share of the host's cores. */
#ifndef LAUNCH_PLACE_H
#define LAUNCH_PLACE_H

#include "base/status.h"

#include <sched.h>

struct launch_place {
    int rank;       /* in the job */
    int local_rank; /* on this host */
    int local_size; /* ranks on this host */
};

/* Reads what Open MPI, MPICH's Hydra, PMIx or Slurm has put into the environment ("NAME=value",
 * ended by NULL), in this order: a job's steps may start jobs of another kind. Where only the rank
 * is known, the host counts as the rank's own. STATUS_USAGE where there is no rank. */
MUST_CHECK enum status launch_place_read(char *const *environment, struct launch_place *place);

/* Cores of `cores` that each of the host's ranks gets: equal shares, and at least 1. */
int launch_place_share(const struct launch_place *place, int cores);

/* Keeps of `*set`, the CPUs that the process may run on, the rank's share: neighbours, so that the
 * threads of a core and the cores of a socket stay together as far as the system tells. */
void launch_place_bind(const struct launch_place *place, cpu_set_t *set);
#endif
