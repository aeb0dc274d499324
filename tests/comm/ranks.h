/* Ranks as threads of a test. */
#pragma once

#include "comm/comm.h"

#include <pthread.h>

/* What a rank's thread executes, and its result. */
struct rank {
    struct comm *c;
    struct comm *host;  /* NULL if `c` uses host memory */
    struct device *dev; /* NULL if `c` uses host memory */
    void (*body)(struct rank *r);
    int failures;
    enum status st;
    char message[256];
    pthread_t thread;
};

/* Runs the bodies of `size` ranks, each on a thread, and waits for them. */
void ranks_run(struct rank *rank, int size);

/* Stores the result of an operation, with the thread's message if it failed. */
void rank_keep(struct rank *r, enum status st);
