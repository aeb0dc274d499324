/* The protocol by which ranks connect:
 *
 *     rank 0  -> rank     challenge: a nonce
 *     rank    -> rank 0   hello: job, rank, size, a nonce; HMAC of challenge and hello, with the
 *                         secret as key
 *     rank 0  -> rank     answer: accepted or the reason of a refusal, HMAC of the same messages
 *                         with another label
 *
 * The rank sends its proof first: a stranger receives nothing that depends on the secret. Without a
 * secret the proofs have an empty key.
 *
 * In an operation of comm_open_tcp's communicator, each rank sends rank 0 its intent and its data;
 * rank 0 answers with the result, or with a failure, which is then the same on all ranks. */
#include "comm/control.h"

#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"
#include "comm/internal.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    VERSION = 4,
    PENDING_MAX = 256,    /* largest number of connections that have not sent their proof yet */
    AGAIN_NS = 100000000, /* the first pause between attempts to connect; each is twice as long */
    AGAIN_MAX_NS = 8 * AGAIN_NS,
    DATA_MAX = 4 << 20, /* bytes of the largest operation of the communicator */
    ADDRESS_MAX = 320,  /* bytes of HOST:PORT */
};
static const double HELLO_S = 5;   /* time limit for a new connection to send its proof */
static const double CHECK_S = 0.2; /* time between checks for a request to stop */
static const double MEET_S = 300;  /* time limit of control_meet if the caller gives none */
static const double LATER_S = 2;   /* by which others wait longer for rank 0, which knows more */

