/* The protocol by which ranks connect:
 *
 *     rank 0  -> rank     challenge: a nonce
 *     rank    -> rank 0   hello: job, rank, size, a nonce; HMAC of challenge and hello, with the
 *                         secret as key
 *     rank 0  -> rank     answer: accepted or the reason of a refusal, HMAC of the same messages
 *                         with another label
 *
 * The rank sends its proof before rank 0 sends a proof. A foreign process that connects to rank 0
 * therefore receives nothing that depends on the secret. Without a secret the proofs have an empty
 * key.
 *
 * The communicator of comm_open_tcp carries only control, because everything passes through rank 0.
 * Before an operation each rank sends rank 0 its intent, which describes the operation, and rank 0
 * answers with a verdict. If intents differ or a rank has failed, the operation therefore fails on
 * all ranks with the same message. */
#include "comm/control.h"

#include "base/file.h"
#include "base/host.h"
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
    VERSION = 3,
    PENDING_MAX = 256,     /* largest number of connections that have not sent their proof yet */
    AGAIN_NS = 100000000,  /* time between attempts to connect */
    LOOK_UP_EVERY = 10,    /* the number of attempts after which a host's name is looked up again */
    MESSAGE_MAX = 4 << 20, /* bytes of the largest operation of the communicator */
};
static const double HELLO_S = 5;   /* time limit for a new connection to send its proof */
static const double CHECK_S = 0.2; /* time between checks for a request to stop */
static const double MEET_S = 300;  /* time limit of control_meet if the caller gives none */

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
struct challenge {
    uint32_t magic;
    unsigned char nonce[NONCE_BYTES];
};

struct hello {
    uint32_t magic, version, rank, size;
    unsigned char job[DIGEST_BYTES], nonce[NONCE_BYTES];
};

struct exchange {
    struct challenge challenge;
    struct hello hello;
    unsigned char proof[DIGEST_BYTES]; /* of the members before */
};
enum { PROVED = offsetof(struct exchange, proof), HELLO = offsetof(struct exchange, hello) };

struct answer {
    uint32_t verdict;
    unsigned char proof[DIGEST_BYTES];
};

static enum status check_interrupted(const struct rendezvous_config *c)
{
    return c->interrupted ? c->interrupted(c->context) : stop_check();
}

/* Finds the addresses of c->address, and retries until the time `end`: DNS may not know a host that
 * is only starting. */
static enum status resolve(const struct rendezvous_config *c, double end, struct addrinfo **list,
                           bool *loopback)
{
    enum status st;
    while ((st = socket_resolve(c->address, list, loopback)) == STATUS_IO && clock_s() < end) {
        comm_sleep(LOOK_UP_EVERY * (int64_t)AGAIN_NS);
        TRY(check_interrupted(c));
    }
    if (st == STATUS_IO)
        return status_fail(c->rank == 0 ? STATUS_IO : STATUS_LIBRARY,
                           "%s, for %g s; start the host, or give a name or an address that this "
                           "machine can look up",
                           status_message(), c->timeout_s);
    if (st != STATUS_OK || *loopback || c->insecure || c->secret->size > 0)
        return st;
    freeaddrinfo(*list);
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
};

/* Checks what the other side has sent; `answer` gets rank 0's proof. */
static enum verdict check_hello(const struct gathering *g, const struct exchange *both,
                                struct answer *answer)
{
    const struct rendezvous_config *c = g->config;
    const struct hello *h = &both->hello;
    uint32_t size = (uint32_t)c->size, rank = ntohl(h->rank);
    unsigned char proof[DIGEST_BYTES];
    if (ntohl(h->magic) != kinds[c->kind].magic)
        return NO_HELLO;
    if (ntohl(h->version) != VERSION)
        return OTHER_VERSION;
    if (!digest_equal(h->job, g->job))
        return OTHER_JOB;
    if (ntohl(h->size) != size || rank == 0 || rank >= size)
        return OTHER_SIZE;
    secret_proof(c->secret, kinds[c->kind].label, both, PROVED, proof);
    if (!digest_equal(proof, both->proof))
        return WRONG_SECRET;
    secret_proof(c->secret, kinds[c->kind].first_label, both, PROVED, answer->proof);
    return g->peer[rank] >= 0 ? RANK_TAKEN : ACCEPTED;
}

