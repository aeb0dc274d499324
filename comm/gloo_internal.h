/* The parts of the Gloo communicator. A communication thread carries out the operations, and no
 * other thread uses the sockets. */
#pragma once

#include "comm/control.h"
#include "comm/gloo_port.h"
#include "comm/internal.h"

#include <poll.h>

/* The kinds of messages that belong to no operation. Messages of operations have a kind of enum
 * comm_kind. */
enum tcp_kind {
    TCP_FAILED = -1,  /* the sender has failed; `st` and `message` describe the failure */
    TCP_QUERY = -2,   /* rank 0 asks whether the receiver runs */
    TCP_ALIVE = -3,   /* the answer to TCP_QUERY */
    TCP_OVERDUE = -4, /* to rank 0: the sender's operation has made no progress in time */
    TCP_CLOSING = -5, /* to rank 0: the sender starts no more operations; from rank 0: no rank
                       * starts more operations */
    TCP_DIFFERS = -6, /* to rank 0: another rank carries out another operation than the sender */
};

enum { TCP_TEXT_MAX = CONTROL_TEXT_MAX };

/* A message over the connections to rank 0. All ranks run the same build and have the same byte
 * order. */
struct tcp_message {
    struct comm_intent intent;    /* with a kind of enum tcp_kind, `number` is the last operation
                                   * that the sender has carried out */
    struct comm_intent under_way; /* with a kind of enum tcp_kind: the operation that the sender is
                                   * carrying out; number 0: none */
    int32_t st;                   /* STATUS_OK, or the status of a failure, which `message`
                                   * describes */
    char message[TCP_TEXT_MAX];
};

struct gloo {
    struct comm base;
    struct comm *control; /* has the connections to rank 0; owned */
    const struct gloo_port *port;
    struct gloo_link *link;
    int *socket; /* (size) a socket to each other rank, for data; -1: none */
    double timeout_s;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members from here to `failure`, and `done` and `st` of each
                           * slot */
    pthread_cond_t done;  /* an operation is over, or a failure is known */
    int64_t started;      /* number of the last operation that was started */
    bool idle;        /* the communication thread waits until a descriptor in `watch` is readable */
    bool close, fail; /* requests of the caller's thread */
    enum status fail_status;
    char fail_message[TCP_TEXT_MAX];
    struct first_failure failure;

    /* Members that only the communication thread uses. */
    int64_t carried_out;          /* number of the last operation that is over */
    const struct comm_op *op;     /* the operation in progress, or NULL */
    struct first_failure trouble; /* copied to `failure` when the operation has ended */
    int *watch;                   /* (watches) first a descriptor that wakes the thread, then
                                   * the sockets of `control`; -1: not watched */
    int watches;
    struct pollfd *poll;   /* (watches) */
    int64_t *closed_after; /* (size) if the rank has closed, the number of its last operation;
                            * -1: the rank has not closed */
    struct gloo_transfer *transfer; /* (size) the transfers of the exchange in progress */
    struct tcp_message *answer;     /* (size) on rank 0, during an inquiry: the answers; of another
                                     * kind than TCP_ALIVE: the rank has not answered */
    bool all_closed;                /* every rank is closing */
    int64_t disputed; /* on rank 0: the number of an operation that differs between other ranks, and
                       * that rank 0 has not begun; 0: none */
};

/* Connects each pair of ranks: socket[r] is connected to rank r, and is -1 for this rank. Each rank
 * except rank 0 listens at the local address of its connection to rank 0, until the lower ranks
 * have connected. Both sides prove that they know `secret` and a random text that rank 0 sends over
 * `control`. The caller closes the sockets, also after a failure. If one rank fails, all ranks
 * fail. */
MUST_CHECK enum status gloo_mesh_open(struct comm *control, const struct secret *secret,
                                      double timeout_s, int *socket);

/* Only the communication thread calls the functions below (gloo_control.c). They store a failure in
 * `trouble`. */

/* Handles the readable descriptor watch[i]. Returns whether there is a failure. */
bool gloo_readable(struct gloo *g, int i);

/* Called when the operation in progress has made no progress within the time limit. Finds the rank
 * at fault, and stores the failure. Returns whether there is a failure. */
bool gloo_overdue(struct gloo *g);

/* Finds out why an operation ended with `result`, which is not GLOO_DONE, and stores the
 * failure. */
void gloo_explain(struct gloo *g, const struct gloo_result *result);

/* On rank 0: fails if a rank has closed its communicator and will not carry out the operation in
 * progress. On other ranks: does nothing. */
void gloo_check_closed(struct gloo *g);

/* On rank 0: fails if other ranks have found that the operation in progress differs between them.
 */
void gloo_check_disputed(struct gloo *g);

/* Waits until a descriptor is readable, but not beyond the time until_ns (INT64_MAX: no limit).
 * Handles all descriptors that are readable. */
void gloo_listen_once(struct gloo *g, int64_t until_ns);

/* Handles readable descriptors until a failure occurs, `*over` is set (`over` may be NULL), or the
 * clock reaches until_ns. */
void gloo_listen(struct gloo *g, const bool *over, int64_t until_ns);

/* Waits, within the time limit, until every rank has begun to close. */
void gloo_part(struct gloo *g);