enum verdict {
    ACCEPTED,
    OTHER_VERSION,
    OTHER_SIZE,
    OTHER_JOB,
    RANK_TAKEN,
    WRONG_SECRET,
    NO_HELLO, /* the connection is silent, slow, or of another protocol; never sent as a verdict */
    VERDICT_COUNT,
    INCOMPLETE = VERDICT_COUNT, /* more bytes of the hello are to come */
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

/* The challenge, the hello and the proof; numbers are in network byte order. */
struct exchange {
    uint32_t first_magic;
    unsigned char first_nonce[NONCE_BYTES];
    uint32_t magic, version, rank, size;
    unsigned char job[DIGEST_BYTES], nonce[NONCE_BYTES];
    unsigned char proof[DIGEST_BYTES]; /* of the members before */
};
enum {
    HELLO = offsetof(struct exchange, magic),
    PROTOCOL = offsetof(struct exchange, rank), /* bytes up to the version */
    PROVED = offsetof(struct exchange, proof),
};

struct answer {
    uint32_t verdict;
    unsigned char proof[DIGEST_BYTES];
};

static enum status check_interrupted(const struct rendezvous_config *c)
{
    return c->stops_later ? STATUS_OK : c->interrupted ? c->interrupted(c->context) : stop_check();
}

/* Sends a message without waiting: the buffer of a new connection is large enough. */
static bool send_now(int fd, const void *message, size_t size)
{
    return send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void close_all(int *fd, int n)
{
    for (int i = 0; i < n; i++)
        fd_close(&fd[i]);
}

/* --- rank 0 --- */

/* A connection whose other side has not yet proved that it is a rank of the job. */
struct pending {
    int fd;
    double end;
    size_t got; /* number of bytes of `both`, including the challenge */
    struct exchange both;
};

struct gathering {
    const struct rendezvous_config *config;
    unsigned char job[DIGEST_BYTES];
    int *peer;
    int here; /* number of connected ranks, including rank 0 */
    const int *listener;
    int listeners;
    struct pending pending[PENDING_MAX]; /* the oldest first */
    int n;
    int refused[VERDICT_COUNT];
    enum status st; /* of accepting */
};

/* Checks the `got` bytes of `both` that are known; `answer` gets rank 0's proof. */
static enum verdict check_hello(const struct gathering *g, const struct exchange *both, size_t got,
                                struct answer *answer)
{
    const struct rendezvous_config *c = g->config;
    uint32_t size = (uint32_t)c->size, rank = ntohl(both->rank);
    unsigned char proof[DIGEST_BYTES];
    if (got >= PROTOCOL && ntohl(both->magic) != kinds[c->kind].magic)
        return NO_HELLO;
    if (got >= PROTOCOL && ntohl(both->version) != VERSION)
        return OTHER_VERSION;
    if (got < sizeof *both)
        return INCOMPLETE;
    if (!digest_equal(both->job, g->job))
        return OTHER_JOB;
    if (ntohl(both->size) != size || rank == 0 || rank >= size)
        return OTHER_SIZE;
    secret_proof(c->secret, kinds[c->kind].label, both, PROVED, proof);
    if (!digest_equal(proof, both->proof))
        return WRONG_SECRET;
    if (g->peer[rank] >= 0)
        return RANK_TAKEN;
    secret_proof(c->secret, kinds[c->kind].first_label, both, PROVED, answer->proof);
    return ACCEPTED;
}

/* Removes a pending connection. Keeps the socket of an accepted rank in g->peer. */
static void end_pending(struct gathering *g, int i, enum verdict v)
{
    struct pending *p = &g->pending[i];
    if (v == ACCEPTED) {
        g->peer[ntohl(p->both.rank)] = p->fd;
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
    struct answer answer = {0};
    ssize_t n = recv(p->fd, (char *)&p->both + p->got, sizeof p->both - p->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    p->got += n > 0 ? (size_t)n : 0;
    enum verdict v = n > 0 ? check_hello(g, &p->both, p->got, &answer) : NO_HELLO;
    if (v == INCOMPLETE)
        return false;
    answer.verdict = htonl((uint32_t)v);
    if (v != NO_HELLO && !send_now(p->fd, &answer, sizeof answer))
        v = NO_HELLO;
    end_pending(g, i, v);
    return true;
}

static void accept_pending(struct gathering *g, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool full = fd >= 0 ? g->n == PENDING_MAX : errno == EMFILE || errno == ENFILE;
    if (full && g->n == 0)
        g->st = status_fail(STATUS_IO, "cannot accept a connection at '%s': %s", g->config->address,
                            strerror(errno));
    else if (full)
        end_pending(g, 0, NO_HELLO);
    if (fd < 0)
        return;
    struct pending *p = &g->pending[g->n++];
    *p = (struct pending){.fd = fd, .end = clock_s() + HELLO_S, .got = HELLO};
    p->both.first_magic = htonl(kinds[g->config->kind].magic);
    if (nonce_make(p->both.first_nonce) != STATUS_OK || !send_now(fd, &p->both, HELLO))
        end_pending(g, g->n - 1, NO_HELLO);
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
    for (int i = n - 1; i >= 0; i--) /* downwards: removing an entry moves those after it */
        if (!(p[i].revents && read_pending(g, i)) && now >= g->pending[i].end)
            end_pending(g, i, NO_HELLO);
    for (int i = 0; i < g->listeners; i++)
        if (p[n + i].revents)
            accept_pending(g, g->listener[i]);
}

/* Removes each node whose launcher has ended; its number of ranks may be unread. Does not remove
 * ranks: the first operation reports a lost rank, without which the job cannot continue. */
static void drop_lost_nodes(struct gathering *g)
{
    for (int i = 1; g->config->kind == RENDEZVOUS_NODES && i < g->config->size; i++) {
        struct pollfd p = {.fd = g->peer[i], .events = POLLRDHUP};
        if (poll(&p, 1, 0) == 1) {
            close_all(&g->peer[i], 1);
            g->here--;
        }
    }
}

enum status rendezvous_gather(const struct rendezvous_config *c, const int *listener, int n,
                              int *peer)
{
    struct gathering g = {
        .config = c, .peer = peer, .here = 1, .listener = listener, .listeners = n};
    double end = clock_s() + c->timeout_s;
    enum status st = STATUS_OK;
    digest_text(c->job, g.job);
    for (int r = 0; r < c->size; r++)
        peer[r] = -1;
    while (st == STATUS_OK && g.here < c->size) {
        serve_pending(&g);
        drop_lost_nodes(&g);
        st = g.st == STATUS_OK ? check_interrupted(c) : g.st;
        if (st == STATUS_OK && c->timeout_s > 0 && clock_s() >= end && g.here < c->size)
            st = fail_absent(&g);
    }
    while (g.n > 0)
        end_pending(&g, 0, NO_HELLO);
    return st;
}

/* Warns if ranks on other machines cannot connect, because this machine knows its own name as a
 * loopback address, as Debian's /etc/hosts does. */
static void warn_loopback(const struct rendezvous_config *c)
{
    const char *a = c->address;
    if (!c->one_host && *a != '[' && strncmp(a, "localhost", 9) != 0 && strncmp(a, "127.", 4) != 0)
        fprintf(stderr,
                "ampscale: warning: --rendezvous '%s': '%.*s' is a loopback address on this "
                "machine (see /etc/hosts); ranks on other machines cannot connect: give an address "
                "that they can reach\n",
                a, (int)strcspn(a, ":"), a);
}

/* --- other ranks --- */

/* Reads a message from rank 0, which answers at once unless it is stopped, before the time `end`.
 * STATUS_IO: no message came. */
static enum status get_message(const struct rendezvous_config *c, int fd, void *message,
                               size_t size, double end)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, (int)(CHECK_S * 1e3)) <= 0) {
        TRY(check_interrupted(c));
        if (clock_s() >= end)
            return STATUS_IO;
    }
    return socket_get_plain(fd, message, size, HELLO_S) == STATUS_OK ? STATUS_OK : STATUS_IO;
}

/* The time limit, in seconds, of a step of an attempt that ends at the time `end`. */
static double step_s(double end)
{
    double left = end - clock_s();
    return left > HELLO_S ? HELLO_S : left > CHECK_S ? left : CHECK_S;
}

/* Exchanges the messages of the protocol with rank 0. STATUS_IO: there is no rank 0 yet. */
static enum status introduce(const struct rendezvous_config *c, int fd, double end)
{
    const uint32_t magic = htonl(kinds[c->kind].magic);
    const char *noun = kinds[c->kind].noun;
    struct exchange both = {.magic = magic,
                            .version = htonl(VERSION),
                            .rank = htonl((uint32_t)c->rank),
                            .size = htonl((uint32_t)c->size)};
    struct answer answer;
    unsigned char proof[DIGEST_BYTES];
    digest_text(c->job, both.job);
    TRY(nonce_make(both.nonce));
    TRY(get_message(c, fd, &both, HELLO, clock_s() + step_s(end))); /* from any program */
    if (both.first_magic != magic)
        return STATUS_IO;
    secret_proof(c->secret, kinds[c->kind].label, &both, PROVED, both.proof);
    if (!send_now(fd, &both.magic, sizeof both - HELLO))
        return STATUS_IO;
    TRY(get_message(c, fd, &answer, sizeof answer, end));
    uint32_t v = ntohl(answer.verdict);
    if (v != ACCEPTED)
        return status_fail(STATUS_LIBRARY, "%s %d was refused at '%s': %s 0 %s", noun, c->rank,
                           c->address, noun, verdicts[v < NO_HELLO ? v : OTHER_VERSION].reason);
    secret_proof(c->secret, kinds[c->kind].first_label, &both, PROVED, proof);
    if (digest_equal(proof, answer.proof))
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "the process at '%s' does not know the secret of this job",
                       c->address);
}

