/* The parts of the communicator over Gloo. A communication thread carries out the operations, and
 * is the only one that uses the sockets. */
#pragma once

#include "comm/gloo_port.h"
#include "comm/rendezvous.h"
#include "comm/tcp.h"

#include <poll.h>

struct gloo {
    struct comm base;
    struct comm *control; /* the connections to rank 0; owned */
    const struct gloo_port *port;
    struct gloo_link *link;
    int *socket; /* (size) to each other rank, for data; -1: none */
    double timeout_s;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members down to `failure`, and `done` and `st` of slots */
    pthread_cond_t done;  /* an operation is over, or a failure is known */
    int64_t started;      /* number of the last operation to carry out */
    bool idle;            /* the thread waits for descriptors, `wake` among them */
    bool close, fail;     /* requests */
    enum status fail_status;
    char fail_message[TCP_TEXT_MAX];
    struct first_failure failure;

    /* The thread's own. */
    int64_t carried_out;          /* number of the last operation that is over */
    const struct comm_op *op;     /* the operation under way, or NULL */
    struct first_failure trouble; /* becomes `failure` when the operation has ended */
    int *watch;                   /* (watches) `wake`, then the sockets of `control`; -1: none */
    int watches;
    struct pollfd *poll;   /* (watches) */
    int64_t *closed_after; /* (size) last operation of a rank that has closed; -1: not closed */
    struct gloo_transfer *transfer; /* (size) of the exchange under way */
    bool *answered;                 /* (size) on rank 0, during an inquiry */
    bool all_closed;                /* all ranks close */
};

/* Connects every two ranks: socket[r] to rank r, -1 for this one. Each rank but rank 0 listens,
 * until the lower ranks have connected, at the local address of its connection to rank 0. Both
 * sides prove that they know `secret` and a random word that rank 0 sends over `control`. The
 * caller closes the sockets, also after a failure; all ranks fail if one does. */
MUST_CHECK enum status gloo_mesh_open(struct comm *control, const struct secret *secret,
                                      double timeout_s, int *socket);

/* Below: functions of the thread (gloo_control.c). After a failure `trouble` is set. */

/* Handles watch[i], which is readable. Returns whether there is trouble. */
bool gloo_readable(struct gloo *g, int i);

/* The operation under way has made no progress in time: finds the rank at fault. Returns whether
 * there is trouble. */
bool gloo_overdue(struct gloo *g);

/* Explains why an operation ended. */
void gloo_explain(struct gloo *g, const struct gloo_result *result);

/* Checks, on rank 0, that no rank has closed before the operation under way. */
void gloo_check_closed(struct gloo *g);

/* Waits for one of the descriptors until it is until_ns (INT64_MAX: no limit), and handles those
 * that are readable. */
void gloo_listen_once(struct gloo *g, int64_t until_ns);

/* Waits for descriptors until there is trouble, `*over` (may be NULL) is set or it is until_ns. */
void gloo_listen(struct gloo *g, const bool *over, int64_t until_ns);

/* Waits, under the time limit, until all ranks close. */
void gloo_part(struct gloo *g);
