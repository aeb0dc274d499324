/* The protocol by which launchers join:
 *
 *     node    -> node 0   hello: job, node, ranks, a nonce
 *     node 0  -> node     challenge: a nonce
 *     node    -> node 0   proof: HMAC of both messages with the secret
 *     node 0  -> node     answer: the node's place, HMAC of all messages
 *
 * Node 0 answers when all nodes have joined, or at the time limit.
 *
 * Node 0 closes its listening sockets before it answers, so that the ranks which then connect at
 * the same address reach rank 0. */
#include "launch/join.h"

#include "base/array.h"
#include "base/clock.h"
#include "comm/secret.h"
#include "comm/socket.h"

#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VERSION = 1, CHECK_MS = 100 };
static const uint32_t MAGIC = 0x616d706a; /* "ampj" */
static const double MESSAGE_S = 2;        /* time limit for the other side's next message */
static const char NODE_LABEL[] = "ampscale node", FIRST_LABEL[] = "ampscale node 0";

enum verdict { ACCEPTED, OTHER_VERSION, OTHER_JOB, NODE_TAKEN, WRONG_SECRET, TOO_FEW, VERDICTS };

static const char *const reasons[VERDICTS] = {
    [OTHER_VERSION] = "node 0 runs another version of this program",
    [OTHER_JOB] = "node 0 belongs to another job; choose another port, or give all nodes of a job "
                  "the same AMPSCALE_JOB or --out",
    [NODE_TAKEN] = "node 0 has another node of this number, or expects fewer nodes; give each "
                   "node its --node-rank, and all the same --nnodes",
    [WRONG_SECRET] = "node 0 has another secret; give all nodes the same AMPSCALE_SECRET or "
                     "--secret-file",
    [TOO_FEW] = "too few nodes have joined",
};

/* Messages; numbers are in network byte order. */
struct hello {
    uint32_t magic, version, node, ranks, restart;
    unsigned char job[DIGEST_BYTES], nonce[NONCE_BYTES];
};

struct challenge {
    uint32_t magic, verdict;
    unsigned char nonce[NONCE_BYTES];
};

struct answer {
    uint32_t verdict, nodes, first, size, resume;
};

struct exchange {
    struct hello hello;
    struct challenge challenge;
    struct answer answer;
};

/* What node 0 knows about a node. */
struct member {
    int fd;    /* connection to the node; -1: none, as for node 0 itself */
    int ranks; /* 0: the node has not joined */
    bool restart;
    struct exchange messages;
};

struct gathering {
    const struct join_config *config;
    const struct secret *secret;
    unsigned char job[DIGEST_BYTES];
    int listener[SOCKET_ADDRESSES_MAX], listeners;
    struct member *member; /* (nodes) */
    int here;              /* number of nodes that have joined, including node 0 */
};

static double now_s(void)
{
    return (double)clock_ns() * 1e-9;
}

static enum status check_signals(const struct join_config *c)
{
    int signo = process_signals_received(c->signals);
    return signo ? status_fail(STATUS_INTERRUPTED, "interrupted by %s", strsignal(signo))
                 : STATUS_OK;
}

/* --- node 0 --- */

static enum verdict check_hello(const struct gathering *g, const struct hello *h)
{
    uint32_t node = ntohl(h->node), ranks = ntohl(h->ranks);
    if (ntohl(h->version) != VERSION)
        return OTHER_VERSION;
    if (!digest_equal(h->job, g->job))
        return OTHER_JOB;
    bool free_number = node > 0 && node < (uint32_t)g->config->nodes && g->member[node].ranks == 0;
    return free_number && ranks > 0 && ranks <= LAUNCHER_RANKS_MAX ? ACCEPTED : NODE_TAKEN;
}