/* Connects to rank 0 at one of the addresses in `list`. STATUS_IO: there is no rank 0 yet. */
static enum status connect_to(const struct rendezvous_config *c, const struct addrinfo *list,
                              double end, int *peer)
{
    enum status st = STATUS_IO;
    for (; list && st == STATUS_IO; list = list->ai_next) {
        peer[0] = socket_connect(list, step_s(end));
        if (peer[0] < 0 && (errno == EMFILE || errno == ENFILE))
            return status_fail(STATUS_LIBRARY, "cannot open a socket to '%s': %s", c->address,
                               strerror(errno));
        if (peer[0] >= 0 && (st = introduce(c, peer[0], end)) != STATUS_OK)
            close_all(peer, 1);
    }
    return st;
}

/* Connects the ranks at `address`. STATUS_IO: another attempt may succeed, unless this is rank 0
 * and *found is set, because the address has been looked up. */
static enum status attempt(const struct rendezvous_config *c, const char *address, double end,
                           bool *found, int *peer)
{
    int listener[SOCKET_ADDRESSES_MAX], n = 0;
    struct addrinfo *list;
    bool loopback;
    *found = false;
    enum status st;
    TRY(socket_resolve(address, &list, &loopback));
    *found = true;
    if (!loopback && !c->insecure && c->secret->size == 0)
        st = status_fail(STATUS_USAGE,
                         "--rendezvous '%s' is reachable from other machines, but no secret is "
                         "set: give all processes the same AMPSCALE_SECRET or --secret-file, or "
                         "accept the risk with train's --insecure",
                         address);
    else if (c->rank > 0)
        st = connect_to(c, list, end, peer);
    else if ((st = socket_listen(address, list, listener, &n)) == STATUS_OK) {
        if (loopback)
            warn_loopback(c);
        st = rendezvous_gather(c, listener, n, peer);
        close_all(listener, n);
    }
    freeaddrinfo(list);
    return st;
}

