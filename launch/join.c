/* Launchers connect by the same rendezvous as ranks (comm/control.h), with the index of the node
 * in place of the rank. Each node then sends node 0 its number of ranks, and node 0 sends each node
 * its place.
 *
 * Node 0 closes its listening sockets before it sends places. The ranks that connect at the same
 * address afterwards therefore reach rank 0. */
#include "launch/join.h"

#include "base/array.h"
#include "base/clock.h"
#include "comm/control.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_MS = 100 };
static const double MESSAGE_S = 2; /* time limit for a message that the other side sends at once */

/* Messages; numbers are in network byte order. */
struct node_ranks {
    uint32_t ranks, restart;
};

struct answer {
    uint32_t nodes, first, size, resume; /* see struct node_place; nodes = 0: too few nodes */
};

static enum status check_signals(const void *context)
{
    const struct join_config *c = context;
    int signo = process_signals_received(c->signals);
    return signo ? status_fail(STATUS_INTERRUPTED, "interrupted by %s", strsignal(signo))
                 : STATUS_OK;
}

/* --- node 0 --- */

/* Receives the number of ranks of each node that has connected. If a node's launcher has ended and
 * sends no number, the node has not joined. Returns the number of nodes, including this one. */
static int receive_ranks(const struct join_config *c, int *peer, struct node_ranks *node)
{
    int nodes = 1;
    node[0] = (struct node_ranks){(uint32_t)c->ranks, c->restart};
    for (int i = 1; i < c->nodes; i++) {
        struct node_ranks m;
        if (peer[i] < 0 || socket_get(peer[i], &m, sizeof m, MESSAGE_S) != STATUS_OK ||
            ntohl(m.ranks) == 0 || ntohl(m.ranks) > LAUNCHER_RANKS_MAX)
            continue;
        node[i] = (struct node_ranks){ntohl(m.ranks), ntohl(m.restart)};
        nodes++;
    }
    return nodes;
}

/* Numbers the ranks of the nodes that have joined, and sends the nodes their places. */
static void send_places(const struct join_config *c, const int *peer, const struct node_ranks *node,
                        const struct node_place *place)
{
    uint32_t first = 0;
    for (int i = 0; i < c->nodes; i++) {
        const struct answer a = {.nodes = htonl((uint32_t)place->nodes),
                                 .first = htonl(first),
                                 .size = htonl((uint32_t)place->size),
                                 .resume = htonl(place->resume)};
        /* If a message is not sent, rank 0 will report that the node's ranks are missing. */
        if (i > 0 && node[i].ranks > 0)
            (void)!socket_put(peer[i], &a, sizeof a, MESSAGE_S);
        first += node[i].ranks;
    }
}

static enum status join_as_first(const struct join_config *c, const struct rendezvous_config *r,
                                 int *peer, struct node_place *place)
{
    struct node_ranks *node;
    TRY(array_new(&node, c->nodes));
    enum status st = rendezvous_meet(r, peer);
    if (st == STATUS_OK || st == STATUS_LIBRARY) {
        int here = receive_ranks(c, peer, node);
        st = STATUS_OK;
        for (int i = 0; i < c->nodes; i++) {
            place->size += (int)node[i].ranks;
            place->resume = place->resume || node[i].restart;
        }
        if (here < c->min_nodes)
            st = status_fail(STATUS_LIBRARY,
                             "only %d of %d nodes joined at '%s' within %d s, but the job needs %d",
                             here, c->nodes, c->address, c->timeout, c->min_nodes);
        else
            place->nodes = here;
        send_places(c, peer, node, place);
    }
    free(node);
    return st;
}

/* --- other nodes --- */

/* Waits until node 0 sends this node's place. Node 0 sends it when all nodes have joined, or at the
 * time limit. STATUS_IO: the connection was lost. */
static enum status await_place(const struct join_config *c, int fd, struct node_place *place)
{
    const struct node_ranks own = {htonl((uint32_t)c->ranks), htonl(c->restart)};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct answer a;
    if (socket_put(fd, &own, sizeof own, MESSAGE_S) != STATUS_OK)
        return STATUS_IO;
    while (poll(&p, 1, CHECK_MS) <= 0)
        TRY(check_signals(c));
    if (socket_get(fd, &a, sizeof a, MESSAGE_S) != STATUS_OK)
        return STATUS_IO;
    uint32_t nodes = ntohl(a.nodes), first = ntohl(a.first);
    uint32_t size = ntohl(a.size), ranks = (uint32_t)c->ranks;
    if (nodes == 0)
        return status_fail(STATUS_LIBRARY, "too few nodes have joined node 0 at '%s'", c->address);
    if (size > LAUNCHER_RANKS_MAX || first > size || ranks > size - first || nodes > size)
        return status_fail(
            STATUS_LIBRARY,
            "the process at '%s' gave this node invalid ranks: first %u, in a job of %u",
            c->address, first, size);
    place->nodes = (int)nodes;
    place->first = (int)first;
    place->size = (int)size;
    place->resume = a.resume != 0;
    return STATUS_OK;
}

/* Joins node 0. Retries until the time limit, for two reasons: node 0's launcher may end and start
 * again meanwhile, or it may not have detected yet that its ranks must restart. */
static enum status join_first(const struct join_config *c, struct rendezvous_config *r, int *peer,
                              struct node_place *place)
{
    double end = clock_s() + c->timeout;
    do {
        r->timeout_s = end - clock_s();
        TRY(rendezvous_meet(r, peer));
        enum status st = await_place(c, peer[0], place);
        close(peer[0]);
        peer[0] = -1;
        if (st != STATUS_IO)
            return st;
    } while (clock_s() < end);
    return status_fail(STATUS_LIBRARY, "node %d lost node 0 at '%s' and could not connect again",
                       c->node, c->address);
}

enum status join_nodes(const struct join_config *c, struct node_place *place)
{
    struct secret secret = {0};
    int *peer = NULL;
    enum status st;
    *place = (struct node_place){0};
    snprintf(place->address, sizeof place->address, "%s", c->address);
    CHECK(secret_read(c->secret_file, &secret));
    CHECK(array_new(&peer, c->nodes));
    struct rendezvous_config r = {.kind = RENDEZVOUS_NODES,
                                  .address = c->address,
                                  .rank = c->node,
                                  .size = c->nodes,
                                  .timeout_s = c->timeout,
                                  .job = c->job,
                                  .secret = &secret,
                                  .insecure = c->insecure,
                                  .interrupted = check_signals,
                                  .context = c};
    for (int i = 0; i < c->nodes; i++)
        peer[i] = -1;
    CHECK(c->node == 0 ? join_as_first(c, &r, peer, place) : join_first(c, &r, peer, place));
done:
    for (int i = 0; peer && i < c->nodes; i++)
        if (peer[i] >= 0)
            close(peer[i]);
    free(peer);
    secret_clear(&secret);
    return st;
}