static bool send_now(int fd, const void *message, size_t size)
{
    return send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* Answers a new connection. False: the other side is not a node of this job, and the caller closes
 * the connection. */
static bool admit(struct gathering *g, int fd)
{
    struct exchange m = {.challenge = {.magic = htonl(MAGIC)}};
    unsigned char proof[DIGEST_BYTES], want[DIGEST_BYTES];
    if (socket_get(fd, &m.hello, sizeof m.hello, MESSAGE_S) != STATUS_OK ||
        ntohl(m.hello.magic) != MAGIC || nonce_make(m.challenge.nonce) != STATUS_OK)
        return false;
    enum verdict v = check_hello(g, &m.hello);
    m.challenge.verdict = htonl((uint32_t)v);
    if (!send_now(fd, &m.challenge, sizeof m.challenge) || v != ACCEPTED ||
        socket_get(fd, proof, sizeof proof, MESSAGE_S) != STATUS_OK)
        return false;
    secret_proof(g->secret, NODE_LABEL, &m, sizeof m, want);
    if (!digest_equal(proof, want)) {
        const struct answer refusal = {.verdict = htonl(WRONG_SECRET)};
        (void)send_now(fd, &refusal, sizeof refusal);
        return false;
    }
    g->member[ntohl(m.hello.node)] = (struct member){.fd = fd,
                                                     .ranks = (int)ntohl(m.hello.ranks),
                                                     .restart = m.hello.restart != 0,
                                                     .messages = m};
    g->here++;
    return true;
}

/* Removes nodes whose launcher has ended. The end of a launcher closes its connection. */
static void drop_lost(struct gathering *g)
{
    char byte;
    for (int i = 1; i < g->config->nodes; i++) {
        struct member *m = &g->member[i];
        if (m->ranks == 0 || recv(m->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
            continue;
        close(m->fd);
        *m = (struct member){.fd = -1};
        g->here--;
    }
}

static void accept_nodes(struct gathering *g)
{
    struct pollfd p[SOCKET_ADDRESSES_MAX];
    for (int i = 0; i < g->listeners; i++)
        p[i] = (struct pollfd){.fd = g->listener[i], .events = POLLIN};
    if (poll(p, (nfds_t)g->listeners, CHECK_MS) <= 0)
        return;
    for (int i = 0; i < g->listeners; i++) {
        int fd = p[i].revents ? accept4(g->listener[i], NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd >= 0 && !admit(g, fd))
            close(fd);
    }
}

static enum status gather_nodes(struct gathering *g)
{
    const struct join_config *c = g->config;
    double end = now_s() + c->timeout;
    while (g->here < c->nodes) {
        TRY(check_signals(c));
        accept_nodes(g);
        drop_lost(g);
        if (now_s() < end)
            continue;
        if (g->here >= c->min_nodes)
            return STATUS_OK;
        return status_fail(STATUS_LIBRARY,
                           "only %d of %d nodes joined at '%s' within %d s, but the job needs %d",
                           g->here, c->nodes, c->address, c->timeout, c->min_nodes);
    }
    return STATUS_OK;
}

static void answer_member(const struct gathering *g, struct member *m, const struct answer *a)
{
    unsigned char proof[DIGEST_BYTES];
    m->messages.answer = *a;
    secret_proof(g->secret, FIRST_LABEL, &m->messages, sizeof m->messages, proof);
    if (send_now(m->fd, a, sizeof *a))
        (void)send_now(m->fd, proof, sizeof proof);
}

/* Numbers the ranks of the nodes that have joined, and answers the nodes. */
static void place_nodes(struct gathering *g, enum verdict v, struct node_place *place)
{
    int first = 0;
    for (int i = 0; i < g->config->nodes; i++) {
        place->size += g->member[i].ranks;
        place->nodes += g->member[i].ranks > 0;
        place->resume = place->resume || g->member[i].restart;
    }
    for (int i = 0; i < g->config->nodes; i++) {
        struct member *m = &g->member[i];
        const struct answer a = {.verdict = htonl((uint32_t)v),
                                 .nodes = htonl((uint32_t)place->nodes),
                                 .first = htonl((uint32_t)first),
                                 .size = htonl((uint32_t)place->size),
                                 .resume = htonl(place->resume)};
        if (i > 0 && m->ranks > 0)
            answer_member(g, m, &a);
        first += m->ranks;
    }
}

static enum status join_as_first(struct gathering *g, const struct addrinfo *list,
                                 struct node_place *place)
{
    const struct join_config *c = g->config;
    enum status st;
    CHECK(array_new(&g->member, c->nodes));
    for (int i = 0; i < c->nodes; i++)
        g->member[i].fd = -1;
    g->member[0] = (struct member){.fd = -1, .ranks = c->ranks, .restart = c->restart};
    g->here = 1;
    CHECK(socket_listen(c->address, list, g->listener, &g->listeners));
    st = gather_nodes(g);
    for (int i = 0; i < g->listeners; i++)
        close(g->listener[i]);
    place_nodes(g, st == STATUS_OK ? ACCEPTED : TOO_FEW, place);
done:
    for (int i = 1; g->member && i < c->nodes; i++)
        if (g->member[i].fd >= 0)
            close(g->member[i].fd);
    free(g->member);
    return st;
}

/* --- other nodes --- */

static enum status check_verdict(const struct join_config *c, uint32_t verdict)
{
    uint32_t v = ntohl(verdict);
    if (v == ACCEPTED)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "node %d was refused at '%s': %s", c->node, c->address,
                       v < VERDICTS ? reasons[v] : reasons[OTHER_VERSION]);
}

/* Waits for the answer of node 0, which comes when all nodes have joined, or at the time limit.
 * STATUS_IO: the connection was lost. */
static enum status await_answer(const struct join_config *c, int fd, struct answer *a)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, CHECK_MS) <= 0)
        TRY(check_signals(c));
    return socket_get(fd, a, sizeof *a, MESSAGE_S) == STATUS_OK ? STATUS_OK : STATUS_IO;
}

