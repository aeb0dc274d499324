/* Resolves addresses, connects sockets, and moves data. */
#include "comm/socket.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOST_MAX = 256 };

/* Waits until the socket can send or receive. */
static enum status wait_ready(int fd, short events, double timeout_s)
{
    struct pollfd p = {.fd = fd, .events = events};
    double end = clock_s() + timeout_s;
    for (;;) {
        double left = timeout_s > 0 ? end - clock_s() : 60;
        if (left <= 0)
            return status_fail(STATUS_LIBRARY, "no data moved for %g s", timeout_s);
        int n = poll(&p, 1, (int)(left < 60 ? left * 1e3 + 1 : 60000));
        if (n > 0)
            return STATUS_OK;
        if (n < 0 && errno != EINTR)
            return status_fail(STATUS_IO, "%s", strerror(errno));
    }
}

enum status socket_put(int fd, const void *data, size_t bytes, double timeout_s)
{
    for (const char *at = data; bytes > 0;) {
        TRY(wait_ready(fd, POLLOUT, timeout_s));
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return status_fail(STATUS_IO, "%s", strerror(errno));
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
    return STATUS_OK;
}

enum status socket_get(int fd, void *data, size_t bytes, double timeout_s)
{
    for (char *at = data; bytes > 0;) {
        TRY(wait_ready(fd, POLLIN, timeout_s));
        ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
        if (n == 0)
            return status_fail(STATUS_IO, "the connection was closed");
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return status_fail(STATUS_IO, "%s", strerror(errno));
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
    return STATUS_OK;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool is_port(const char *text)
{
    char *end;
    long port = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && port >= 1 && port <= 65535;
}

enum status socket_resolve(const char *address, struct addrinfo **list, bool *loopback)
{
    char host[HOST_MAX];
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    bool brackets = length > 2 && address[0] == '[' && address[length - 1] == ']';
    if (length == 0 || length >= sizeof host || !is_port(colon + 1) ||
        (!brackets && memchr(address, ':', length)))
        return status_fail(STATUS_USAGE, "--rendezvous '%s': give HOST:PORT, or [IPv6]:PORT",
                           address);
    snprintf(host, sizeof host, "%.*s", (int)(length - 2 * brackets), address + brackets);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | (brackets ? AI_NUMERICHOST : 0)};
    int error = getaddrinfo(host, colon + 1, &hints, list);
    if (error != 0)
        return status_fail(STATUS_USAGE, "--rendezvous '%s': %s", address, gai_strerror(error));
    *loopback = true;
    for (const struct addrinfo *a = *list; a; a = a->ai_next)
        *loopback = *loopback && is_loopback(a->ai_addr);
    return STATUS_OK;
}

/* Opens a socket that listens at the address `a`. On failure returns -1 and sets *error. */
static int listen_one(const struct addrinfo *a, int *error)
{
    int yes = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (a->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
            return fd;
    }
    *error = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

enum status socket_listen(const char *address, const struct addrinfo *list, int *fd, int *n)
{
    int error = 0;
    *n = 0;
    for (const struct addrinfo *a = list; a && *n < SOCKET_ADDRESSES_MAX; a = a->ai_next) {
        fd[*n] = listen_one(a, &error);
        if (fd[*n] >= 0)
            ++*n;
        else if (error == EADDRINUSE) /* ranks would connect to the process that listens there */
            break;
    }
    if (*n > 0 && error != EADDRINUSE)
        return STATUS_OK;
    while (*n > 0)
        close(fd[--*n]);
    return status_fail(STATUS_IO, "rank 0 cannot listen at '%s': %s", address, strerror(error));
}

static bool finish_connect(int fd, double timeout_s)
{
    int error = 0;
    socklen_t size = sizeof error;
    return errno == EINPROGRESS && wait_ready(fd, POLLOUT, timeout_s) == STATUS_OK &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

int socket_connect(const struct addrinfo *list, double timeout_s)
{
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || finish_connect(fd, timeout_s))
            return fd;
        close(fd);
    }
    return -1;
}

void socket_no_delay(int fd)
{
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}
