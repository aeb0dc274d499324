/* Inside launch/: a rank's share of its host's cores. */
#pragma once

#include "base/launcher.h"

#include <sched.h>

/* The number of cores that each rank gets if the host's `cores` are divided equally, at least 1. If
 * the number of ranks on the host is not known, it counts as one. */
int cores_share(const struct launcher_place *place, int cores);

/* Reduces `*set`, the CPUs that the process may run on, to the rank's share. A share is adjacent
 * CPUs, so that hardware threads of a core and cores of a socket stay together where /sys describes
 * them. */
void cores_bind(const struct launcher_place *place, cpu_set_t *set);
