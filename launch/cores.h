/* Inside launch/: a rank's share of its host's cores. */
#pragma once

#include "base/launcher.h"

#include <sched.h>

/* The number of cores of each rank, at least 1, if the ranks on the host share `cores` cores
 * equally. One rank gets all cores if the number of ranks on the host is not known. */
int cores_share(const struct launcher_place *place, int cores);

/* Reduces `*set`, the CPUs that the process may run on, to the rank's share. All CPUs are ordered
 * by socket and core, and a share is a range of this order. The hardware threads of a core, and the
 * cores of a socket, are thus in the same share as far as possible. The order uses /sys if it
 * describes the CPUs. */
void cores_bind(const struct launcher_place *place, cpu_set_t *set);
