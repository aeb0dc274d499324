/* Ranks find each other: the environment says who a process is, a TCP address where they meet. */
#include "comm/rendezvous.h"

#include "base/clock.h"
#include "base/stop.h"
#include "comm/comm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    VERSION = 1,
    RANKS_MAX = 65536,
    AGAIN_NS = 100000000, /* between tries to connect */
    HOST_MAX = 256
};
static const uint32_t MAGIC = 0x616d7073; /* "amps" */
static const double HELLO_S = 1;          /* what a stranger may cost */
static const double LOOK_S = 0.2;         /* between two looks for a request to stop */

/* --- the environment --- */

/* How launchers tell a process its rank. Several may have had a hand in it, the innermost is named
 * first. `mark` must be there too: Slurm sets SLURM_PROCID in a batch script as well, where there
 * is one process, and RANK without LOCAL_RANK, last, counts nodes with a process each. */
static const struct {
    const char *rank, *size, *mark;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_RANK", "PMI_SIZE", "PMI_RANK"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS"},
    {"RANK", "WORLD_SIZE", "RANK"},
};

static bool read_number(const char *text, int max, int *out)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || v < 0 || v > max)
        return false;
    *out = (int)v;
    return true;
}

enum status comm_place_find(const char *(*get)(const char *name), struct comm_place *p)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *rank = get(launchers[i].rank), *size = get(launchers[i].size);
        if (!rank || !size || !get(launchers[i].mark))
            continue;
        if (!read_number(size, RANKS_MAX, &p->size) || !read_number(rank, RANKS_MAX, &p->rank) ||
            p->rank >= p->size)
            return status_fail(STATUS_USAGE,
                               "the launcher says %s='%s' and %s='%s', which is no "
                               "rank among that many",
                               launchers[i].rank, rank, launchers[i].size, size);
        return STATUS_OK;
    }
    return status_fail(STATUS_USAGE,
                       "no launcher says which rank this process is; set RANK and WORLD_SIZE, or "
                       "start it with torchrun, srun or mpirun");
}

enum status comm_local_rank_find(const char *(*get)(const char *name), int *local_rank)
{
    /* The innermost launcher first, as above. */
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "MV2_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK", "SLURM_LOCALID"};
    *local_rank = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = get(names[i]);
        if (!text)
            continue;
        return read_number(text, RANKS_MAX, local_rank)
                   ? STATUS_OK
                   : status_fail(STATUS_USAGE, "the launcher says %s='%s', which is no rank",
                                 names[i], text);
    }
    return STATUS_OK;
}

/* --- sockets --- */

