/* Inside launch/: a rank's share of its host's cores. */
#pragma once

#include "base/launcher.h"

#include <sched.h>

/* The number of cores that each rank gets if the host's `cores` are divided equally, at least 1. If
 * the number of ranks on the host is not known, one rank gets all cores. */
int cores_share(const struct launcher_place *place, int cores);

/* Reduces `*set`, the CPUs that the process may run on, to the rank's share. A share consists of
 * CPUs that are adjacent when all CPUs are ordered by socket and core, so that the hardware threads
 * of a core and the cores of a socket stay together if /sys describes them. */
void cores_bind(const struct launcher_place *place, cpu_set_t *set);
