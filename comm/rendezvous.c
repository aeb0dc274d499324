/* The protocol by which ranks connect:
 *
 *     rank    -> rank 0   hello: job, rank, size, a nonce
 *     rank 0  -> rank     challenge: accepted or the reason of a refusal, a nonce
 *     rank    -> rank 0   proof: HMAC of hello and challenge, with the secret as key
 *     rank 0  -> rank     answer: accepted or the reason of a refusal, HMAC of the same
 *                         messages with another label
 *
 * The rank sends its proof before rank 0 sends a proof. A foreign process that connects to rank 0
 * therefore receives nothing that depends on the secret. Without a secret the proofs have an empty
 * key. */
#include "comm/rendezvous.h"

#include "base/clock.h"
#include "base/stop.h"
#include "base/text.h"
#include "comm/socket.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    VERSION = 2,
    PENDING_MAX = 256,   /* largest number of connections that have not sent their proof yet */
    AGAIN_NS = 100000000 /* time between attempts to connect */
};
static const double HELLO_S = 5;   /* time limit for a new connection to send its proof */
static const double CHECK_S = 0.2; /* time between checks for a request to stop */

enum verdict {
    ACCEPTED,
    OTHER_VERSION,
    OTHER_SIZE,
    OTHER_JOB,
    RANK_TAKEN,
    WRONG_SECRET,
    NO_HELLO, /* the connection is silent, slow, or of another protocol; never sent as a verdict */
    VERDICT_COUNT
};

static const struct {
    const char *count;  /* follows the number of refused connections in rank 0's message */
    const char *reason; /* follows "rank 0" or "node 0" in the message of the refused rank */
} verdicts[VERDICT_COUNT] = {
    [OTHER_VERSION] = {"of another program version", "runs another version of this program"},
    [OTHER_SIZE] = {"of a job of another size", "belongs to a job of another size"},
    [OTHER_JOB] = {"of another job", "belongs to another job; choose another port, or give all "
                                     "processes of a job the same AMPSCALE_JOB or --out"},
    [RANK_TAKEN] = {"with a number that is already connected",
                    "is already connected to another process with this number"},
    [WRONG_SECRET] = {"with a wrong secret", "has another secret; give all processes of a job the "
                                             "same AMPSCALE_SECRET or --secret-file"},
    [NO_HELLO] = {"silent, or of another program", ""},
};

/* The values that differ between the kinds of rendezvous. The labels are part of the proofs. A
 * proof is therefore valid only for one kind of rendezvous and from one side of the connection. */
static const struct {
    uint32_t magic;
    const char *noun, *label, *first_label;
} kinds[] = {
    [RENDEZVOUS_RANKS] = {0x616d7073 /* "amps" */, "rank", "ampscale rank", "ampscale rank 0"},
    [RENDEZVOUS_NODES] = {0x616d706e /* "ampn" */, "node", "ampscale node", "ampscale node 0"},
};

/* Messages; numbers are in network byte order. */
struct hello {
    uint32_t magic, version, rank, size;
    unsigned char job[DIGEST_BYTES], nonce[NONCE_BYTES];
};

struct challenge {
    uint32_t magic, verdict;
    unsigned char nonce[NONCE_BYTES];
};

struct exchange {
    struct hello hello;
    struct challenge challenge;
};

struct answer {
    uint32_t verdict;
    unsigned char proof[DIGEST_BYTES];
};

static enum status check_secured(const struct rendezvous_config *c, bool loopback)
{
    if (loopback || c->insecure || c->secret->size > 0)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "--rendezvous '%s' is reachable from other machines, but no secret is set: give all "
        "processes the same AMPSCALE_SECRET or --secret-file, or accept the risk with train's "
        "--insecure",
        c->address);
}

/* Sends a message without waiting. The buffer of a new connection is large enough for these
 * messages. False: the buffer is full, or the connection is lost. */
