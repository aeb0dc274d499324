/* Ranks as threads of a test. */
#pragma once

#include "comm/comm.h"

#include <pthread.h>

/* What a rank's thread does, and what came of it. */
struct rank {
    struct comm *c;
    struct comm *host;  /* NULL where `c` is of host memory */
    struct device *dev; /* NULL there */
    void (*body)(struct rank *r);
    int failures;
    enum status st;
    char message[256];
    pthread_t thread;
};

/* Runs the bodies of `size` ranks, each on a thread, and waits for them. */
void ranks_run(struct rank *rank, int size);

/* Keeps what came of an operation, with the thread's message of a failure. */
void rank_keep(struct rank *r, enum status st);
