/* Inside comm/: who a process is among those that a launcher started, and sockets between them. */
#ifndef COMM_RENDEZVOUS_H
#define COMM_RENDEZVOUS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Moves exactly `bytes` over a socket, as long as anything moves within timeout_s (0: for ever).
 * STATUS_IO when the other side is gone, STATUS_LIBRARY when the limit is over; the caller says who
 * it was. */
MUST_CHECK enum status socket_put(int fd, const void *data, size_t bytes, double timeout_s);
MUST_CHECK enum status socket_get(int fd, void *data, size_t bytes, double timeout_s);

/* Meets the other ranks at `address`, HOST:PORT, where rank 0 waits for them: peer[r], on rank 0,
 * is a socket to rank r, peer[0] elsewhere one to rank 0; the rest is -1. A refused connection is
 * tried again until the limit is over; whoever comes to rank 0 and is not a rank of this version,
 * this size and this run's is turned away and costs a second at most. All of `size` sockets are the
 * caller's to close, also after a failure. */
MUST_CHECK enum status rendezvous_meet(const char *address, int rank, int size, double timeout_s,
                                       int *peer);
#endif
