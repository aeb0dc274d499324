/* Finds the place of a node's ranks in a job without MPI. If the launchers of the nodes join, they
 * meet before each start at the address of the rendezvous as ranks do, with the index of the node
 * in place of the rank. Each node sends node 0 its number of ranks, and then gets its place. Before
 * that node 0 has closed its listening sockets, so that ranks that connect at the address
 * afterwards reach rank 0. */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
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

/* A message: to node 0, the node's number of ranks, and whether it restarts; from node 0, the rest
 * of struct node_place, with size 0 if too few nodes have joined. Numbers are in network byte
 * order; `resume` is 0 or not. */
struct message {
    uint32_t ranks, first, size, resume;
};

static enum status check_signals(const void *context)
{
    const struct launch *l = context;
    return process_signals_check(&l->signals);
}

/* Waits until all nodes have joined, or until the time limit. Sets ranks[i] to node i's number of
 * ranks, 0 if it has not joined, and *here to the number of nodes that have joined. */
static enum status take_nodes(const struct launch *l, struct rendezvous_config *r, int *peer,
                              struct node_place *place, uint32_t *ranks, int *here)
{
    const struct launch_config *c = &l->config;
    double end = clock_s() + c->join_timeout;
    enum status st;
    do {
        for (int i = 0; i < c->nodes; i++) /* so that these nodes join again */
            fd_close(&peer[i]);
        st = rendezvous_meet(r, peer);
        if (st != STATUS_OK && st != STATUS_LIBRARY) /* which means that a node is missing */
            return st;
        place->size = *here = 0;
        place->resume = l->resume;
        for (int i = 0; i < c->nodes; i++) {
            struct message m = {.ranks = htonl((uint32_t)c->node_ranks), .resume = l->resume};
            /* A node whose launcher has ended sends no number, and has not joined. */
            bool sent = i == 0 ||
                        (peer[i] >= 0 && socket_get(peer[i], &m, sizeof m, MESSAGE_S) == STATUS_OK);
            ranks[i] = sent && ntohl(m.ranks) <= LAUNCHER_RANKS_MAX ? ntohl(m.ranks) : 0;
            place->size += (int)ranks[i];
            place->resume = place->resume || (ranks[i] > 0 && m.resume);
            *here += ranks[i] > 0;
        }
        r->timeout_s = end - clock_s();
    } while (st == STATUS_OK && *here < c->nodes && r->timeout_s > 0);
    return STATUS_OK;
}

static enum status join_as_first(const struct launch *l, struct rendezvous_config *r, int *peer,
                                 struct node_place *place)
{
    const struct launch_config *c = &l->config;
    uint32_t *ranks, first = 0;
    int here;
    TRY(array_new(&ranks, c->nodes));
    enum status st = take_nodes(l, r, peer, place, ranks, &here);
    bool enough = st == STATUS_OK && here >= c->min_nodes;
    for (int i = 0; i < c->nodes && st == STATUS_OK; i++) {
        const struct message m = {.first = htonl(first),
                                  .size = enough ? htonl((uint32_t)place->size) : 0,
                                  .resume = place->resume};
        /* If a message is not sent, rank 0 will report that the node's ranks are missing. */
        if (i > 0 && ranks[i] > 0)
            (void)!socket_put(peer[i], &m, sizeof m, MESSAGE_S);
        first += ranks[i];
    }
    free(ranks);
    TRY(st);
    if (!enough)
        return status_fail(STATUS_LIBRARY,
                           "only %d of %d nodes joined at '%s' within %d s, but the job needs %d",
                           here, c->nodes, c->rendezvous, c->join_timeout, c->min_nodes);
    if (here < c->nodes)
        fprintf(stderr,
                "ampscale: warning: %d of %d nodes have joined within %d s: world size %d\n", here,
                c->nodes, c->join_timeout, place->size);
    return STATUS_OK;
}

/* Joins node 0, and waits until it sends this node's place, when all nodes have joined or at the
 * time limit. Retries until then, because node 0's launcher may end and start again meanwhile, or
 * may not have detected yet that its ranks must restart. */
static enum status join_first(const struct launch *l, struct rendezvous_config *r, int *peer,
                              struct node_place *place)
{
    double end = clock_s() + l->config.join_timeout;
    do {
        struct message m = {.ranks = htonl((uint32_t)l->config.node_ranks), .resume = l->resume};
        r->timeout_s = end - clock_s();
        TRY(rendezvous_meet(r, peer));
        struct pollfd p = {.fd = peer[0], .events = POLLIN};
        bool connected = socket_put(peer[0], &m, sizeof m, MESSAGE_S) == STATUS_OK;
        if (connected) /* node 0 limits the time, and may let all join once more */
            end = clock_s() + l->config.join_timeout;
        double answer = clock_s() + l->config.join_timeout + MESSAGE_S;
        while (connected && poll(&p, 1, CHECK_MS) <= 0) {
            TRY(check_signals(l));
            connected = clock_s() < answer; /* a machine that vanished closes nothing */
        }
        connected = connected && socket_get(peer[0], &m, sizeof m, MESSAGE_S) == STATUS_OK;
        fd_close(&peer[0]);
        if (connected && m.size == 0)
            return status_fail(STATUS_LIBRARY, "too few nodes have joined node 0 at '%s'",
                               l->config.rendezvous);
        place->first = (int)ntohl(m.first);
        place->size = (int)ntohl(m.size);
        place->resume = m.resume;
        if (connected)
            return STATUS_OK;
    } while (clock_s() < end);
    return status_fail(STATUS_LIBRARY, "node %d lost node 0 at '%s' and could not connect again",
                       l->config.node, l->config.rendezvous);
}

static enum status join(const struct launch *l, struct node_place *place)
{
    const struct launch_config *c = &l->config;
    char job[LAUNCHER_JOB_MAX];
    struct secret secret = {0};
    int *peer = NULL;
    enum status st;
    const char *out = launch_command_value(c->argc, c->argv, "--out");
    place->size = 0;
    if (!launcher_job(job))
        snprintf(job, sizeof job, "%s", out ? out : "");
    CHECK(secret_read(launch_command_value(c->argc, c->argv, "--secret-file"), &secret));
    CHECK(array_new(&peer, c->nodes));
    for (int i = 0; i < c->nodes; i++)
        peer[i] = -1;
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
    CHECK(c->node == 0 ? join_as_first(l, &r, peer, place) : join_first(l, &r, peer, place));
done:
    for (int i = 0; peer && i < c->nodes; i++)
        fd_close(&peer[i]);
    free(peer);
    secret_clear(&secret);
    return st;
}

enum status node_place_find(const struct launch *l, struct node_place *place)
{
    const struct launch_config *c = &l->config;
    int port;
    *place = (struct node_place){
        .first = c->node * c->node_ranks, .size = c->nodes * c->node_ranks, .resume = l->resume};
    if (!c->rendezvous) {
        TRY(host_free_port(true, &port));
        return path_format(place->address, sizeof place->address, "127.0.0.1:%d", port);
    }
    TRY(path_format(place->address, sizeof place->address, "%s", c->rendezvous));
    return l->joins ? join(l, place) : STATUS_OK;
}