static bool send_now(int fd, const void *message, size_t size)
{
    return send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* --- rank 0 --- */

/* A connection whose other side has not yet proved that it is a rank of the job. */
struct pending {
    int fd;
    double end;
    size_t got; /* number of bytes received into `in` */
    struct {
        struct hello hello;
        unsigned char proof[DIGEST_BYTES];
    } in;
    struct challenge challenge;
};

struct gathering {
    const struct rendezvous_config *config;
    unsigned char job[DIGEST_BYTES];
    int *peer;
    int here; /* number of connected ranks, including rank 0 */
    int listener[SOCKET_ADDRESSES_MAX], listeners;
    struct pending pending[PENDING_MAX]; /* the oldest first */
    int n;
    int refused[VERDICT_COUNT];
};

static enum verdict check_hello(const struct gathering *g, const struct hello *h)
{
    uint32_t size = (uint32_t)g->config->size, rank = ntohl(h->rank);
    if (ntohl(h->magic) != kinds[g->config->kind].magic)
        return NO_HELLO;
    if (ntohl(h->version) != VERSION)
        return OTHER_VERSION;
    if (!digest_equal(h->job, g->job))
        return OTHER_JOB;
    if (ntohl(h->size) != size || rank == 0 || rank >= size)
        return OTHER_SIZE;
    return g->peer[rank] >= 0 ? RANK_TAKEN : ACCEPTED;
}

static enum verdict challenge_rank(const struct gathering *g, struct pending *p)
{
    enum verdict v = check_hello(g, &p->in.hello);
    p->challenge = (struct challenge){.magic = p->in.hello.magic, .verdict = htonl((uint32_t)v)};
    if (v == NO_HELLO || nonce_make(p->challenge.nonce) != STATUS_OK ||
        !send_now(p->fd, &p->challenge, sizeof p->challenge))
        return NO_HELLO;
    return v;
}

static enum verdict check_proof(const struct gathering *g, const struct pending *p)
{
    const struct exchange both = {p->in.hello, p->challenge};
    const struct secret *secret = g->config->secret;
    unsigned char proof[DIGEST_BYTES];
    struct answer answer = {0};
    /* Checked again, because the rank may have connected by another connection meanwhile. */
    enum verdict v = check_hello(g, &p->in.hello);
    secret_proof(secret, kinds[g->config->kind].label, &both, sizeof both, proof);
    if (!digest_equal(proof, p->in.proof))
        v = WRONG_SECRET;
    if (v == ACCEPTED)
        secret_proof(secret, kinds[g->config->kind].first_label, &both, sizeof both, answer.proof);
    answer.verdict = htonl((uint32_t)v);
    return send_now(p->fd, &answer, sizeof answer) ? v : NO_HELLO;
}

/* Removes a pending connection. Stores the socket of an accepted rank in g->peer; closes any other
 * socket. */
static void end_pending(struct gathering *g, int i, enum verdict v)
{
    struct pending *p = &g->pending[i];
    if (v == ACCEPTED) {
        socket_no_delay(p->fd);
        g->peer[ntohl(p->in.hello.rank)] = p->fd;
        g->here++;
    } else {
        g->refused[v]++;
        close(p->fd);
    }
    g->n--;
    memmove(p, p + 1, (size_t)(g->n - i) * sizeof *p);
}

/* Reads the bytes that have arrived. True: connection i is no longer pending. */
static bool read_pending(struct gathering *g, int i)
{
    struct pending *p = &g->pending[i];
    size_t want = p->got < sizeof p->in.hello ? sizeof p->in.hello : sizeof p->in;
    ssize_t n = recv(p->fd, (char *)&p->in + p->got, want - p->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n > 0)
        p->got += (size_t)n;
    bool foreign = p->got >= sizeof p->in.hello.magic &&
                   ntohl(p->in.hello.magic) != kinds[g->config->kind].magic;
    if (n > 0 && p->got < want && !foreign)
        return false;
    enum verdict v = NO_HELLO;
    if (n > 0 && !foreign)
        v = want == sizeof p->in ? check_proof(g, p) : challenge_rank(g, p);
    if (v == ACCEPTED && want < sizeof p->in)
        return false;
    end_pending(g, i, v);
    return true;
}

static void accept_pending(struct gathering *g, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool full = fd >= 0 ? g->n == PENDING_MAX : g->n > 0 && (errno == EMFILE || errno == ENFILE);
    if (full)
        end_pending(g, 0, NO_HELLO);
    if (fd < 0)
        return;
    g->pending[g->n++] = (struct pending){.fd = fd, .end = clock_s() + HELLO_S};
}

static enum status fail_absent(const struct gathering *g)
{
    const struct rendezvous_config *c = g->config;
    char refused[256] = "";
    int absent = 1;
    while (absent < c->size - 1 && g->peer[absent] >= 0)
        absent++;
    for (int v = ACCEPTED + 1; v < VERDICT_COUNT; v++)
        if (g->refused[v] > 0)
            text_join(refused, sizeof refused, ", ", "%d %s", g->refused[v], verdicts[v].count);
    return status_fail(STATUS_LIBRARY, "%s %d of %d did not reach '%s' within %g s%s%s",
                       kinds[c->kind].noun, absent, c->size, c->address, c->timeout_s,
                       *refused ? "; refused connections: " : "", refused);
}

/* Waits for connections and messages, and handles those that have arrived. */
static void serve_pending(struct gathering *g)
{
    struct pollfd p[SOCKET_ADDRESSES_MAX + PENDING_MAX];
    int n = g->n;
    for (int i = 0; i < n; i++)
        p[i] = (struct pollfd){.fd = g->pending[i].fd, .events = POLLIN};
    for (int i = 0; i < g->listeners; i++)
        p[n + i] = (struct pollfd){.fd = g->listener[i], .events = POLLIN};
    if (poll(p, (nfds_t)(n + g->listeners), (int)(CHECK_S * 1e3)) < 0)
        return;
    double now = clock_s();
    for (int i = n - 1; i >= 0; i--) /* downwards, because removing an entry moves the entries after
                                      * it */
        if (!(p[i].revents && read_pending(g, i)) && now >= g->pending[i].end)
            end_pending(g, i, NO_HELLO);
    for (int i = 0; i < g->listeners; i++)
        if (p[n + i].revents)
            accept_pending(g, g->listener[i]);
}

static enum status check_interrupted(const struct rendezvous_config *c)
{
    return c->interrupted ? c->interrupted(c->context) : stop_check();
}

/* Removes each node whose connection is closed, because its launcher has ended. Does not remove
 * ranks: the job cannot continue without a lost rank, and the first collective reports the loss. */
static void drop_lost_nodes(struct gathering *g)
{
    char byte;
    for (int i = 1; g->config->kind == RENDEZVOUS_NODES && i < g->config->size; i++)
        if (g->peer[i] >= 0 && recv(g->peer[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            close(g->peer[i]);
            g->peer[i] = -1;
            g->here--;
        }
}

static enum status gather(struct gathering *g)
{
    double end = clock_s() + g->config->timeout_s;
    enum status st = STATUS_OK;
    while (st == STATUS_OK && g->here < g->config->size) {
        serve_pending(g);
        drop_lost_nodes(g);
        st = check_interrupted(g->config);
        if (st == STATUS_OK && g->config->timeout_s > 0 && clock_s() >= end &&
            g->here < g->config->size)
            st = fail_absent(g);
    }
    while (g->n > 0)
        end_pending(g, 0, NO_HELLO);
    return st;
}

static enum status meet_as_first(const struct rendezvous_config *c, const struct addrinfo *list,
                                 int *peer)
{
    struct gathering g = {.config = c, .peer = peer, .here = 1};
    digest_text(c->job, g.job);
    TRY(socket_listen(c->address, list, g.listener, &g.listeners));
    enum status st = gather(&g);
    for (int i = 0; i < g.listeners; i++)
        close(g.listener[i]);
    return st;
}

enum status rendezvous_gather(const struct rendezvous_config *c, int listener, int *peer)
{
    struct gathering g = {
        .config = c, .peer = peer, .here = 1, .listener = {listener}, .listeners = 1};
    for (int i = 0; i < c->size; i++)
        peer[i] = -1;
    digest_text(c->job, g.job);
    return gather(&g);
}

/* --- other ranks --- */

/* Reads a message from rank 0, which answers at once unless it is stopped. STATUS_IO: no message
 * came. */
static enum status get_message(const struct rendezvous_config *c, int fd, void *message,
                               size_t size, double end)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, (int)(CHECK_S * 1e3)) <= 0) {
        TRY(check_interrupted(c));
        if (clock_s() >= end)
            return STATUS_IO;
    }
    return socket_get(fd, message, size, HELLO_S) == STATUS_OK ? STATUS_OK : STATUS_IO;
}