static double now_s(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Until something can be moved. */
static enum status await(int fd, short events, double timeout_s)
{
    struct pollfd p = {.fd = fd, .events = events};
    double end = now_s() + timeout_s;
    for (;;) {
        double left = timeout_s > 0 ? end - now_s() : 60;
        int n = left > 0 ? poll(&p, 1, (int)(left < 60 ? left * 1e3 + 1 : 60000)) : 0;
        if (n > 0)
            return STATUS_OK;
        if (n < 0 && errno != EINTR)
            return status_fail(STATUS_IO, "%s", strerror(errno));
        if (timeout_s > 0 && now_s() >= end)
            return status_fail(STATUS_LIBRARY, "nothing moved for %g s", timeout_s);
    }
}

enum status socket_put(int fd, const void *data, size_t bytes, double timeout_s)
{
    for (const char *at = data; bytes > 0;) {
        TRY(await(fd, POLLOUT, timeout_s));
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
        TRY(await(fd, POLLIN, timeout_s));
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

/* --- meeting --- */

/* The first words of a rank, all in network order. */
struct hello {
    uint32_t magic, version, rank, size;
};

static struct hello hello_of(int rank, int size)
{
    return (struct hello){htonl(MAGIC), htonl(VERSION), htonl((uint32_t)rank),
                          htonl((uint32_t)size)};
}

static enum status resolve(const char *address, bool passive, struct addrinfo **out)
{
    char host[HOST_MAX];
    int port;
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    if (length == 0 || length >= sizeof host || !read_number(colon + 1, 65535, &port) || port == 0)
        return status_fail(STATUS_USAGE, "--rendezvous '%s': give HOST:PORT", address);
    bool brackets = address[0] == '[' && address[length - 1] == ']'; /* of an IPv6 address */
    snprintf(host, sizeof host, "%.*s", (int)(length - 2 * brackets), address + brackets);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    int error = getaddrinfo(passive && !brackets ? NULL : host, colon + 1, &hints, out);
    if (error != 0)
        return status_fail(STATUS_USAGE, "--rendezvous '%s': %s", address, gai_strerror(error));
    return STATUS_OK;
}

static enum status listen_at(const char *address, int size, int *fd)
{
    struct addrinfo *list;
    int yes = 1, error = 0;
    *fd = -1;
    TRY(resolve(address, true, &list));
    for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) {
        *fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (*fd < 0)
            continue;
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(*fd, a->ai_addr, a->ai_addrlen) == 0 && listen(*fd, size) == 0)
            break;
        error = errno;
        close(*fd);
        *fd = -1;
    }
    freeaddrinfo(list);
    if (*fd < 0)
        return status_fail(STATUS_IO, "rank 0 cannot wait at '%s': %s", address, strerror(error));
    return STATUS_OK;
}

static void no_delay(int fd)
{
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* Whoever is no rank, or one that is here already, is turned away. */
static bool welcome(int fd, int size, int *peer)
{
    struct hello h, answer = hello_of(0, size);
    if (socket_get(fd, &h, sizeof h, HELLO_S) != STATUS_OK || ntohl(h.magic) != MAGIC ||
        ntohl(h.version) != VERSION || ntohl(h.size) != (uint32_t)size ||
        ntohl(h.rank) >= (uint32_t)size || ntohl(h.rank) == 0 || peer[ntohl(h.rank)] >= 0 ||
        socket_put(fd, &answer, sizeof answer, HELLO_S) != STATUS_OK)
        return false;
    no_delay(fd);
    peer[ntohl(h.rank)] = fd;
    return true;
}

static enum status gather(int listening, const char *address, int size, double timeout_s, int *peer)
{
    double end = now_s() + timeout_s;
    for (int here = 1; here < size;) {
        double left = timeout_s > 0 ? end - now_s() : 60;
        bool late = left <= 0;
        TRY(stop_check());
        enum status st =
            late ? STATUS_LIBRARY : await(listening, POLLIN, left < LOOK_S ? left : LOOK_S);
        if (late) {
            int absent = 1;
            while (absent < size - 1 && peer[absent] >= 0)
                absent++;
            return status_fail(STATUS_LIBRARY, "rank %d of %d did not reach '%s' within %g s",
                               absent, size, address, timeout_s);
        }
        int fd = st == STATUS_OK ? accept4(listening, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd >= 0 && welcome(fd, size, peer))
            here++;
        else if (fd >= 0)
            close(fd);
    }
    return STATUS_OK;
}

static int connect_once(const struct addrinfo *list)
{
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0)
            continue;
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
            return fd;
        close(fd);
    }
    return -1;
}

/* Rank 0 answers at once, unless it is busy with others. */
static enum status get_answer(int fd, struct hello *answer, double end, double timeout_s)
{
    while (await(fd, POLLIN, LOOK_S) != STATUS_OK) {
        TRY(stop_check());
        if (timeout_s > 0 && now_s() >= end)
            return status_fail(STATUS_LIBRARY, "no answer");
    }
    return socket_get(fd, answer, sizeof *answer, HELLO_S);
}

/* Rank 0 may not be there yet, or its host be slow to refuse. */
static enum status visit(const char *address, int rank, int size, double timeout_s, int *peer)
{
    struct addrinfo *list;
    const struct timespec again = {.tv_nsec = AGAIN_NS};
    struct hello own = hello_of(rank, size), answer;
    double end = now_s() + timeout_s;
    TRY(resolve(address, false, &list));
    for (;;) {
        int fd = connect_once(list);
        if (fd >= 0 && socket_put(fd, &own, sizeof own, HELLO_S) == STATUS_OK &&
            get_answer(fd, &answer, end, timeout_s) == STATUS_OK && answer.magic == own.magic &&
            answer.version == own.version && answer.size == own.size) {
            no_delay(fd);
            peer[0] = fd;
            break;
        }
        if (fd >= 0)
            close(fd);
        if ((timeout_s > 0 && now_s() >= end) || stop_requested())
            break;
        nanosleep(&again, NULL);
    }
    freeaddrinfo(list);
    if (peer[0] >= 0)
        return STATUS_OK;
    TRY(stop_check());
    return status_fail(STATUS_LIBRARY,
                       "rank %d of %d found no rank 0 of such a run at '%s' within %g s", rank,
                       size, address, timeout_s);
}

enum status rendezvous_meet(const char *address, int rank, int size, double timeout_s, int *peer)
{
    int listening;
    for (int i = 0; i < size; i++)
        peer[i] = -1;
    if (rank > 0)
        return visit(address, rank, size, timeout_s, peer);
    TRY(listen_at(address, size, &listening));
    enum status st = gather(listening, address, size, timeout_s, peer);
    close(listening);
    return st;
}
