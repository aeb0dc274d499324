/* Connects the processes of a job at a TCP address, where they prove that they belong to the job.
 * The processes are the ranks or, before the ranks start, the launchers of the job's nodes. A
 * launcher uses the index of its node as its rank. */
#pragma once

#include "comm/secret.h"

#include <stdbool.h>

enum rendezvous_kind { RENDEZVOUS_RANKS, RENDEZVOUS_NODES };

struct rendezvous_config {
    enum rendezvous_kind kind; /* a process retries if it finds a rank 0 of the other kind */
    const char *address;       /* HOST:PORT of rank 0 */
    int rank, size;
    double timeout_s; /* time limit to connect all ranks; 0: none */
    const char *job;  /* identifies the job: the same text on all of its ranks, another text in
                       * other jobs */
    const struct secret *secret; /* the same on all ranks */
    bool insecure;               /* allows an address beyond loopback without a secret */

    /* Called several times a second. If it fails, the rendezvous ends. NULL: stop_check. */
    enum status (*interrupted)(const void *context);
    const void *context;
};

/* Connects the ranks: on rank 0, peer[r] is a socket to rank r; on other ranks, peer[0] is a socket
 * to rank 0; all other entries are -1. The caller closes the sockets, also after a failure.
 *
 * Rank 0 listens only at the addresses that `address` names. It handles all connections at the same
 * time, each for at most HELLO_S. When PENDING_MAX connections are pending and another process
 * connects, rank 0 closes the oldest pending connection. A rank retries until it finds rank 0 or
 * the time limit is over. Both sides prove that they know the secret: each answers the random
 * challenge of the other side. Rank 0 refuses processes of another job, world size or program
 * version, a rank that has connected already, and wrong proofs. A rank that is refused fails at
 * once with the reason. Data after the proofs is neither encrypted nor authenticated. A node whose
 * launcher ends before all nodes have connected may connect again.
 *
 * STATUS_USAGE for an address that is wrong, or beyond loopback without a secret. STATUS_LIBRARY on
 * rank 0: a rank r did not connect in time; its peer[r] is -1. */
MUST_CHECK enum status rendezvous_meet(const struct rendezvous_config *c, int *peer);

/* Does rank 0's part of rendezvous_meet. `listener` is a listening socket. The function does not
 * close it. */
MUST_CHECK enum status rendezvous_gather(const struct rendezvous_config *c, int listener,
                                         int *peer);