/* Makes attempts at the addresses between characters of `separators` in turn until the time limit,
 * because rank 0 may not listen yet, and DNS may not yet know its host or its address. */
static enum status meet(const struct rendezvous_config *c, const char *separators, int *peer)
{
    const char *noun = kinds[c->kind].noun, *at = c->address;
    const double end = c->timeout_s > 0 ? clock_s() + c->timeout_s : 1e300;
    char address[ADDRESS_MAX];
    int64_t pause = AGAIN_NS;
    bool found;
    for (int r = 0; r < c->size; r++)
        peer[r] = -1;
    do {
        size_t length = strcspn(at, separators);
        snprintf(address, sizeof address, "%.*s", (int)length, at);
        enum status st = attempt(c, address, end, &found, peer);
        if (st != STATUS_IO || (found && c->rank == 0))
            return st;
        at += length + strspn(at + length, separators);
        if (*at)
            continue;
        at = c->address;
        comm_sleep(pause);
        pause *= pause < AGAIN_MAX_NS ? 2 : 1;
        TRY(check_interrupted(c));
    } while (clock_s() < end);
    if (found)
        return status_fail(STATUS_LIBRARY,
                           "%s %d of %d found no %s 0 of its job at '%s' within %g s", noun,
                           c->rank, c->size, noun, c->address, c->timeout_s);
    return status_fail(c->rank == 0 ? STATUS_IO : STATUS_LIBRARY,
                       "%s, for %g s; start the host, or give a name or an address that this "
                       "machine can look up",
                       status_message(), c->timeout_s);
}

enum status rendezvous_meet(const struct rendezvous_config *c, int *peer)
{
    return meet(c, "", peer);
}

/* --- the communicator --- */

struct tcp {
    struct comm base;
    double timeout_s;
    int *peer;                    /* (size) sockets; see rendezvous_meet */
    char *data;                   /* on rank 0: DATA_MAX bytes for the data of a rank */
    struct first_failure failure; /* fails all later operations */
};

static enum status put(const struct tcp *t, int rank, const struct control_message *m,
                       const void *data)
{
    TRY(socket_put(t->peer[rank], m, sizeof *m, t->timeout_s));
    return socket_put(t->peer[rank], data, m->bytes, t->timeout_s);
}

/* Sends the failure in place of this rank's next message. A rank out of reach finds it itself. */
static void send_failure(struct tcp *t)
{
    const struct control_message m = {.magic = CONTROL_MAGIC, .failure = t->failure};
    for (int r = 0; r < t->base.size; r++)
        if (t->peer[r] >= 0)
            (void)!put(t, r, &m, NULL);
}

