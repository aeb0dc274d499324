/* Inside launch/: the launchers of a job's nodes, which start without MPI, agree on the nodes of
 * the next start. Node 0 listens at the address of the rendezvous, which its rank 0 uses
 * afterwards. */
#pragma once

#include "base/launcher.h"
#include "base/process.h"

/* Where a node's ranks are in the job. */
struct node_place {
    int nodes;                          /* nodes that take part */
    int first;                          /* rank of the node's first process */
    int size;                           /* ranks of the job */
    bool resume;                        /* this is a restart */
    char address[LAUNCHER_ADDRESS_MAX]; /* where rank 0 listens */
};

struct join_config {
    const char *address;     /* HOST:PORT of node 0 */
    const char *job;         /* names the job, as in rendezvous_config */
    const char *secret_file; /* NULL: AMPSCALE_SECRET, if set */
    bool insecure;           /* an address beyond loopback needs no secret */
    int node, ranks;         /* number of this node, and number of its ranks */
    int min_nodes, nodes;    /* minimum and maximum number of nodes */
    int timeout;             /* limit in seconds for node 0 to gather more than min_nodes, and for
                              * other nodes to find node 0 */
    bool restart;            /* this launcher's ranks have failed before */
    const struct process_signals *signals;
};

/* On node 0: waits for all nodes, or at the time limit for at least min_nodes, and numbers their
 * ranks in the order of the nodes. On other nodes: waits for node 0's decision. *place is filled
 * in. STATUS_LIBRARY: too few nodes, no node 0, or a refusal; STATUS_USAGE: the address or the
 * secret is wrong; STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status join_nodes(const struct join_config *c, struct node_place *place);
