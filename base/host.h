/* Reads facts about this machine from the system. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#include <stddef.h>

/* The number of cores that this process may run on, at least 1. */
int host_cores(void);

/* Writes the processor's name, such as "Intel(R) Xeon(R) ...", or "unknown processor" if the system
 * gives no name. */
void host_cpu_name(char *out, size_t size);

/* Finds a TCP port that no process uses, on the loopback address or on all addresses. Another
 * process may bind the port before the caller does. */
MUST_CHECK enum status host_free_port(bool loopback, int *port);