static void tcp_fail(struct comm *c, enum status st, const char *text)
{
    struct tcp *t = (struct tcp *)c;
    struct first_failure own = {0};
    if (t->failure.status != STATUS_OK)
        return;
    first_failure_keep(&own, st); /* put may replace this thread's message */
    comm_failure_keep(&t->failure, st, "rank %d: %s", c->rank, text);
    send_failure(t);
    (void)!first_failure_return(&own);
}

/* Receives a message, and its data of at most `size` bytes. Fails if the connection is lost or the
 * sender has failed, and keeps the failure. `op` is the operation, or NULL between two of them. */
static enum status get(struct tcp *t, int rank, const struct comm_op *op, struct control_message *m,
                       void *data, size_t size)
{
    char text[COMM_TEXT_MAX];
    enum status st = socket_get(t->peer[rank], m, sizeof *m, t->timeout_s);
    if (st == STATUS_OK && m->bytes > size)
        st = status_fail(STATUS_INVALID, "it sends %u bytes, not %zu", m->bytes, size);
    st = st == STATUS_OK ? socket_get(t->peer[rank], data, m->bytes, t->timeout_s) : st;
    if (st != STATUS_OK) {
        st = status_context(st, "the connection to rank %d failed %s%s", rank,
                            op ? "in " : "while the ranks connected",
                            op ? comm_op_text(op, text) : "");
        tcp_fail(&t->base, st == STATUS_MISMATCH ? st : STATUS_LOST_RANK, status_message());
    } else if (m->failure.status != STATUS_OK && t->failure.status == STATUS_OK) {
        comm_failure_keep(
            &t->failure, m->failure.status <= STATUS_LOST_RANK ? m->failure.status : STATUS_LIBRARY,
            "%.*s", STATUS_MESSAGE_MAX - 1, m->failure.message);
        if (t->base.rank == 0)
            send_failure(t); /* the others may wait for the rank that has failed */
    }
    return first_failure_return(&t->failure);
}

static bool is_control(const struct comm *c, const struct comm_op *op)
{
    bool wide = op->type == DTYPE_F64 || op->type == DTYPE_F32 || op->type == DTYPE_I32;
    bool moves = op->kind == COMM_ALLGATHER || op->kind == COMM_BROADCAST;
    bool sums = op->kind == COMM_ALLREDUCE && wide && op->reduction != COMM_AVG;
    return op->kind == COMM_BARRIER || c->size == 1 ||
           ((moves || sums) && comm_recv_bytes(c, op) <= DATA_MAX);
}

/* On rank 0: receives rank r's intent and data, and adds the data to the result. */
static void take(struct tcp *t, int r, const struct comm_op *op)
{
    const struct comm_intent own = comm_intent_of(op);
    size_t part = comm_send_bytes(&t->base, op);
    struct control_message m;
    if (get(t, r, op, &m, t->data, DATA_MAX) != STATUS_OK)
        return;
    first_failure_keep(&t->failure, comm_intent_check(r, &m.intent, &own));
    if (t->failure.status != STATUS_OK || !is_control(&t->base, op))
        return;
    if (op->kind == COMM_ALLGATHER)
        memcpy((char *)op->recv + (size_t)r * part, t->data, part);
    else if (op->kind == COMM_ALLREDUCE)
        comm_reduce(op->type, op->reduction, op->recv, op->recv, t->data, op->count);
    else if (op->kind == COMM_BROADCAST && op->root == r)
        memcpy(op->recv, t->data, comm_recv_bytes(&t->base, op));
}

/* Takes the messages of all ranks in rank order, then answers. Continues after a failure, because
 * the other ranks must learn of it. */
