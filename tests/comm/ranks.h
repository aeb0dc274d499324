/* Runs the ranks of a communicator as threads or processes of a test, over any transport. */
#pragma once

#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RANKS_MAX = 8 };

/* The function that a rank executes, its arguments and its result. */
struct rank {
    struct comm *c;
    struct device *dev; /* NULL if `c` uses host memory */
    void (*body)(struct rank *r);
    int failures;
    enum status st; /* OK if the communicator was opened */
    char message[512];
    atomic_bool lost; /* the rank will not end by itself; its process is killed */
    pthread_t thread;
};

/* The ranks of a job. A process has `each` ranks; the ranks of one process are opened together. */
struct job {
    const struct transport *transport;
    struct rank *rank;
    int size, each;
    double timeout_s;
    char address[64];          /* of a rendezvous; nothing listens there yet */
    struct comm *c[RANKS_MAX]; /* of each rank, and its device; `open` sets them */
    struct device *dev[RANKS_MAX];
    struct comm *between[RANKS_MAX]; /* connects the processes */
    struct comm *below[RANKS_MAX];   /* of the transport; closed after all ranks */
};

/* `open` opens the communicators of a process, whose first rank is `first`. */
struct transport {
    const char *name; /* comm_name */
    bool forks;       /* each process is one, not a thread of the test */
    int each;         /* ranks of a process; 0: all */
    enum status (*open)(struct job *job, int first);
};

extern const struct transport local_transport, staged_transport, tcp_transport, gloo_transport;

/* Whether the transport is Gloo and the build has none. */
bool transport_is_missing(const struct transport *t);

/* Opens a device for each rank of the process whose first rank is `first`. */
MUST_CHECK enum status job_open_devices(struct job *job, int first);

/* Runs `body` in each of `size` ranks, and closes the communicators. A rank whose communicator
 * cannot be opened does not run. */
void ranks_run(struct rank *rank, const struct transport *t, int size, double timeout_s,
               void (*body)(struct rank *));

/* Stores the status of an operation in *r, and the thread's error message if it failed. */
void rank_keep(struct rank *r, enum status st);

/* Runs `body` in each of `size` ranks, and checks that no rank fails. Does nothing if the transport
 * is missing. */
void ranks_succeed(const struct transport *t, int size, void (*body)(struct rank *));

/* Writes an address of this machine with a port at which no process listens. */
void free_address(char *out, size_t size);
