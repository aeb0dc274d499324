/* Sockets with time limits; and the secret of a job, with Nettle's functions. */
#include "base/clock.h"
#include "base/file.h"
#include "comm/control.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOST_MAX = 256 };

/* Waits until the socket can send or receive. */
static enum status wait_ready(int fd, short events, double timeout_s)
{
    struct pollfd p = {.fd = fd, .events = events};
    double end = clock_s() + timeout_s;
    for (double left = timeout_s; timeout_s <= 0 || left > 0; left = end - clock_s()) {
        int n = poll(&p, 1, timeout_s > 0 && left < 60 ? (int)(left * 1e3 + 1) : 60000);
        if (n > 0)
            return STATUS_OK;
        if (n < 0 && errno != EINTR)
            return status_fail(STATUS_IO, "%s", strerror(errno));
    }
    return status_fail(STATUS_LIBRARY, "no data moved for %g s", timeout_s);
}

/* Sends if `events` is POLLOUT, else receives. */
static enum status move(int fd, short events, char *at, size_t bytes, double timeout_s)
{
    while (bytes > 0) {
        TRY(wait_ready(fd, events, timeout_s));
        ssize_t n = events == POLLOUT ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                                      : recv(fd, at, bytes, MSG_DONTWAIT);
        if (n == 0)
            return status_fail(STATUS_IO, "the connection was closed");
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return status_fail(STATUS_IO, "%s", strerror(errno));
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return STATUS_OK;
}

unsigned socket_crc(unsigned crc, const void *data, size_t bytes)
{
    unsigned char *at = (unsigned char *)data; /* crc32_iscsi only reads it */
    for (crc = ~crc; bytes > INT_MAX; at += INT_MAX, bytes -= INT_MAX)
        crc = crc32_iscsi(at, INT_MAX, crc);
    return ~crc32_iscsi(at, (int)bytes, crc);
}

enum status socket_put(int fd, const void *data, size_t bytes, double timeout_s)
{
    unsigned crc = socket_crc(0, data, bytes);
    enum status st = move(fd, POLLOUT, (char *)data, bytes, timeout_s);
    if (st == STATUS_OK)
        st = move(fd, POLLOUT, (char *)&crc, sizeof crc, timeout_s);
    if (st != STATUS_OK) /* no later message may be taken for the rest of this one */
        shutdown(fd, SHUT_WR);
    return st;
}

enum status socket_get_plain(int fd, void *data, size_t bytes, double timeout_s)
{
    return move(fd, POLLIN, data, bytes, timeout_s);
}

enum status socket_get(int fd, void *data, size_t bytes, double timeout_s)
{
    return socket_get_rest(fd, data, 0, bytes, timeout_s);
}

enum status socket_get_rest(int fd, void *data, size_t have, size_t bytes, double timeout_s)
{
    unsigned crc;
    TRY(socket_get_plain(fd, (char *)data + have, bytes - have, timeout_s));
    TRY(socket_get_plain(fd, &crc, sizeof crc, timeout_s));
    bool same = crc == socket_crc(0, data, bytes);
    return same ? STATUS_OK : status_fail(STATUS_MISMATCH, SOCKET_CHANGED);
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
    bool later = error == EAI_NONAME || error == EAI_AGAIN || error == EAI_NODATA;
    if (error != 0)
        return status_fail(later && !brackets ? STATUS_IO : STATUS_USAGE,
                           "--rendezvous '%s': cannot look up host '%s': %s", address, host,
                           error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    *loopback = true;
    for (const struct addrinfo *a = *list; a; a = a->ai_next)
        *loopback = *loopback && is_loopback(a->ai_addr);
    return STATUS_OK;
}

/* All messages are small, so TCP_NODELAY sends them at once. Accepted sockets inherit it. */
static int open_socket(int family)
{
    int yes = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

/* Opens a socket that listens at the address `a`. On failure returns -1 and sets *error. */
static int listen_one(const struct sockaddr *a, socklen_t size, int *error)
{
    int yes = 1, fd = open_socket(a->sa_family);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (a->sa_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        if (bind(fd, a, size) == 0 && listen(fd, SOMAXCONN) == 0)
            return fd;
    }
    *error = errno;
    fd_close(&fd);
    return -1;
}

enum status socket_listen(const char *address, const struct addrinfo *list, int *fd, int *n)
{
    int error = 0;
    *n = 0;
    for (const struct addrinfo *a = list; a && *n < SOCKET_ADDRESSES_MAX; a = a->ai_next) {
        fd[*n] = listen_one(a->ai_addr, a->ai_addrlen, &error);
        if (fd[*n] >= 0)
            ++*n;
        else if (error == EADDRINUSE) /* ranks would connect to the process that listens there */
            break;
    }
    if (*n > 0 && error != EADDRINUSE)
        return STATUS_OK;
    while (*n > 0)
        close(fd[--*n]);
    return status_fail(STATUS_IO, "rank 0 cannot listen at '%s': %s%s", address, strerror(error),
                       error == EADDRINUSE ? "; give another port by --rendezvous or --master-port"
                                           : "");
}

enum status socket_listen_free(const struct sockaddr *at, int *fd, char text[SOCKET_TEXT_MAX])
{
    struct sockaddr_in6 own = {0}; /* or a struct sockaddr_in, with the port in the same place */
    struct sockaddr *a = (struct sockaddr *)&own;
    bool v4 = at->sa_family == AF_INET;
    socklen_t size = v4 ? sizeof(struct sockaddr_in) : sizeof own;
    char host[64], port[8];
    int error;
    memcpy(a, at, size);
    own.sin6_port = 0;
    *fd = listen_one(a, size, &error);
    if (*fd < 0)
        return status_fail(STATUS_IO, "cannot listen at a free port: %s", strerror(error));
    if (getsockname(*fd, a, &size) == 0 &&
        getnameinfo(a, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        snprintf(text, SOCKET_TEXT_MAX, v4 ? "%s:%s" : "[%s]:%s", host, port);
        return STATUS_OK;
    }
    fd_close(fd);
    return status_fail(STATUS_IO, "cannot find the port of a socket: %s", strerror(errno));
}

int socket_connect(const struct addrinfo *a, double timeout_s)
{
    int error = 0, fd = open_socket(a->ai_family);
    socklen_t size = sizeof error;
    if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && wait_ready(fd, POLLOUT, timeout_s) == STATUS_OK &&
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0))
        return fd;
    close(fd);
    return -1;
}

/* --- the secret --- */

/* Accepts the `size` bytes in s->bytes, which `source` gives, as the secret. */
static enum status accept_secret(struct secret *s, const char *source, size_t size)
{
    if (size < SECRET_MIN || size > SECRET_MAX)
        return status_fail(STATUS_USAGE,
                           "the secret in %s has %zu bytes; give %d to %d, for instance the output "
                           "of 'openssl rand -hex 32'",
                           source, size, SECRET_MIN, SECRET_MAX);
    s->size = size;
    return STATUS_OK;
}

static enum status read_private(int fd, const char *file, struct secret *s)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return status_fail(STATUS_IO, "--secret-file '%s': %s", file, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return status_fail(STATUS_USAGE, "--secret-file '%s': not a regular file", file);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return status_fail(STATUS_USAGE, "--secret-file '%s': belongs to another user", file);
    if (info.st_mode & 077)
        return status_fail(STATUS_USAGE,
                           "--secret-file '%s': other users have access (mode %03o); run 'chmod "
                           "600' on it",
                           file, (unsigned)(info.st_mode & 0777));
    ssize_t n = read(fd, s->bytes, sizeof s->bytes);
    if (n < 0)
        return status_fail(STATUS_IO, "--secret-file '%s': %s", file, strerror(errno));
    n -= n > 0 && s->bytes[n - 1] == '\n';
    return accept_secret(s, "--secret-file", (size_t)n);
}

enum status secret_read(const char *file, struct secret *s)
{
    const char *text = getenv(SECRET_VARIABLE);
    s->size = 0;
    if (!file && text)
        memcpy(s->bytes, text, strnlen(text, sizeof s->bytes));
    if (!file)
        return text ? accept_secret(s, SECRET_VARIABLE, strlen(text)) : STATUS_OK;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return status_fail(STATUS_USAGE, "--secret-file '%s': %s", file, strerror(errno));
    enum status st = read_private(fd, file, s);
    close(fd);
    return st;
}

void secret_clear(struct secret *s)
{
    explicit_bzero(s, sizeof *s);
}

enum status nonce_make(unsigned char nonce[NONCE_BYTES])
{
    if (getrandom(nonce, NONCE_BYTES, 0) == NONCE_BYTES)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot get random bytes: %s", strerror(errno));
}

enum status nonce_text(char text[NONCE_TEXT_MAX])
{
    unsigned char bytes[NONCE_BYTES];
    TRY(nonce_make(bytes));
    for (size_t i = 0; i < NONCE_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

void secret_proof(const struct secret *s, const char *label, const void *data, size_t size,
                  unsigned char proof[DIGEST_BYTES])
{
    struct hmac_sha256_ctx hmac;
    hmac_sha256_set_key(&hmac, s->size, s->bytes);
    hmac_sha256_update(&hmac, strlen(label) + 1, (const uint8_t *)label);
    hmac_sha256_update(&hmac, size, data);
    hmac_sha256_digest(&hmac, DIGEST_BYTES, proof);
    explicit_bzero(&hmac, sizeof hmac);
}

bool digest_equal(const unsigned char a[DIGEST_BYTES], const unsigned char b[DIGEST_BYTES])
{
    return memeql_sec(a, b, DIGEST_BYTES) != 0;
}

void digest_text(const char *text, unsigned char digest[DIGEST_BYTES])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, strlen(text), (const uint8_t *)text);
    sha256_digest(&sha, DIGEST_BYTES, digest);
}
