/* A replica: the network on one of the devices that share a batch. For use inside engine/ only. */
#pragma once

#include "comm/comm.h"
#include "model/network.h"

/* The programs of a run in the order of planning: for training batches, for a last training batch
 * that is not full, and for validation. */
enum program_use { USE_TRAIN, USE_TAIL, USE_VAL, USE_COUNT };

/* Rows [first, first + count) of a batch. */
struct part {
    int first, count;
};

/* Part i of `rows` rows, divided as torch.chunk does: each part has ceil(rows / n) rows until no
 * rows are left, so the last parts may be short or empty. */
struct part part_of(int rows, int n, int i);

struct replica {
    int number; /* index among the devices of this process, from 0 */
    struct device *dev;
    bool lent; /* replica_close does not close the device */
    struct network *net;
    struct program *program[USE_COUNT]; /* NULL: the replica has no rows for that use */
    struct part part[USE_COUNT];
    /* For synchronised batch norm. */
    struct bn_sync sync;
    struct comm *sync_comm; /* not owned */
    bool blank;             /* adds nothing to the sums, because all images of the batch are bad */
};

/* The maximum number of rows of a training batch that the replica computes. */
static inline int replica_rows(const struct replica *r)
{
    int full = r->part[USE_TRAIN].count, tail = r->part[USE_TAIL].count;
    return full > tail ? full : tail;
}

/* base[use] is the configuration of each program, without its batch size. rows[use] is the number
 * of rows of the whole batch, which all replicas share; if it is 0, replica_open makes no program
 * for that use. If sync_comm is not NULL, batch norm computes its statistics over all ranks of
 * sync_comm. */
MUST_CHECK enum status replica_open(struct replica *r, int number, int replicas, struct device *dev,
                                    const struct graph *g,
                                    const struct program_config base[USE_COUNT],
                                    const int rows[USE_COUNT], struct comm *sync_comm);
void replica_close(struct replica *r); /* also closes the device, unless it is lent */

/* Copies weights and running statistics from another replica, as DataParallel does before each
 * forward pass. If `momentum` is set, also copies the optimizer's state. */
MUST_CHECK enum status replica_copy(struct replica *to, const struct replica *from, bool momentum);
