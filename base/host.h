/* Reads facts about this machine from the system. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#include <stddef.h>

/* Cores that this process may run on, at least 1. */
int host_cores(void);

/* "Intel(R) Xeon(R) ..."; "unknown processor" where the system has no name. */
void host_cpu_name(char *out, size_t size);

/* Finds a TCP port that no process uses, on the loopback address or on all addresses. Another
 * process may take the port before the caller does. */
MUST_CHECK enum status host_free_port(bool loopback, int *port);
