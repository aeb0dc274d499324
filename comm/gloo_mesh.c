/* Connects every pair of ranks of a job. All ranks are already connected to rank 0. Each rank first
 * waits for the connections of all lower ranks, and then connects to the higher ranks. Because of
 * this order, no two ranks wait for each other. */
#include "comm/gloo_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESS_MAX = 80, WORD_HEX = 2 * NONCE_BYTES, JOB_MAX = WORD_HEX + 32 };

/* The message that each rank sends to all other ranks. */
struct place {
    int32_t st;                     /* STATUS_OK, or the error of a rank that cannot take part */
    char message[CONTROL_TEXT_MAX]; /* the message of that error; "" for STATUS_OK */
    char address[ADDRESS_MAX];      /* HOST:PORT at which the rank listens */
    char word[WORD_HEX + 1];        /* from rank 0: a random text for this job */
};

static enum status os_fail(const char *what)
{
    return status_fail(STATUS_IO, "cannot %s for Gloo: %s", what, strerror(errno));
}

/* Opens a socket that listens at a free port of the local address of the socket `near`. Writes that
 * address and port to `address`. */
static enum status listen_near(int near, int *listener, char address[ADDRESS_MAX])
{
    struct sockaddr_storage a;
    socklen_t size = sizeof a;
    char host[64], port[8];
    if (getsockname(near, (struct sockaddr *)&a, &size) != 0)
        return os_fail("find this machine's address");
    if (a.ss_family == AF_INET)
        ((struct sockaddr_in *)&a)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&a)->sin6_port = 0;
    *listener = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&a, size) != 0 ||
        listen(*listener, SOMAXCONN) != 0 ||
        getsockname(*listener, (struct sockaddr *)&a, &size) != 0)
        return os_fail("listen");
    int error = getnameinfo((struct sockaddr *)&a, size, host, sizeof host, port, sizeof port,
                            NI_NUMERICHOST | NI_NUMERICSERV);
    if (error != 0)
        return status_fail(STATUS_IO, "cannot listen for Gloo: %s", gai_strerror(error));
    snprintf(address, ADDRESS_MAX, a.ss_family == AF_INET ? "%s:%s" : "[%s]:%s", host, port);
    return STATUS_OK;
}

static enum status random_word(char word[WORD_HEX + 1])
{
    unsigned char bytes[NONCE_BYTES];
    TRY(nonce_make(bytes));
    for (int i = 0; i < NONCE_BYTES; i++)
        snprintf(word + 2 * (size_t)i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

/* Exchanges the addresses of all ranks. If one rank has failed, fails on all ranks. */
static enum status exchange(struct comm *control, enum status st, struct place *own,
                            struct place *all)
{
    own->st = (int32_t)st;
    if (st != STATUS_OK)
        snprintf(own->message, sizeof own->message, "%.*s", CONTROL_TEXT_MAX - 1, status_message());
    TRY(comm_gather(control, own, all, sizeof *own));
    for (int r = 0; r < comm_size(control); r++) {
        all[r].message[CONTROL_TEXT_MAX - 1] = all[r].address[ADDRESS_MAX - 1] = '\0';
        all[r].word[WORD_HEX] = '\0';
        if (all[r].st != STATUS_OK)
            return status_fail(STATUS_LIBRARY, "rank %d: %s", r, all[r].message);
    }
    return STATUS_OK;
}

/* The configuration of the rendezvous at which rank `first` accepts the lower ranks. This
 * rendezvous has its own rank numbers: rank `first` is rank 0, and the lower ranks are ranks 1 to
 * `first`. */
static struct rendezvous_config meeting_of(const char *job, int first, const struct secret *secret,
                                           double timeout_s)
{
    return (struct rendezvous_config){.rank = 0,
                                      .size = first + 1,
                                      .timeout_s = timeout_s,
                                      .job = job,
                                      .secret = secret,
                                      /* The rendezvous of the job has already refused a missing
                                       * secret where a secret is needed. */
                                      .insecure = true};
}

static enum status gather_lower(struct comm *control, const struct rendezvous_config *c,
                                int listener, int *socket)
{
    int *peer, rank = comm_rank(control);
    TRY(array_new(&peer, rank + 1));
    enum status st = rendezvous_gather(c, listener, peer);
    for (int r = 0; r < rank; r++) {
        socket[r] = peer[r + 1];
        if (st == STATUS_LIBRARY && socket[r] < 0)
            st = status_fail(STATUS_LOST_RANK, "rank %d did not connect to rank %d within %g s", r,
                             rank, c->timeout_s);
    }
    free(peer);
    return st;
}

static enum status connect_higher(struct comm *control, struct rendezvous_config c,
                                  const struct place *all, int to, int *socket)
{
    int *peer;
    c.address = all[to].address;
    c.rank = comm_rank(control) + 1;
    TRY(array_new(&peer, c.size));
    enum status st = rendezvous_meet(&c, peer);
    *socket = peer[0];
    free(peer);
    return st == STATUS_OK ? st : status_context(st, "cannot connect to rank %d for Gloo", to);
}

static enum status connect_all(struct comm *control, const struct secret *secret, double timeout_s,
                               int listener, const struct place *all, int *socket)
{
    char job[JOB_MAX];
    for (int r = comm_rank(control); r < comm_size(control); r++) {
        snprintf(job, sizeof job, "%s, rank %d", all[0].word, r);
        struct rendezvous_config c = meeting_of(job, r, secret, timeout_s);
        if (r > comm_rank(control))
            TRY(connect_higher(control, c, all, r, &socket[r]));
        else if (r > 0)
            TRY(gather_lower(control, &c, listener, socket));
    }
    return STATUS_OK;
}

enum status gloo_mesh_open(struct comm *control, const struct secret *secret, double timeout_s,
                           int *socket)
{
    struct place own = {0}, *all;
    int listener = -1, rank = comm_rank(control);
    for (int r = 0; r < comm_size(control); r++)
        socket[r] = -1;
    TRY(array_new(&all, comm_size(control)));
    enum status st = rank == 0 ? random_word(own.word)
                               : listen_near(control_socket(control, 0), &listener, own.address);
    st = exchange(control, st, &own, all);
    if (st == STATUS_OK) {
        st = connect_all(control, secret, timeout_s, listener, all, socket);
        st = exchange(control, st, &own, all);
    }
    if (listener >= 0)
        close(listener);
    free(all);
    return st;
}
