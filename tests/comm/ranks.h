/* Runs the ranks of a communicator as threads of one test process. */
#pragma once

#include "comm/comm.h"

#include <pthread.h>

/* The function that a rank's thread executes, its arguments and its result. */
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

/* Runs `size` threads, each of which executes the body of one rank, and waits for them. */
void ranks_run(struct rank *rank, int size);

/* Stores the status of an operation in *r, and the thread's error message if it failed. */
void rank_keep(struct rank *r, enum status st);
