/* Reads facts about this machine from the system. */
#include "base/host.h"

#include "base/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int host_affinity(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

/* Returns the limit that the files of one control group set; INFINITY without a limit or files.
 * Version 2 has "QUOTA PERIOD" or "max PERIOD" in one file, version 1 two files, with a quota of -1
 * for no limit. */
static double group_quota(const char *group)
{
    static const char *const files[] = {"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"};
    char path[PATH_MAX], line[3][64] = {"", "", ""};
    double quota, period;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", group, files[i]);
        file_first_line(path, line[i], sizeof line[i]);
    }
    if (sscanf(line[0], "%lf %lf", &quota, &period) != 2) {
        quota = strtod(line[1], NULL);
        period = strtod(line[2], NULL);
    }
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* Calls `visit` with the folder of each control group that limits the CPUs of this process: its own
 * group, then those around it. */
static void each_group(const char *root, void (*visit)(const char *group, double *value),
                       double *value)
{
    char line[PATH_MAX], group[2 * PATH_MAX];
    snprintf(group, sizeof group, "%s/proc/self/cgroup", root);
    FILE *in = fopen(group, "re");
    while (in && fgets(line, sizeof line, in)) { /* "NUMBER:CONTROLLERS:/PATH" */
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *list = *path++ = ',';
        path[strcspn(path, "\n")] = '\0';
        const char *cpu = strstr(list, ",cpu,");
        bool second = path == list + 2; /* version 2 has one group for all controllers */
        if (!second && (!cpu || cpu >= path))
            continue;
        int top = snprintf(group, sizeof group, "%s/sys/fs/cgroup%s", root, second ? "" : "/cpu");
        snprintf(group + top, sizeof group - (size_t)top, "%s", strcmp(path, "/") == 0 ? "" : path);
        for (char *end = group + strlen(group); end; end = strrchr(group + top, '/')) {
            *end = '\0';
            visit(group, value);
        }
    }
    if (in)
        fclose(in);
}

static void lower_quota(const char *group, double *least)
{
    *least = fmin(*least, group_quota(group));
}

double host_quota(const char *root)
{
    double least = INFINITY;
    each_group(root, lower_quota, &least);
    return least;
}

/* Version 2 counts microseconds as "throttled_usec", version 1 nanoseconds as "throttled_time". */
static void add_throttled(const char *group, double *sum)
{
    char path[2 * PATH_MAX + 16], count[128];
    snprintf(path, sizeof path, "%s/cpu.stat", group);
    if (file_find_line(path, "throttled_usec ", count, sizeof count))
        *sum += 1e-6 * strtod(count, NULL);
    else if (file_find_line(path, "throttled_time ", count, sizeof count))
        *sum += 1e-9 * strtod(count, NULL);
}

double host_throttled_s(const char *root)
{
    double sum = 0;
    each_group(root, add_throttled, &sum);
    return sum;
}

int host_cores_within(const char *root)
{
    return (int)fmin(host_affinity(), ceil(host_quota(root)));
}

int host_cores(void)
{
    return host_cores_within("");
}

bool host_oversubscribed(int threads, char *out, size_t size)
{
    int cores = host_affinity();
    double quota = host_quota("");
    if (threads <= host_cores())
        return false;
    if (quota < cores)
        snprintf(out, size, "%d threads on %g CPUs of the control group's quota", threads, quota);
    else
        snprintf(out, size, "%d threads on %d usable core%s", threads, cores,
                 cores == 1 ? "" : "s");
    return true;
}

void host_cpu_name(char *out, size_t size)
{
    char line[512];
    bool known = file_find_line("/proc/cpuinfo", "model name\t: ", line, sizeof line);
    snprintf(out, size, "%s", known ? line : "unknown processor");
}

enum status host_free_port(bool loopback, int *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY)};
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof in) == 0 &&
                 getsockname(fd, (struct sockaddr *)&in, &size) == 0;
    int error = errno;
    fd_close(&fd);
    *port = ntohs(in.sin_port);
    return found ? STATUS_OK
                 : status_fail(STATUS_IO, "cannot find a free port: %s", strerror(error));
}
