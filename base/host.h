/* Reads facts about this machine from the system. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#include <stddef.h>

/* The number of cores that this process may run on, at least 1. */
int host_affinity(void);

/* The number of CPUs whose time the control groups of this process allow, such as 1.5: the lowest
 * limit of its group and of the groups around it, of version 1 and 2; INFINITY without a limit. The
 * files are read below `root`, "" for those of the system. */
double host_quota(const char *root);

/* The processor time, in seconds, for which such limits have stopped the processes of these groups
 * since the groups began; each stopped processor counts. 0 without a limit. */
double host_throttled_s(const char *root);

/* The default number of threads: host_affinity(), but no more than host_quota(root), rounded up.
 * host_cores reads the system's files. */
int host_cores_within(const char *root);
int host_cores(void);

/* Returns whether `threads` compute threads are more than host_cores(). If so, writes to `out`
 * "16 threads on 2 usable cores", or "4 threads on 1.5 CPUs of the control group's quota". */
bool host_oversubscribed(int threads, char *out, size_t size);

/* Writes the processor's name, such as "Intel(R) Xeon(R) ...", or "unknown processor" if the system
 * gives no name. */
void host_cpu_name(char *out, size_t size);

/* Finds a TCP port that no process uses, on the loopback address or on all addresses. Another
 * process may bind the port before the caller does. */
MUST_CHECK enum status host_free_port(bool loopback, int *port);
