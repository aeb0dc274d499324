/* A peer: another training program, a process that answers requests on its standard input, as
 * tests/peers/torch_step.py does (its docstring describes the protocol).
 *
 *     peer_start(&p, ...);                        in the background
 *     TRY(peer_ask(&p, "eager", "amp", 256, 40, &images_per_s, why));
 *     peer_stop(&p);
 *
 * If the peer dies or hangs after it was ready, it is started again, but only once. */
#pragma once

#include "bench/train_child.h"

enum { PEER_ABOUT_SIZE = 160, PEER_LINE_SIZE = 512 };

enum peer_state {
    PEER_NONE, /* not started yet, or ended */
    PEER_STARTING,
    PEER_READY,
};

struct peer {
    /* Set by the caller. */
    const char *script; /* a .py file is run by the script run.sh of its folder, which finds a
                         * Python with PyTorch; without run.sh, by python3. Any other file is
                         * executed directly */
    const char *device, *net;
    int image_size;
    int threads;     /* 0: the peer's default */
    const char *dir; /* folder of its logs: peer.log, and peer-again.log of the second process */
    const struct process_signals *signals;
    const struct time_budget *budget;

    /* The caller initialises these members to 0, but sets `lost` to true if there is no script. */
    enum peer_state state;
    bool lost;                   /* whether the peer will never be started again */
    bool cut;                    /* whether the last request had no answer in time */
    int starts;                  /* number of starts */
    char about[PEER_ABOUT_SIZE]; /* the peer's versions; "" before the peer is ready for the first
                                  * time */
    char why[TRAIN_WHY_SIZE];    /* why the last peer process ended; "" if none has ended */
    struct process process;
    uint64_t started_ns;
    int fd;                    /* socket to the process's standard input and output */
    char line[PEER_LINE_SIZE]; /* (n) bytes that were read but are not yet a whole line */
    size_t n;
};

/* Starts the peer in the background, unless it is already running or is lost. */
MUST_CHECK enum status peer_start(struct peer *p);

/* Asks the peer for its training throughput. If the peer gives no throughput, *images_per_s is NAN
 * and `why` has the reason. STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status peer_ask(struct peer *p, const char *mode, const char *precision, int batch,
                                int steps, double *images_per_s, char why[TRAIN_WHY_SIZE]);

void peer_stop(struct peer *p);