/* Removes a pending connection. Stores the socket of an accepted rank in g->peer; closes any other
 * socket. */
static void end_pending(struct gathering *g, int i, enum verdict v)
{
    struct pending *p = &g->pending[i];
    if (v == ACCEPTED) {
        socket_no_delay(p->fd);
        g->peer[ntohl(p->both.hello.rank)] = p->fd;
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
    bool foreign = p->got >= HELLO + offsetof(struct hello, rank) &&
                   (ntohl(p->both.hello.magic) != kinds[g->config->kind].magic ||
                    ntohl(p->both.hello.version) != VERSION);
    if (n > 0 && p->got < sizeof p->both && !foreign)
        return false;
    enum verdict v = n > 0 ? check_hello(g, &p->both, &answer) : NO_HELLO;
    if (v != ACCEPTED)
        answer = (struct answer){0};
    answer.verdict = htonl((uint32_t)v);
    if (v != NO_HELLO && !send_now(p->fd, &answer, sizeof answer))
        v = NO_HELLO;
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
    struct pending *p = &g->pending[g->n++];
    *p = (struct pending){.fd = fd, .end = clock_s() + HELLO_S, .got = HELLO};
    p->both.challenge.magic = htonl(kinds[g->config->kind].magic);
    if (nonce_make(p->both.challenge.nonce) != STATUS_OK || !send_now(fd, &p->both, HELLO))
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
    for (int i = n - 1; i >= 0; i--) /* downwards, because removing an entry moves the entries after
                                      * it */
        if (!(p[i].revents && read_pending(g, i)) && now >= g->pending[i].end)
            end_pending(g, i, NO_HELLO);
    for (int i = 0; i < g->listeners; i++)
        if (p[n + i].revents)
            accept_pending(g, g->listener[i]);
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

static enum status gather(const struct rendezvous_config *c, const int *listener, int listeners,
                          int *peer)
{
    struct gathering g = {
        .config = c, .peer = peer, .here = 1, .listener = listener, .listeners = listeners};
    double end = clock_s() + c->timeout_s;
    enum status st = STATUS_OK;
    digest_text(c->job, g.job);
    while (st == STATUS_OK && g.here < c->size) {
        serve_pending(&g);
        drop_lost_nodes(&g);
        st = check_interrupted(c);
        if (st == STATUS_OK && c->timeout_s > 0 && clock_s() >= end && g.here < c->size)
            st = fail_absent(&g);
    }
    while (g.n > 0)
        end_pending(&g, 0, NO_HELLO);
    return st;
}

/* Warns if ranks on other machines cannot connect, because this machine knows its own name as a
 * loopback address, as Debian's /etc/hosts does. */
static void warn_loopback(const struct rendezvous_config *c, const struct addrinfo *list)
{
    const char *a = c->address;
    char number[64];
    bool meant = strncmp(a, "localhost", 9) == 0 || strncmp(a, "127.", 4) == 0 || *a == '[';
    if (meant || c->one_host ||
        getnameinfo(list->ai_addr, list->ai_addrlen, number, sizeof number, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return;
    fprintf(stderr,
            "ampscale: warning: --rendezvous '%s': '%.*s' is the loopback address %s on this "
            "machine (see /etc/hosts); ranks on other machines cannot connect: give an address "
            "that they can reach\n",
            a, (int)strcspn(a, ":"), a, number);
}

static enum status meet_as_first(const struct rendezvous_config *c, double end, int *peer)
{
    int listener[SOCKET_ADDRESSES_MAX], n;
    struct addrinfo *list;
    bool loopback;
    TRY(resolve(c, end, &list, &loopback));
    enum status st = socket_listen(c->address, list, listener, &n);
    if (st == STATUS_OK && loopback)
        warn_loopback(c, list);
    freeaddrinfo(list);
    if (st == STATUS_OK)
        st = gather(c, listener, n, peer);
    while (n > 0)
        close(listener[--n]);
    return st;
}

enum status rendezvous_gather(const struct rendezvous_config *c, int listener, int *peer)
{
    for (int i = 0; i < c->size; i++)
        peer[i] = -1;
    return gather(c, &listener, 1, peer);
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
    return socket_get(fd, message, size, HELLO_S) == STATUS_OK ? STATUS_OK : STATUS_IO;
}

/* Exchanges the messages of the protocol with rank 0. STATUS_IO: there is no rank 0 yet, but it may
 * start later. */
static enum status introduce(const struct rendezvous_config *c, int fd, double end)
{
    const uint32_t magic = htonl(kinds[c->kind].magic);
    const char *noun = kinds[c->kind].noun;
    struct exchange both = {
        .hello = {magic, htonl(VERSION), htonl((uint32_t)c->rank), htonl((uint32_t)c->size)}};
    struct answer answer;
    unsigned char proof[DIGEST_BYTES];
    digest_text(c->job, both.hello.job);
    TRY(nonce_make(both.hello.nonce));
    TRY(get_message(c, fd, &both.challenge, HELLO, clock_s() + HELLO_S)); /* from any program */
    if (both.challenge.magic != magic)
        return STATUS_IO;
    secret_proof(c->secret, kinds[c->kind].label, &both, PROVED, both.proof);
    if (!send_now(fd, &both.hello, sizeof both - HELLO))
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
static enum status try_addresses(const struct rendezvous_config *c, const struct addrinfo *list,
                                 double end, int *peer)
{
    enum status st = STATUS_IO;
    for (; list && st == STATUS_IO; list = list->ai_next) {
        int fd = socket_connect(list, HELLO_S);
        if (fd < 0)
            continue;
        st = introduce(c, fd, end);
        socket_no_delay(fd);
        if (st == STATUS_OK)
            peer[0] = fd;
        else
            close(fd);
    }
    return st;
}

/* Connects to rank 0 at `given` or, if it is NULL, at c->address. Retries until the time `end`,
 * because rank 0 may not listen yet, and its name may become another address. */
static enum status meet_first(const struct rendezvous_config *c, const struct addrinfo *given,
                              double end, int *peer)
{
    struct addrinfo *found = NULL;
    bool loopback;
    enum status st = STATUS_IO;
    for (int i = 0; st == STATUS_IO && (i == 0 || clock_s() < end); i++) {
        if (!given && i % LOOK_UP_EVERY == 0) {
            if (found)
                freeaddrinfo(found);
            TRY(resolve(c, end, &found, &loopback));
        }
        st = try_addresses(c, given ? given : found, end, peer);
        if (st != STATUS_IO)
            break;
        comm_sleep(AGAIN_NS);
        enum status stop = check_interrupted(c);
        st = stop == STATUS_OK ? STATUS_IO : stop;
    }
    if (found)
        freeaddrinfo(found);
    if (st != STATUS_IO)
        return st;
    return status_fail(STATUS_LIBRARY, "%s %d of %d found no %s 0 of its job at '%s' within %g s",
                       kinds[c->kind].noun, c->rank, c->size, kinds[c->kind].noun, c->address,
                       c->timeout_s);
}

enum status rendezvous_meet(const struct rendezvous_config *c, int *peer)
{
    double end = c->timeout_s > 0 ? clock_s() + c->timeout_s : 1e300;
    for (int i = 0; i < c->size; i++)
        peer[i] = -1;
    return c->rank == 0 ? meet_as_first(c, end, peer) : meet_first(c, NULL, end, peer);
}

/* --- a file with the address --- */

const char *rendezvous_file_path(const char *text)
{
    return text && strncmp(text, "file://", 7) == 0 ? text + 7 : NULL;
}

/* Rank 0 gives the file its name only when it is complete. */
enum status rendezvous_file_meet(const char *path, int rank, double timeout_s,
                                 char address[RENDEZVOUS_ADDRESS_MAX])
{
    double end = clock_s() + timeout_s;
    char host[256] = "", *bytes;
    size_t size;
    int port;
    if (rank == 0) {
        if (path_exists(path))
            return status_fail(STATUS_USAGE,
                               "--rendezvous 'file://%s': the file exists; remove it or give "
                               "another name: each job needs a new file",
                               path);
        if (gethostname(host, sizeof host - 1) != 0)
            return status_fail(STATUS_IO, "cannot read this host's name: %s", strerror(errno));
        TRY(host_free_port(false, &port));
        snprintf(address, RENDEZVOUS_ADDRESS_MAX, "%s:%d", host, port);
        return file_replace(path, address, strlen(address));
    }
    for (; !path_exists(path); comm_sleep(AGAIN_NS)) {
        TRY(stop_check());
        if (timeout_s > 0 && clock_s() >= end)
            return status_fail(STATUS_LIBRARY,
                               "--rendezvous 'file://%s': rank 0 has not written the file within "
                               "%g s",
                               path, timeout_s);
    }
    TRY(file_read(path, RENDEZVOUS_ADDRESS_MAX - 1, &bytes, &size));
    snprintf(address, RENDEZVOUS_ADDRESS_MAX, "%.*s", (int)size, bytes);
    free(bytes);
    return STATUS_OK;
}

/* --- the communicator --- */

/* A rank's intent, or the first failure. All ranks run the same build and have the same byte order.
 */
struct message {
    struct comm_intent intent; /* kind FAILED: the sender has failed */
    int32_t st;                /* STATUS_OK, or the status of a failure, which `text` describes */
    char text[CONTROL_TEXT_MAX];
};
enum { FAILED = -1 };

struct tcp {
    struct comm base;
    double timeout_s;
    int *peer;              /* (size) sockets; see rendezvous_meet */
    void *scratch;          /* on rank 0: MESSAGE_MAX bytes */
    struct message failure; /* the first failure; st is STATUS_OK if there is none */
};

/* Keeps a failure if it is the first; returns the first failure. */
static enum status fail(struct tcp *t, int32_t st, const char *text)
{
    struct message *f = &t->failure;
    if (f->st == STATUS_OK) {
        *f = (struct message){.intent.kind = FAILED,
                              .st = st > 0 && st <= STATUS_LOST_RANK ? st : STATUS_LIBRARY};
        snprintf(f->text, sizeof f->text, "%.*s", CONTROL_TEXT_MAX - 1, text);
    }
    return status_fail((enum status)f->st, "%s", f->text);
}

/* `st` is the result of a transfer between this rank and `rank`. A failure in `st` fails `op`. */
static enum status check_moved(struct tcp *t, int rank, const struct comm_op *op, enum status st)
{
    char text[COMM_TEXT_MAX];
    if (st == STATUS_OK)
        return STATUS_OK;
    st = status_context(STATUS_LOST_RANK, "the connection to rank %d was lost in %s", rank,
                        comm_op_text(op, text));
    return fail(t, (int32_t)st, status_message());
}

static enum status put(struct tcp *t, int rank, const struct comm_op *op, const void *data,
                       size_t bytes)
{
    return check_moved(t, rank, op, socket_put(t->peer[rank], data, bytes, t->timeout_s));
}

static enum status get(struct tcp *t, int rank, const struct comm_op *op, void *data, size_t bytes)
{
    return check_moved(t, rank, op, socket_get(t->peer[rank], data, bytes, t->timeout_s));
}

/* On rank 0: sends `data` to all ranks except `but`. */
static enum status put_all(struct tcp *t, const struct comm_op *op, int but, const void *data,
                           size_t bytes)
{
    for (int r = 1; r < t->base.size; r++)
        if (r != but)
            TRY(put(t, r, op, data, bytes));
    return STATUS_OK;
}

/* Compares the intents of all ranks. If a rank is lost, rank 0 continues with the next rank,
 * because the other ranks must still learn of the failure. */
static enum status agree(struct tcp *t, const struct comm_op *op)
{
    struct comm_intent own = comm_intent_of(op);
    struct message m = {.intent = own};
    if (t->base.rank > 0) {
        TRY(put(t, 0, op, &m, sizeof m));
        TRY(get(t, 0, op, &m, sizeof m));
        return m.st == STATUS_OK ? STATUS_OK : fail(t, m.st, m.text);
    }
    for (int r = 1; r < t->base.size; r++)
        if (get(t, r, op, &m, sizeof m) != STATUS_OK)
            continue;
        else if (m.intent.kind == FAILED)
            (void)!fail(t, m.st, m.text);
        else if (comm_intent_check(r, &m.intent, &own) != STATUS_OK)
            (void)!fail(t, STATUS_INVALID, status_message());
    m = t->failure;
    for (int r = 1; r < t->base.size; r++)
        (void)!put(t, r, op, &m, sizeof m);
    return t->failure.st == STATUS_OK ? STATUS_OK : fail(t, 0, "");
}

static enum status check_control(struct tcp *t, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX];
    bool wide = op->type == DTYPE_F64 || op->type == DTYPE_F32 || op->type == DTYPE_I32;
    bool moves = op->kind == COMM_ALLGATHER || op->kind == COMM_BROADCAST;
    bool sums = op->kind == COMM_ALLREDUCE && wide && op->reduction != COMM_AVG;
    if (op->kind == COMM_BARRIER ||
        ((moves || sums) && comm_recv_bytes(&t->base, op) <= MESSAGE_MAX))
        return STATUS_OK;
    return fail(t,
                status_fail(STATUS_UNSUPPORTED,
                            "%s of %lld elements: the connections to rank 0 carry only control; "
                            "data between processes needs MPI, Gloo or NCCL",
                            comm_op_text(op, text), (long long)op->count),
                status_message());
}

static enum status broadcast(struct tcp *t, const struct comm_op *op, size_t bytes)
{
    int rank = t->base.rank;
    if (rank > 0)
        return rank == op->root ? put(t, 0, op, op->recv, bytes) : get(t, 0, op, op->recv, bytes);
    if (op->root != 0)
        TRY(get(t, op->root, op, op->recv, bytes));
    return put_all(t, op, op->root, op->recv, bytes);
}

/* Gathers the ranks' parts or, in an all-reduce, combines them in rank order. */
static enum status gather_or_reduce(struct tcp *t, const struct comm_op *op, size_t bytes)
{
    size_t part = comm_send_bytes(&t->base, op);
    if (t->base.rank > 0) {
        TRY(put(t, 0, op, op->send, part));
        return get(t, 0, op, op->recv, bytes);
    }
    if (op->recv != op->send && part > 0)
        memcpy(op->recv, op->send, part);
    for (int r = 1; r < t->base.size; r++)
        if (op->kind == COMM_ALLGATHER) {
            TRY(get(t, r, op, (char *)op->recv + (size_t)r * part, part));
        } else {
            TRY(get(t, r, op, t->scratch, part));
            comm_reduce(op->type, op->reduction, op->recv, op->recv, t->scratch, op->count);
        }
    return put_all(t, op, 0, op->recv, bytes);
}

static enum status tcp_run(struct comm *c, const struct comm_op *op)
{
    struct tcp *t = (struct tcp *)c;
    size_t bytes = comm_recv_bytes(c, op);
    if (t->failure.st != STATUS_OK)
        return fail(t, 0, "");
    if (c->size == 1) {
        comm_copy_alone(c, op);
        return STATUS_OK;
    }
    TRY(agree(t, op));
    TRY(check_control(t, op));
    if (op->kind == COMM_BARRIER) /* it is over, because all ranks have sent their intents */
        return STATUS_OK;
    return op->kind == COMM_BROADCAST ? broadcast(t, op, bytes) : gather_or_reduce(t, op, bytes);
}

/* Sends the failure to rank 0 in place of this rank's next intent. Rank 0 sends it to the other
 * ranks. A rank that cannot be reached detects the lost connection itself. */
static void tcp_fail(struct comm *c, enum status st, const char *text)
{
    struct tcp *t = (struct tcp *)c;
    char message[CONTROL_TEXT_MAX];
    if (t->failure.st != STATUS_OK)
        return;
    snprintf(message, sizeof message, "rank %d: %s", c->rank, text);
    (void)!fail(t, (int32_t)st, message);
    for (int r = 0; r < c->size; r++)
        if (t->peer[r] >= 0)
            (void)!socket_put(t->peer[r], &t->failure, sizeof t->failure, t->timeout_s);
}

int control_socket(const struct comm *c, int rank)
{
    return ((const struct tcp *)c)->peer[rank];
}

static void close_all(int *peer, int size)
{
    for (int r = 0; r < size; r++) {
        if (peer[r] >= 0)
            close(peer[r]);
        peer[r] = -1;
    }
}

static void tcp_close(struct comm *c)
{
    struct tcp *t = (struct tcp *)c;
    if (t->peer)
        close_all(t->peer, c->size);
    free(t->peer);
    free(t->scratch);
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
    t->base.calls = &calls;
    t->base.rank = config->rank;
    t->base.size = config->size;
    t->timeout_s = config->timeout_s;
    CHECK(array_new((char **)&t->scratch, config->rank == 0 ? MESSAGE_MAX : 0));
    CHECK(array_new(&t->peer, config->size));
    memset(t->peer, -1, (size_t)config->size * sizeof *t->peer);
    CHECK(secret_read(config->secret_file, &secret));
    CHECK(rendezvous_meet(&meeting, t->peer));
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
    int32_t st, n;
    char text[CONTROL_TEXT_MAX]; /* the addresses, or why rank 0 fails */
    unsigned char secret[NONCE_BYTES];
    struct sockaddr_storage address[SOCKET_ADDRESSES_MAX];
};

/* Makes `list` the addresses of the meeting. */
static const struct addrinfo *list_meeting(struct meeting *m, struct addrinfo *list)
{
    for (int i = 0; i < m->n; i++)
        list[i] = (struct addrinfo){.ai_family = m->address[i].ss_family,
                                    .ai_addr = (struct sockaddr *)&m->address[i],
                                    .ai_addrlen = sizeof m->address[i],
                                    .ai_next = i + 1 < m->n ? &list[i + 1] : NULL};
    return list;
}

/* Finds the addresses of this machine that are up: those at loopback, or all others. */
static void find_own_addresses(const struct ifaddrs *all, bool loopback, struct meeting *m)
{
    for (; all && m->n < SOCKET_ADDRESSES_MAX; all = all->ifa_next) {
        const struct sockaddr *a = all->ifa_addr;
        const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
        bool wanted =
            a && (all->ifa_flags & IFF_UP) && !(all->ifa_flags & IFF_LOOPBACK) != loopback;
        if (wanted && a->sa_family == AF_INET)
            memcpy(&m->address[m->n++], a, sizeof(struct sockaddr_in));
        else if (wanted && a->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&a6->sin6_addr))
            memcpy(&m->address[m->n++], a, sizeof *a6);
    }
}

/* On rank 0: listens at free ports, and describes them in `m`. */
static enum status open_meeting(bool one_host, struct meeting *m, int *listener, int *n)
{
    struct addrinfo list[SOCKET_ADDRESSES_MAX];
    struct ifaddrs *all;
    char host[64], port[8];
    TRY(nonce_make(m->secret));
    if (getifaddrs(&all) != 0)
        return status_fail(STATUS_IO, "cannot list this machine's addresses: %s", strerror(errno));
    if (!one_host)
        find_own_addresses(all, false, m);
    if (m->n == 0)
        find_own_addresses(all, true, m);
    freeifaddrs(all);
    TRY(socket_listen("any address of its machine", m->n ? list_meeting(m, list) : NULL, listener,
                      n));
    m->n = *n;
    for (int i = 0; i < m->n; i++) {
        struct sockaddr *a = (struct sockaddr *)&m->address[i];
        socklen_t size = sizeof m->address[i];
        if (getsockname(listener[i], a, &size) != 0 ||
            getnameinfo(a, size, host, sizeof host, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
            return status_fail(STATUS_IO, "cannot find the port at which rank 0 listens");
        text_join(m->text, sizeof m->text, ", ", a->sa_family == AF_INET ? "%s:%s" : "[%s]:%s",
                  host, port);
    }
    return STATUS_OK;
}

/* Each other rank sends rank 0 one byte when it has accepted rank 0's proof. */
static enum status connect_meeting(const struct rendezvous_config *c, struct meeting *m,
                                   const int *listener, int *peer)
{
    struct addrinfo list[SOCKET_ADDRESSES_MAX];
    char byte = 0;
    if (c->rank > 0) {
        TRY(meet_first(c, list_meeting(m, list), clock_s() + c->timeout_s, peer));
        return socket_put(peer[0], &byte, 1, HELLO_S);
    }
    TRY(gather(c, listener, m->n, peer));
    for (int r = 1; r < c->size; r++)
        if (socket_get(peer[r], &byte, 1, c->timeout_s) != STATUS_OK)
            return status_context(STATUS_LIBRARY, "the connection to rank %d was lost", r);
    return STATUS_OK;
}

/* Rank 0 broadcasts its result `st`. A rank fails if it or rank 0 has failed. */
static enum status share_result(enum status st,
                                enum status (*share)(void *context, void *data, size_t bytes),
                                void *context, struct meeting *m)
{
    struct first_failure own = {0};
    first_failure_keep(&own, st);
    m->st = (int32_t)st;
    if (st != STATUS_OK)
        snprintf(m->text, sizeof m->text, "%.*s", CONTROL_TEXT_MAX - 1, own.message);
    TRY(share(context, m, sizeof *m));
    m->text[CONTROL_TEXT_MAX - 1] = '\0';
    if (st == STATUS_OK && m->st == STATUS_OK)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "%s", st == STATUS_OK ? m->text : own.message);
}

enum status control_meet(int rank, int size, bool one_host, double timeout_s,
                         enum status (*share)(void *context, void *data, size_t bytes),
                         void *context, int *peer)
{
    struct meeting m = {0}, result = {0};
    struct secret secret = {.size = NONCE_BYTES};
    int listener[SOCKET_ADDRESSES_MAX], n = 0;
    for (int r = 0; r < size; r++)
        peer[r] = -1;
    if (size == 1)
        return STATUS_OK;
    enum status st = rank == 0 ? open_meeting(one_host, &m, listener, &n) : STATUS_OK;
    CHECK(share_result(st, share, context, &m));
    memcpy(secret.bytes, m.secret, NONCE_BYTES);
    const struct rendezvous_config c = {.address = m.text,
                                        .rank = rank,
                                        .size = size,
                                        .timeout_s = timeout_s > 0 ? timeout_s : MEET_S,
                                        .job = "",
                                        .secret = &secret};
    st = connect_meeting(&c, &m, listener, peer);
    CHECK(share_result(st, share, context, &result));
done:
    if (st != STATUS_OK)
        close_all(peer, size);
    close_all(listener, n);
    secret_clear(&secret);
    return st;
}
