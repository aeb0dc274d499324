/* Fuzzes the rendezvous. The input is what an unknown process sends to rank 0, or what it sends to
 * rank 2 in place of rank 0. The functions that read messages are static, so this file includes
 * their source. Nonces are constant, not random. An input can therefore contain a valid proof, as
 * inputs in the corpus do. */
#include "tests/fuzz/fuzz.h"

#include "comm/control.h"

#include <string.h>

static enum status constant_nonce(unsigned char nonce[NONCE_BYTES])
{
    memset(nonce, 7, NONCE_BYTES);
    return STATUS_OK;
}

#define nonce_make constant_nonce
#include "comm/control.c"
#undef nonce_make

#include <stdlib.h>

static const struct secret secret = {.size = 20, .bytes = "a secret of the fuzz"};
static const struct rendezvous_config base = {
    .address = "127.0.0.1:1", .size = 3, .timeout_s = 1, .job = "fuzz", .secret = &secret};

/* Returns a socket from which the input can be read, followed by the end of the connection. */
static int stranger(const uint8_t *data, size_t size, int *other)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) != 0 ||
        (size > 0 && send(fd[1], data, size, MSG_NOSIGNAL) != (ssize_t)size) ||
        shutdown(fd[1], SHUT_WR) != 0)
        abort();
    *other = fd[1];
    return fd[0];
}

/* Rank 0 reads the input. Rank 1 has already connected. */
static void first(const uint8_t *data, size_t size)
{
    static struct gathering g;
    int other, peer[3] = {-1, 1000, -1};
    g = (struct gathering){.config = &base, .peer = peer, .here = 2};
    digest_text(base.job, g.job);
    g.pending[g.n++] = (struct pending){.fd = stranger(data, size, &other), .got = HELLO};
    while (g.n > 0)
        read_pending(&g, 0);
    if (peer[2] >= 0)
        close(peer[2]);
    if ((peer[2] >= 0) != (g.here == 3))
        abort();
    close(other);
}

/* Rank 2 reads the input from a process that pretends to be rank 0. */
static void second(const uint8_t *data, size_t size)
{
    struct rendezvous_config c = base;
    int other;
    c.rank = 2;
    int fd = stranger(data, size, &other);
    enum status st = introduce(&c, fd, 1e300);
    if (st == STATUS_LIBRARY)
        fuzz_ok(st);
    close(fd);
    close(other);
}

/* The first byte selects the rank that reads the rest: rank 0 if it is 'r', else rank 2. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 12)
        return 0;
    if (data[0] == 'r')
        first(data + 1, size - 1);
    else
        second(data + 1, size - 1);
    return 0;
}