static enum status run_first(struct tcp *t, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX];
    bool control = is_control(&t->base, op);
    if (control)
        comm_copy_alone(&t->base, op);
    for (int r = 1; r < t->base.size; r++)
        take(t, r, op);
    if (!control)
        comm_failure_keep(&t->failure, STATUS_UNSUPPORTED,
                          "%s of %lld elements: the connections to rank 0 carry only control; data "
                          "between processes needs MPI, Gloo or NCCL",
                          comm_op_text(op, text), (long long)op->count);
    struct control_message m = {.magic = CONTROL_MAGIC, .failure = t->failure};
    if (m.failure.status == STATUS_OK)
        m.bytes = (uint32_t)comm_recv_bytes(&t->base, op);
    for (int r = 1; r < t->base.size; r++)
        (void)!put(t, r, &m, op->recv); /* the next operation reports a lost rank */
    return first_failure_return(&t->failure);
}

static enum status tcp_run(struct comm *c, const struct comm_op *op)
{
    struct tcp *t = (struct tcp *)c;
    struct control_message m = {.magic = CONTROL_MAGIC, .intent = comm_intent_of(op)};
    bool root = op->kind == COMM_BROADCAST && op->root == c->rank;
    TRY(first_failure_return(&t->failure));
    if (c->rank == 0)
        return run_first(t, op);
    if (is_control(c, op))
        m.bytes = (uint32_t)(root ? comm_recv_bytes(c, op) : comm_send_bytes(c, op));
    (void)!put(t, 0, &m, root ? op->recv : op->send); /* if this fails, no answer comes */
    return get(t, 0, op, &m, op->recv, comm_recv_bytes(c, op));
}

enum status control_check(struct comm *c, int *absent)
{
    struct tcp *t = (struct tcp *)c;
    TRY(first_failure_return(&t->failure));
    *absent = -1;
    for (int r = 0; r < c->size; r++) {
        struct control_message m;
        if (t->peer[r] < 0)
            continue;
        ssize_t n = recv(t->peer[r], &m, sizeof m, MSG_PEEK | MSG_DONTWAIT);
        bool later = n < 0 ? errno == EAGAIN || errno == EINTR : n > 0 && n < (ssize_t)sizeof m;
        *absent = later && *absent < 0 ? r : *absent;
        if (!later && (n <= 0 || m.failure.status != STATUS_OK)) /* which no data follows */
            TRY(get(t, r, NULL, &m, NULL, 0));
    }
    return STATUS_OK;
}

void control_set_timeout(struct comm *c, double timeout_s)
{
    ((struct tcp *)c)->timeout_s = timeout_s;
}

int control_socket(const struct comm *c, int rank)
{
    return ((const struct tcp *)c)->peer[rank];
}

static void tcp_close(struct comm *c)
{
    struct tcp *t = (struct tcp *)c;
    if (t->peer)
        close_all(t->peer, c->size);
    free(t->peer);
    free(t->data);
    free(t);
}

enum status comm_open_tcp(const struct comm_tcp_config *config, struct comm **c)
{
    static const struct comm_calls calls = {
        .name = "tcp", .run = tcp_run, .fail = tcp_fail, .close = tcp_close};
    struct secret secret = {0};
    const struct rendezvous_config meeting = {.address = config->address,
                                              .rank = config->rank,
                                              .size = config->size,
                                              .timeout_s = config->timeout_s,
                                              .job = config->job ? config->job : "",
                                              .secret = &secret,
                                              .insecure = config->insecure,
                                              .one_host = config->one_host};
    enum status st;
    struct tcp *t;
    *c = NULL;
    TRY(array_new(&t, 1));
    t->base = (struct comm){.calls = &calls, .rank = config->rank, .size = config->size};
    t->timeout_s = config->timeout_s;
    if (config->rank > 0 && config->timeout_s > 0)
        t->timeout_s += LATER_S;
    CHECK(secret_read(config->secret_file, &secret));
    CHECK(array_new(&t->data, config->rank == 0 ? DATA_MAX : 0));
    CHECK(array_new(&t->peer, config->size));
    st = rendezvous_meet(&meeting, t->peer);
    if (st == STATUS_LIBRARY && config->rank == 0) { /* a rank is missing: informs the others */
        first_failure_keep(&t->failure, st);
        send_failure(t);
        st = first_failure_return(&t->failure);
    }
    CHECK(st);
    *c = &t->base;
done:
    secret_clear(&secret);
    if (st != STATUS_OK)
        tcp_close(&t->base);
    return st;
}

