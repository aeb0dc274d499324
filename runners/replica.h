/* Inside runners/: the network on one device, as one of several that share a batch. */
#ifndef RUNNERS_REPLICA_H
#define RUNNERS_REPLICA_H

#include "comm/comm.h"
#include "model/network.h"

/* The programs of a run, in the order in which they are planned. */
enum program_use { USE_TRAIN, USE_TAIL, USE_VAL, USE_COUNT };

/* Rows [first, first + count) of a batch. */
struct part {
    int first, count;
};

/* torch.chunk's parts: each of ceil(rows / n) rows until none are left, so that the last ones may
 * be short or empty. */
struct part part_of(int rows, int n, int i);

struct replica {
    int number; /* of the devices of this process, from 0 */
    struct device *dev;
    bool lent; /* the device is not its own */
    struct network *net;
    struct program *program[USE_COUNT]; /* NULL: it has no rows of that batch */
    struct part part[USE_COUNT];
    /* Synchronised batch norm. */
    struct bn_sync sync;
    struct comm *sync_comm; /* not owned */
};

/* `base` is the configuration of all programs but for their rows; rows[use] are those of the whole
 * batch, 0: there is no such program. With sync_comm batch norm sums over its ranks. */
MUST_CHECK enum status replica_open(struct replica *r, int number, int replicas, struct device *dev,
                                    const struct graph *g,
                                    const struct program_config base[USE_COUNT],
                                    const int rows[USE_COUNT], struct comm *sync_comm);
void replica_close(struct replica *r); /* the device too */

/* Copies weights and running statistics from another replica, as DataParallel does before each
 * forward pass; with `momentum` the optimizer's state too. */
MUST_CHECK enum status replica_copy(struct replica *to, const struct replica *from, bool momentum);

#endif