/* Exchanges the messages of the protocol with node 0, and writes this node's place. STATUS_IO:
 * there is no node 0 yet. */
static enum status ask_place(const struct join_config *c, const struct secret *secret, int fd,
                             struct node_place *place)
{
    struct exchange m = {.hello = {htonl(MAGIC), htonl(VERSION), htonl((uint32_t)c->node),
                                   htonl((uint32_t)c->ranks), htonl(c->restart)}};
    unsigned char proof[DIGEST_BYTES], want[DIGEST_BYTES];
    digest_text(c->job, m.hello.job);
    TRY(nonce_make(m.hello.nonce));
    if (!send_now(fd, &m.hello, sizeof m.hello) ||
        socket_get(fd, &m.challenge, sizeof m.challenge, MESSAGE_S) != STATUS_OK ||
        ntohl(m.challenge.magic) != MAGIC)
        return STATUS_IO;
    TRY(check_verdict(c, m.challenge.verdict));
    secret_proof(secret, NODE_LABEL, &m, sizeof m, proof);
    if (!send_now(fd, proof, sizeof proof))
        return STATUS_IO;
    TRY(await_answer(c, fd, &m.answer));
    TRY(check_verdict(c, m.answer.verdict));
    if (socket_get(fd, proof, sizeof proof, MESSAGE_S) != STATUS_OK)
        return STATUS_IO;
    secret_proof(secret, FIRST_LABEL, &m, sizeof m, want);
    if (!digest_equal(proof, want))
        return status_fail(STATUS_LIBRARY,
                           "the process at '%s' does not know the secret of this job", c->address);
    uint32_t nodes = ntohl(m.answer.nodes), first = ntohl(m.answer.first);
    uint32_t size = ntohl(m.answer.size), ranks = (uint32_t)c->ranks;
    if (size > LAUNCHER_RANKS_MAX || first > size || ranks > size - first || nodes > size)
        return status_fail(
            STATUS_LIBRARY,
            "the process at '%s' gave this node impossible ranks: from %u on, in a job of %u",
            c->address, first, size);
    place->nodes = (int)nodes;
    place->first = (int)first;
    place->size = (int)size;
    place->resume = m.answer.resume != 0;
    return STATUS_OK;
}

/* Joins node 0. Retries until the time limit, because node 0's launcher may start later, or may not
 * have noticed yet that its ranks must restart. */
static enum status join_first(const struct join_config *c, const struct secret *secret,
                              const struct addrinfo *list, struct node_place *place)
{
    double end = now_s() + c->timeout;
    do {
        int fd = socket_connect(list, MESSAGE_S);
        enum status st = fd >= 0 ? ask_place(c, secret, fd, place) : STATUS_IO;
        if (fd >= 0)
            close(fd);
        if (st != STATUS_IO)
            return st;
        poll(NULL, 0, CHECK_MS);
        TRY(check_signals(c));
    } while (now_s() < end);
    return status_fail(
        STATUS_LIBRARY,
        "node %d found no launcher of node 0 at '%s' within %d s: that launcher has not "
        "started, or node 0's ranks run without this node",
        c->node, c->address, c->timeout);
}

enum status join_nodes(const struct join_config *c, struct node_place *place)
{
    struct secret secret = {0};
    struct addrinfo *list;
    bool loopback;
    enum status st = STATUS_OK;
    *place = (struct node_place){0};
    snprintf(place->address, sizeof place->address, "%s", c->address);
    TRY(secret_read(c->secret_file, &secret));
    TRY(socket_resolve(c->address, &list, &loopback));
    struct gathering g = {.config = c, .secret = &secret};
    digest_text(c->job, g.job);
    if (!loopback && secret.size == 0 && !c->insecure)
        st = status_fail(STATUS_USAGE,
                         "--rendezvous '%s' is reachable from other machines, but no secret is "
                         "set: give all nodes the same AMPSCALE_SECRET, or accept the risk with "
                         "train's --insecure",
                         c->address);
    if (st == STATUS_OK)
        st = c->node == 0 ? join_as_first(&g, list, place) : join_first(c, &secret, list, place);
    freeaddrinfo(list);
    secret_clear(&secret);
    return st;
}
