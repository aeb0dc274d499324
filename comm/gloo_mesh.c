/* Connects every pair of ranks of a job. All ranks are already connected to rank 0. Each rank first
 * waits for the connections of all lower ranks, and then connects to the higher ranks. Because of
 * this order, no two ranks wait for each other. */
#include "comm/control.h"
#include "comm/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REASON_MAX = 256, WORD_MAX = 2 * NONCE_BYTES + 1, JOB_MAX = 128 };

/* The message that each rank sends to all other ranks. */
struct place {
    int32_t st;                    /* STATUS_OK, or the error of a rank that cannot take part */
    char reason[REASON_MAX];       /* the message of that error */
    char address[SOCKET_TEXT_MAX]; /* HOST:PORT at which the rank listens */
    char word[WORD_MAX];           /* from rank 0: a random text for this job */
};

/* Listens at a free port of the local address of the socket `near`. */
static enum status listen_near(int near, int *listener, char address[SOCKET_TEXT_MAX])
{
    struct sockaddr_storage a;
    socklen_t size = sizeof a;
    if (getsockname(near, (struct sockaddr *)&a, &size) != 0)
        return status_fail(STATUS_IO, "cannot listen for Gloo: %s", strerror(errno));
    return socket_listen_free((struct sockaddr *)&a, listener, address);
}

static enum status random_word(char word[WORD_MAX])
{
    unsigned char bytes[NONCE_BYTES];
    TRY(nonce_make(bytes));
    for (size_t i = 0; i < NONCE_BYTES; i++)
        snprintf(word + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

/* Exchanges the addresses of all ranks. If one rank has failed, fails on all ranks. */
static enum status exchange(struct comm *control, enum status st, struct place *own,
                            struct place *all)
{
    own->st = (int32_t)st;
    if (st != STATUS_OK)
        snprintf(own->reason, sizeof own->reason, "%.*s", REASON_MAX - 1, status_message());
    TRY(comm_gather(control, own, all, sizeof *own));
    for (int r = 0; r < comm_size(control); r++) {
        all[r].reason[REASON_MAX - 1] = all[r].address[SOCKET_TEXT_MAX - 1] = '\0';
        all[r].word[WORD_MAX - 1] = '\0';
        if (all[r].st != STATUS_OK)
            return status_fail(STATUS_LIBRARY, "rank %d: %s", r, all[r].reason);
    }
    return STATUS_OK;
}

/* Accepts the lower ranks, then connects to each higher rank. Each of these rendezvous has its own
 * rank numbers: rank `to`, which accepts, is rank 0, and the ranks below it are ranks 1 to `to`. */
static enum status connect_all(struct comm *control, struct rendezvous_config c, int listener,
                               const struct place *all, int *socket)
{
    char job[JOB_MAX];
    int *peer, rank = comm_rank(control);
    enum status st = STATUS_OK;
    TRY(array_new(&peer, comm_size(control)));
    for (int to = rank > 0 ? rank : 1; to < comm_size(control) && st == STATUS_OK; to++) {
        snprintf(job, sizeof job, "%s, rank %d", all[0].word, to);
        c.job = job;
        c.address = all[to].address;
        c.rank = to == rank ? 0 : rank + 1;
        c.size = to + 1;
        st = to == rank ? rendezvous_gather(&c, &listener, 1, peer) : rendezvous_meet(&c, peer);
        for (int r = 0; r < to && to == rank; r++) {
            socket[r] = peer[r + 1];
            if (st == STATUS_LIBRARY && socket[r] < 0)
                st = status_fail(STATUS_LOST_RANK, "rank %d did not connect to rank %d within %g s",
                                 r, to, c.timeout_s);
        }
        if (to > rank)
            socket[to] = peer[0];
        if (to > rank && st != STATUS_OK)
            st = status_context(st, "cannot connect to rank %d for Gloo", to);
    }
    free(peer);
    return st;
}

enum status gloo_mesh_open(struct comm *control, const struct secret *secret, double timeout_s,
                           int *socket)
{
    /* The rendezvous of the job has already refused a missing secret where one is needed. */
    const struct rendezvous_config c = {.timeout_s = timeout_s, .secret = secret, .insecure = true};
    struct place own = {0}, *all;
    int listener = -1;
    for (int r = 0; r < comm_size(control); r++)
        socket[r] = -1;
    TRY(array_new(&all, comm_size(control)));
    enum status st = comm_rank(control) == 0
                         ? random_word(own.word)
                         : listen_near(control_socket(control, 0), &listener, own.address);
    st = exchange(control, st, &own, all);
    if (st == STATUS_OK) {
        st = connect_all(control, c, listener, all, socket);
        st = exchange(control, st, &own, all);
    }
    if (listener >= 0)
        close(listener);
    free(all);
    return st;
}
