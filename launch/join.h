/* Inside launch/, for jobs without MPI: before each start, the launchers of a job's nodes agree on
 * the nodes that take part. Node 0 listens at the address of the rendezvous, and rank 0 uses the
 * same address afterwards. */
#pragma once

#include "base/launcher.h"
#include "base/process.h"

/* The place of a node's ranks in the job. */
struct node_place {
    int nodes;                          /* nodes that take part */
    int first;                          /* rank of the node's first process */
    int size;                           /* ranks of the job */
    bool resume;                        /* this is a restart */
    char address[LAUNCHER_ADDRESS_MAX]; /* where rank 0 listens */
};

struct join_config {
    const char *address;     /* HOST:PORT of node 0 */
    const char *job;         /* identifies the job; see struct rendezvous_config */
    const char *secret_file; /* NULL: AMPSCALE_SECRET, if set */
    bool insecure;           /* an address beyond loopback needs no secret */
    int node, ranks;         /* this node's index, and its number of ranks */
    int min_nodes, nodes;    /* minimum and maximum number of nodes */
    /* Time limit in seconds. Node 0 waits no longer than this for further nodes, and other nodes
     * try no longer than this to reach node 0. */
    int timeout;
    bool restart; /* this launcher's ranks have failed before */
    const struct process_signals *signals;
};

/* On node 0: waits until all nodes have joined, or until the time limit. At least min_nodes must
 * have joined by then. Then numbers the ranks in the order of the nodes. On other nodes: waits for
 * node 0's decision. Fills in *place. STATUS_LIBRARY: too few nodes, no node 0, or a refusal;
 * STATUS_USAGE: the address or the secret is wrong; STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status join_nodes(const struct join_config *c, struct node_place *place);
