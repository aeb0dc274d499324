/* Ranks that meet at a TCP address: over real sockets, each a thread of the test. */
#pragma once

#include "comm/comm.h"

#include <pthread.h>

enum { TCP_RANKS = 3 };

struct tcp_rank {
    struct comm_tcp_config config;
    const struct gloo_port *gloo; /* NULL: data passes through rank 0 */
    void (*body)(struct tcp_rank *r);
    struct comm *c;
    int failures;
    enum status st;
    char message[512];
    pthread_t thread;
};

void tcp_rank_keep(struct tcp_rank *r, enum status st);

/* Opens the communicator of `arg`, a struct tcp_rank, carries out its body and closes. Rank 0 comes
 * last, so that the others are refused at first. */
void *tcp_rank_run(void *arg);

/* A port of this machine that nobody listens at. */
void tcp_free_address(char *out, size_t size);

/* Runs ranks [0, present) of `size`. */
void tcp_ranks_run(struct tcp_rank *rank, int present, int size, double timeout_s,
                   const struct gloo_port *gloo, void (*body)(struct tcp_rank *));

/* Two barriers, of which rank 1 runs only the first. */
void tcp_rank_leave_1(struct tcp_rank *r);

/* Checks that the failure of a rank ends all ranks with its message. */
void tcp_ranks_check_failure(const struct gloo_port *gloo);

/* Checks that a rank that starts another operation is refused on all ranks. */
void tcp_ranks_check_disagreement(const struct gloo_port *gloo);