/* Fails with STATUS_LIBRARY if rank 0 has refused this rank. */
static enum status check_verdict(const struct rendezvous_config *c, uint32_t verdict)
{
    uint32_t v = ntohl(verdict);
    if (v == ACCEPTED)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "%s %d was refused at '%s': %s 0 %s", kinds[c->kind].noun,
                       c->rank, c->address, kinds[c->kind].noun,
                       verdicts[v < NO_HELLO ? v : OTHER_VERSION].reason);
}

/* Exchanges the messages of the protocol with rank 0. STATUS_IO: there is no rank 0 yet, but it may
 * start later. */
static enum status introduce(const struct rendezvous_config *c, int fd, double end)
{
    const uint32_t magic = htonl(kinds[c->kind].magic);
    struct exchange both = {
        .hello = {magic, htonl(VERSION), htonl((uint32_t)c->rank), htonl((uint32_t)c->size)}};
    struct answer answer;
    unsigned char proof[DIGEST_BYTES];
    digest_text(c->job, both.hello.job);
    TRY(nonce_make(both.hello.nonce));
    if (!send_now(fd, &both.hello, sizeof both.hello))
        return STATUS_IO;
    TRY(get_message(c, fd, &both.challenge, sizeof both.challenge, end));
    if (both.challenge.magic != magic)
        return STATUS_IO;
    TRY(check_verdict(c, both.challenge.verdict));
    secret_proof(c->secret, kinds[c->kind].label, &both, sizeof both, proof);
    if (!send_now(fd, proof, sizeof proof))
        return STATUS_IO;
    TRY(get_message(c, fd, &answer, sizeof answer, end));
    TRY(check_verdict(c, answer.verdict));
    secret_proof(c->secret, kinds[c->kind].first_label, &both, sizeof both, proof);
    if (digest_equal(proof, answer.proof))
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "the process at '%s' does not know the secret of this job",
                       c->address);
}

