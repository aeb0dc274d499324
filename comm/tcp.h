/* Inside comm/: the messages on the connections to rank 0 (tcp.c), which the communicator over Gloo
 * uses for control. */
#pragma once

#include "comm/internal.h"

/* The kind of a message that is not an operation's (enum comm_kind). */
enum tcp_kind {
    TCP_FAILED = -1,  /* the sender has failed: `st` and `message` */
    TCP_QUERY = -2,   /* rank 0 asks whether the receiver runs */
    TCP_ALIVE = -3,   /* the answer */
    TCP_OVERDUE = -4, /* to rank 0: the sender's operation has made no progress in time */
    TCP_CLOSING =
        -5, /* to rank 0: the sender starts no more operations; from rank 0: nobody does */
};

enum { TCP_TEXT_MAX = 260 };

/* A rank's intent, or rank 0's verdict on the intents of all, or a message of another kind. All
 * ranks are of one build and one byte order. */
struct tcp_message {
    struct comm_intent intent;    /* in a message of another kind, number is the sender's last */
    struct comm_intent under_way; /* in such messages: the sender's operation; number 0: none */
    int32_t st;                   /* STATUS_OK, or the status of a failure: */
    char message[TCP_TEXT_MAX];
};

/* The socket to `rank`; -1: none, because neither is rank 0. */
int tcp_socket(const struct comm *c, int rank);

/* Sends or receives a message; as socket_put and socket_get, with the communicator's limit. */
MUST_CHECK enum status tcp_put(struct comm *c, int rank, const struct tcp_message *m);
MUST_CHECK enum status tcp_get(struct comm *c, int rank, struct tcp_message *m);

/* Sends a failure to all ranks that this rank has a connection to, as far as it can. */
void tcp_put_failure(struct comm *c, enum status st, const char *message);

/* The status in a message of a failure; STATUS_LIBRARY for an unknown one. */
enum status tcp_message_status(const struct tcp_message *m);
