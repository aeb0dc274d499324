/* Before each start of a job without MPI, the launchers of its nodes meet at the address of the
 * rendezvous as ranks do, with the index of the node in place of the rank. Each node then sends
 * node 0 its number of ranks, and node 0 sends each node its place. Before that node 0 has closed
 * its listening sockets, so that ranks that connect at the address afterwards reach rank 0. */
#include "base/array.h"
#include "base/clock.h"
#include "comm/control.h"
#include "launch/parts.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_MS = 100 };
static const double MESSAGE_S = 2; /* time limit for a message that the other side sends at once */

/* Messages; numbers are in network byte order, and other values are 0 or not. */
struct node_ranks {
    uint32_t ranks, restart;
};

struct answer {
    uint32_t enough, first, size, resume; /* see struct node_place; enough = 0: too few nodes */
};

bool launch_joins(const struct launch_config *c)
{
    return c->nodes > 1 && (c->restarts > 0 || c->min_nodes < c->nodes);
}

static enum status check_signals(const void *context)
{
    const struct launch *l = context;
    int signo = process_signals_received(&l->signals);
    return signo ? status_fail(STATUS_INTERRUPTED, "interrupted by %s", strsignal(signo))
                 : STATUS_OK;
}

static enum status join_as_first(const struct launch *l, const struct rendezvous_config *r,
                                 int *peer, struct node_place *place)
{
    const struct launch_config *c = &l->config;
    struct node_ranks *node, m = {htonl((uint32_t)c->node_ranks), l->resume};
    uint32_t here = 0, first = 0;
    TRY(array_new(&node, c->nodes));
    enum status st = rendezvous_meet(r, peer);
    if (st == STATUS_LIBRARY) /* a node is missing */
        st = STATUS_OK;
    for (int i = 0; st == STATUS_OK && i < c->nodes; i++) {
        /* A node whose launcher has ended sends no number, and has not joined. */
        bool sent =
            i == 0 || (peer[i] >= 0 && socket_get(peer[i], &m, sizeof m, MESSAGE_S) == STATUS_OK);
        if (!sent || ntohl(m.ranks) == 0 || ntohl(m.ranks) > LAUNCHER_RANKS_MAX)
            continue;
        node[i].ranks = ntohl(m.ranks);
        place->size += (int)node[i].ranks;
        place->resume = place->resume || m.restart;
        here++;
    }
    bool enough = here >= (uint32_t)c->min_nodes;
    for (int i = 0; st == STATUS_OK && i < c->nodes; i++) {
        const struct answer a = {enough, htonl(first), htonl((uint32_t)place->size), place->resume};
        /* If a message is not sent, rank 0 will report that the node's ranks are missing. */
        if (i > 0 && node[i].ranks > 0)
            (void)!socket_put(peer[i], &a, sizeof a, MESSAGE_S);
        first += node[i].ranks;
    }
    free(node);
    if (st == STATUS_OK && !enough)
        st = status_fail(STATUS_LIBRARY,
                         "only %u of %d nodes joined at '%s' within %d s, but the job needs %d",
                         here, c->nodes, c->rendezvous, c->join_timeout, c->min_nodes);
    else if (st == STATUS_OK && here < (uint32_t)c->nodes)
        fprintf(stderr,
                "ampscale: warning: %u of %d nodes have joined within %d s: world size %d\n", here,
                c->nodes, c->join_timeout, place->size);
    return st;
}

/* Waits until node 0 sends this node's place. Node 0 sends it when all nodes have joined, or at the
 * time limit. STATUS_IO: the connection was lost. */
static enum status await_place(const struct launch *l, int fd, struct node_place *place)
{
    const struct node_ranks own = {htonl((uint32_t)l->config.node_ranks), l->resume};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct answer a;
    if (socket_put(fd, &own, sizeof own, MESSAGE_S) != STATUS_OK)
        return STATUS_IO;
    while (poll(&p, 1, CHECK_MS) <= 0)
        TRY(check_signals(l));
    if (socket_get(fd, &a, sizeof a, MESSAGE_S) != STATUS_OK)
        return STATUS_IO;
    if (a.enough == 0)
        return status_fail(STATUS_LIBRARY, "too few nodes have joined node 0 at '%s'",
                           l->config.rendezvous);
    place->first = (int)ntohl(a.first);
    place->size = (int)ntohl(a.size);
    place->resume = a.resume;
    return STATUS_OK;
}

/* Joins node 0. Retries until the time limit, for two reasons: node 0's launcher may end and start
 * again meanwhile, or it may not have detected yet that its ranks must restart. */
static enum status join_first(const struct launch *l, struct rendezvous_config *r, int *peer,
                              struct node_place *place)
{
    double end = clock_s() + l->config.join_timeout;
    do {
        r->timeout_s = end - clock_s();
        TRY(rendezvous_meet(r, peer));
        enum status st = await_place(l, peer[0], place);
        close(peer[0]);
        peer[0] = -1;
        if (st != STATUS_IO)
            return st;
    } while (clock_s() < end);
    return status_fail(STATUS_LIBRARY, "node %d lost node 0 at '%s' and could not connect again",
                       l->config.node, l->config.rendezvous);
}

enum status join_nodes(const struct launch *l, struct node_place *place)
{
    const struct launch_config *c = &l->config;
    char job[LAUNCHER_JOB_MAX];
    struct secret secret = {0};
    int *peer = NULL;
    enum status st;
    const char *out = launch_command_value(c->argc, c->argv, "--out");
    *place = (struct node_place){0};
    CHECK(path_format(place->address, sizeof place->address, "%s", c->rendezvous));
    if (!launcher_job(job))
        snprintf(job, sizeof job, "%s", out ? out : "");
    CHECK(secret_read(launch_command_value(c->argc, c->argv, "--secret-file"), &secret));
    CHECK(array_new(&peer, c->nodes));
    struct rendezvous_config r = {.kind = RENDEZVOUS_NODES,
                                  .address = c->rendezvous,
                                  .rank = c->node,
                                  .size = c->nodes,
                                  .timeout_s = c->join_timeout,
                                  .job = job,
                                  .secret = &secret,
                                  .interrupted = check_signals,
                                  .context = l};
    for (int i = 0; i < c->argc; i++)
        r.insecure = r.insecure || strcmp(c->argv[i], "--insecure") == 0;
    for (int i = 0; i < c->nodes; i++)
        peer[i] = -1;
    CHECK(c->node == 0 ? join_as_first(l, &r, peer, place) : join_first(l, &r, peer, place));
done:
    for (int i = 0; peer && i < c->nodes; i++)
        if (peer[i] >= 0)
            close(peer[i]);
    free(peer);
    secret_clear(&secret);
    return st;
}