/* Connects to rank 0. Retries until the time limit, because rank 0 may not listen yet. */
static enum status meet_first(const struct rendezvous_config *c, const struct addrinfo *list,
                              int *peer)
{
    const struct timespec again = {.tv_nsec = AGAIN_NS};
    double end = c->timeout_s > 0 ? clock_s() + c->timeout_s : 1e300;
    do {
        int fd = socket_connect(list, HELLO_S);
        enum status st = fd >= 0 ? introduce(c, fd, end) : STATUS_IO;
        if (st == STATUS_OK) {
            socket_no_delay(fd);
            peer[0] = fd;
            return STATUS_OK;
        }
        if (fd >= 0)
            close(fd);
        if (st != STATUS_IO)
            return st;
        nanosleep(&again, NULL);
        TRY(check_interrupted(c));
    } while (clock_s() < end);
    return status_fail(STATUS_LIBRARY, "%s %d of %d found no %s 0 of its job at '%s' within %g s",
                       kinds[c->kind].noun, c->rank, c->size, kinds[c->kind].noun, c->address,
                       c->timeout_s);
}

enum status rendezvous_meet(const struct rendezvous_config *c, int *peer)
{
    struct addrinfo *list;
    bool loopback;
    for (int i = 0; i < c->size; i++)
        peer[i] = -1;
    TRY(socket_resolve(c->address, &list, &loopback));
    enum status st = check_secured(c, loopback);
    if (st == STATUS_OK)
        st = c->rank == 0 ? meet_as_first(c, list, peer) : meet_first(c, list, peer);
    freeaddrinfo(list);
    return st;
}
