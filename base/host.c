/* Facts of this machine, from the system. */
#include "base/host.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

int host_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

void host_cpu_name(char *out, size_t size)
{
    snprintf(out, size, "unknown processor");
    FILE *in = fopen("/proc/cpuinfo", "r");
    if (!in)
        return;
    char line[512];
    while (fgets(line, sizeof line, in)) {
        char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (value) {
            value[strcspn(value, "\n")] = '\0';
            snprintf(out, size, "%s", value + 2);
            break;
        }
    }
    fclose(in);
}
