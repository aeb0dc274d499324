/* Implements send and receive between the ranks of the fake NCCL. */
#include "mailbox.h"

#include <string.h>

bool mailbox_exchange(struct mailbox *box, int rank, int messages, const struct mail *message,
                      pthread_mutex_t *lock, pthread_cond_t *change, const bool *aborted)
{
    for (int i = 0; i < messages; i++)
        if (message[i].sends)
            box->sent[rank][message[i].peer] = message[i].mem;
    pthread_cond_broadcast(change);
    for (int i = 0; i < messages; i++) {
        const void **at = &box->sent[message[i].peer][rank];
        if (message[i].sends)
            continue;
        while (!*at && !*aborted)
            pthread_cond_wait(change, lock);
        if (*aborted)
            return false;
        memmove(message[i].mem, *at, message[i].bytes);
        *at = NULL;
        pthread_cond_broadcast(change);
    }
    for (int i = 0; i < messages; i++)
        while (message[i].sends && box->sent[rank][message[i].peer] && !*aborted)
            pthread_cond_wait(change, lock);
    return !*aborted;
}
