/* Xid errors of a GPU: NVIDIA's driver reports them in the kernel's log, in lines such as
 *
 *     NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
 *
 * Counted are errors that a program alone does not cause: all but 13, 31, 43 and 45 (NVIDIA, "Xid
 * Errors"). The log begins with the host's start, and forgets old lines. */
#pragma once

#include <stdint.h>

/* Counts the errors in a log of the GPU with this PCI address, such as "0000:1b:00.0". */
int64_t xid_count(const char *log, const char *bus);

/* The same for this host's log. NAN if the process may not read it. */
double xid_of_host(const char *bus);
