/* Facts of this machine, from the system. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stddef.h>

/* Cores that this process may run on, at least 1. */
int host_cores(void);

/* "Intel(R) Xeon(R) ..." from the system; "unknown processor" where it does not say. */
void host_cpu_name(char *out, size_t size);
#endif
