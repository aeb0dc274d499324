/* A peer of training: a process that answers requests on its standard input, as
 * tests/peers/torch_step.py does (the protocol is in its docstring).
 *
 *     peer_start(&p, ...);                        in the background
 *     TRY(peer_ask(&p, "eager", "amp", 256, 40, &images_per_s, why));
 *     peer_stop(&p);
 *
 * One that dies or hangs is replaced, once. */
#ifndef BENCH_THROUGHPUT_PEER_H
#define BENCH_THROUGHPUT_PEER_H

#include "bench/train_child.h"

enum { PEER_ABOUT_SIZE = 160, PEER_LINE_SIZE = 512 };

enum peer_state {
    PEER_NONE, /* not started yet, or ended */
    PEER_STARTING,
    PEER_READY,
};

struct peer {
    /* Set by the caller. */
    const char *script; /* a .py file is run by python3, or by run.sh beside it, which finds one
                         * with PyTorch; another by itself */
    const char *device, *net;
    int image_size;
    int threads;     /* 0: as the peer likes */
    const char *log; /* a file for its messages */
    const struct process_signals *signals;
    const struct time_budget *budget;

    /* Begin as 0. */
    enum peer_state state;
    bool lost;                   /* it has ended, and is not replaced any more */
    int starts;                  /* how often it was started */
    char about[PEER_ABOUT_SIZE]; /* versions, once it was ready */
    char why[TRAIN_WHY_SIZE];    /* why the last one ended; "": none did */
    struct process process;
    uint64_t started_ns;
    int fd;                    /* of the conversation */
    char line[PEER_LINE_SIZE]; /* heard, up to its end */
    size_t n;
};

/* Starts it where none runs and none was lost. */
MUST_CHECK enum status peer_start(struct peer *p);

/* The images/s of a training step. NAN: `why` says why there are none. STATUS_INTERRUPTED after a
 * signal. */
MUST_CHECK enum status peer_ask(struct peer *p, const char *mode, const char *precision, int batch,
                                int steps, double *images_per_s, char why[TRAIN_WHY_SIZE]);

void peer_stop(struct peer *p);
#endif