/* --- jobs that another library has connected --- */

/* What rank 0 broadcasts: first where it listens, then whether all ranks have connected. */
struct meeting {
    struct first_failure failure; /* of rank 0 */
    char addresses[SOCKET_ADDRESSES_MAX * SOCKET_TEXT_MAX];
    struct secret secret;
};

/* Whether rank 0 listens at an address of this machine: it is up, and is a loopback address if
 * `loopback` is set, else any other except a link-local one. */
static bool is_wanted(const struct ifaddrs *i, bool loopback)
{
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)i->ifa_addr;
    bool near = i->ifa_flags & IFF_LOOPBACK;
    return a && (i->ifa_flags & IFF_UP) && near == loopback &&
           (a->sin6_family == AF_INET ||
            (a->sin6_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr)));
}

/* On rank 0: listens at free ports, only at loopback if `one_host` or if there is no other address.
 */
static enum status open_meeting(bool one_host, struct meeting *m, int *listener, int *n)
{
    char address[SOCKET_TEXT_MAX];
    struct ifaddrs *all;
    enum status st = STATUS_OK;
    TRY(nonce_make(m->secret.bytes));
    if (getifaddrs(&all) != 0)
        return status_fail(STATUS_IO, "cannot list this machine's addresses: %s", strerror(errno));
    for (int loopback = one_host; loopback <= 1 && *n == 0; loopback++)
        for (const struct ifaddrs *i = all; i && *n < SOCKET_ADDRESSES_MAX; i = i->ifa_next)
            if (is_wanted(i, loopback) &&
                (st = socket_listen_free(i->ifa_addr, &listener[*n], address)) == STATUS_OK) {
                text_join(m->addresses, sizeof m->addresses, " ", "%s", address);
                ++*n;
            }
    freeifaddrs(all);
    if (*n > 0)
        return STATUS_OK;
    return st == STATUS_OK ? status_fail(STATUS_IO, "the machine of rank 0 has no address")
                           : status_context(st, "rank 0");
}

/* Rank 0 broadcasts its result `st`. A rank fails if it or rank 0 has failed. */
static enum status share_result(enum status st, control_share *share, void *context,
                                struct meeting *m)
{
    struct first_failure own = {0};
    first_failure_keep(&own, st);
    m->failure = own;
    TRY(share(context, m, sizeof *m));
    if (st == STATUS_OK && m->failure.status == STATUS_OK)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "%.*s", STATUS_MESSAGE_MAX - 1,
                       st == STATUS_OK ? m->failure.message : own.message);
}

enum status control_meet(int rank, int size, bool one_host, double timeout_s, control_share *share,
                         void *context, int *peer)
{
    struct meeting m = {0};
    const struct rendezvous_config c = {.address = m.addresses,
                                        .rank = rank,
                                        .size = size,
                                        .timeout_s = timeout_s > 0 ? timeout_s : MEET_S,
                                        .job = "",
                                        .secret = &m.secret,
                                        .stops_later = true};
    int listener[SOCKET_ADDRESSES_MAX], n = 0;
    for (int r = 0; r < size; r++)
        peer[r] = -1;
    if (size == 1)
        return STATUS_OK;
    enum status st = rank == 0 ? open_meeting(one_host, &m, listener, &n) : STATUS_OK;
    CHECK(share_result(st, share, context, &m));
    m.addresses[sizeof m.addresses - 1] = '\0';
    m.secret.size = NONCE_BYTES;
    st = rank == 0 ? rendezvous_gather(&c, listener, n, peer) : meet(&c, " ", peer);
    CHECK(share_result(st, share, context, &m));
done:
    if (st != STATUS_OK)
        close_all(peer, size);
    close_all(listener, n);
    secret_clear(&m.secret);
    return st;
}
