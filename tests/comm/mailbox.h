/* Passes messages between the ranks of the fake NCCL, as ncclSend and ncclRecv do. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { MAILBOX_RANKS = 8, MAILBOX_MESSAGES = 2 * MAILBOX_RANKS };

/* One send or receive of a rank. */
struct mail {
    bool sends;
    int peer;
    void *mem;
    size_t bytes;
};

struct mailbox {
    const void *sent[MAILBOX_RANKS][MAILBOX_RANKS]; /* [from][to]: not received yet */
};

/* Executes the sends and receives of rank `rank`. Returns when the other ranks have received the
 * data that this rank sent. The caller holds `lock`, which protects the mailbox. `change` is
 * signalled when the mailbox or *aborted changes. Returns false if *aborted is set. */
bool mailbox_exchange(struct mailbox *box, int rank, int messages, const struct mail *message,
                      pthread_mutex_t *lock, pthread_cond_t *change, const bool *aborted);
