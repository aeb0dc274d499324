/* Counts Xid errors in the kernel's log. */
#include "telemetry/xid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

/* Actions of klogctl (syslog(2)). */
enum { READ_ALL = 3, SIZE_BUFFER = 10 };

int64_t xid_count(const char *log, const char *bus)
{
    static const char prefix[] = "NVRM: Xid (PCI:";
    unsigned domain, slot, device, d, s, v, xid;
    int64_t n = 0;
    if (sscanf(bus, "%x:%x:%x", &domain, &slot, &device) != 3)
        return 0;
    for (const char *at = log; (at = strstr(at, prefix)); at += sizeof prefix - 1)
        n += sscanf(at + sizeof prefix - 1, "%x:%x:%x): %u", &d, &s, &v, &xid) == 4 &&
             d == domain && s == slot && v == device && xid != 13 && xid != 31 && xid != 43 &&
             xid != 45;
    return n;
}

double xid_of_host(const char *bus)
{
    int size = klogctl(SIZE_BUFFER, NULL, 0);
    char *log = size > 0 ? calloc(1, (size_t)size + 1) : NULL;
    double n = log && klogctl(READ_ALL, log, size) >= 0 ? (double)xid_count(log, bus) : NAN;
    free(log);
    return n;
}
