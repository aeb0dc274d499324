/* Ranks that connect over real TCP sockets. Each rank is a thread of the test. */
#pragma once

#include "comm/comm.h"

#include <pthread.h>

enum { TCP_RANKS = 3 };

struct tcp_rank {
    struct comm_tcp_config config;
    const struct gloo_port *gloo; /* NULL: all data passes through rank 0 */
    void (*body)(struct tcp_rank *r);
    struct comm *c;
    int failures;
    enum status st;
    char message[512];
    pthread_t thread;
};

void tcp_rank_keep(struct tcp_rank *r, enum status st);

/* `arg` is a struct tcp_rank. Opens the rank's communicator, calls `body` and closes the
 * communicator. Rank 0 starts last: the first connection attempts of the other ranks are refused.
 */
void *tcp_rank_run(void *arg);

/* Writes an address of this machine with a port at which no process listens. */
void tcp_free_address(char *out, size_t size);

/* Starts only the ranks 0 to present - 1 of a job of `size` ranks. */
void tcp_ranks_run(struct tcp_rank *rank, int present, int size, double timeout_s,
                   const struct gloo_port *gloo, void (*body)(struct tcp_rank *));

/* Executes two barriers, but rank 1 executes only the first. */
void tcp_rank_leave_1(struct tcp_rank *r);

/* Checks that if one rank fails, every rank ends with the message of that rank. */
void tcp_ranks_check_failure(const struct gloo_port *gloo);

/* Checks that every rank fails if one rank starts a different operation. */
void tcp_ranks_check_disagreement(const struct gloo_port *gloo);
