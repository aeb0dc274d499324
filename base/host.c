/* Reads facts about this machine from the system. */
#include "base/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

enum status host_free_port(bool loopback, int *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY)};
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof in) == 0 &&
                 getsockname(fd, (struct sockaddr *)&in, &size) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    *port = ntohs(in.sin_port);
    return found ? STATUS_OK
                 : status_fail(STATUS_IO, "cannot find a free port: %s", strerror(error));
}
