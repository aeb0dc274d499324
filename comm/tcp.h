/* Inside comm/: the messages on the connections to rank 0 (tcp.c). The Gloo communicator uses them
 * as control messages. */
#pragma once

#include "comm/internal.h"

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

enum { TCP_TEXT_MAX = 260 };

/* One of three messages: a rank's intent, rank 0's verdict on the intents of all ranks, or a
 * message of a kind in enum tcp_kind. All ranks run the same build and have the same byte order. */
struct tcp_message {
    struct comm_intent intent;    /* with a kind of enum tcp_kind, `number` is the last operation
                                   * that the sender has carried out */
    struct comm_intent under_way; /* with a kind of enum tcp_kind: the operation that the sender is
                                   * carrying out; number 0: none */
    int32_t st;                   /* STATUS_OK, or the status of a failure, which `message`
                                   * describes */
    char message[TCP_TEXT_MAX];
};

/* The socket to `rank`; -1: there is none, because neither this rank nor `rank` is rank 0. */
int tcp_socket(const struct comm *c, int rank);

/* Send or receive a message, as socket_put and socket_get do, with the communicator's time
 * limit. */
MUST_CHECK enum status tcp_put(struct comm *c, int rank, const struct tcp_message *m);
MUST_CHECK enum status tcp_get(struct comm *c, int rank, struct tcp_message *m);

/* Sends a failure to all ranks to which this rank is connected; ignores errors. */
void tcp_put_failure(struct comm *c, enum status st, const char *message);

/* The status in a message about a failure; STATUS_LIBRARY if the message has an unknown status. */
enum status tcp_message_status(const struct tcp_message *m);
