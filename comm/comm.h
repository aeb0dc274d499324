/* Collectives between the ranks of a run: processes (MPI) or threads of one process (local).
 *
 * An operation is described once, in memory of the caller's, and carried out many times:
 *
 *     struct comm_op sum = {COMM_ALLREDUCE, COMM_SUM, DTYPE_F32, .send = g, .recv = g, .count = n};
 *     TRY(comm_start(c, &sum));      returns at once; g belongs to the communicator
 *     ... compute ...
 *     TRY(comm_wait(c, &sum));       g holds the sum over all ranks
 *
 * Every rank starts the same operations in the same order; they may be waited for in any order.
 * Starting and waiting allocate nothing. Results are the same bits on every rank, and the same
 * bits again whenever the same ranks run the same operations on the same values.
 *
 * A rank that is gone, or that has not come within the time limit, fails the operation on all the
 * others, with a message that names it; after that a communicator can only be failed and closed.
 * One thread at a time uses a communicator. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/status.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum comm_kind {
    COMM_ALLREDUCE,      /* recv = reduction over all ranks' send; `count` elements each */
    COMM_BROADCAST,      /* recv = root's recv (send is not looked at) */
    COMM_REDUCE,         /* on root: recv = reduction; elsewhere recv is not touched */
    COMM_ALLGATHER,      /* recv (size * count) = every rank's send (count), in rank order */
    COMM_REDUCE_SCATTER, /* recv (count) = this rank's part of the reduction of send (size * count)
                          */
    COMM_BARRIER,        /* no data */
    COMM_KIND_COUNT
};

/* Sums of F16 and BF16 add two values in fp32 and round the result (IEEE 754, to nearest even). */
enum comm_reduction { COMM_SUM, COMM_MAX, COMM_MIN };

struct comm_op {
    enum comm_kind kind;
    enum comm_reduction reduction;
    enum dtype type; /* F32, F64, F16, BF16, I32 or U8 (bytes: only to be moved) */
    int root;
    const void *send; /* may be recv, where both have one size */
    void *recv;
    int64_t count;
    /* What it took, by clock_ns(): when it was started, when it ended, both as this rank saw it.
     * Filled in by comm_wait. */
    int64_t begun_ns, ended_ns;
    int64_t handle; /* the communicator's own */
};

struct comm; /* begins with struct comm_base of comm/internal.h */

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_name(const struct comm *c); /* "mpi", "local", "solo" */

MUST_CHECK enum status comm_start(struct comm *c, struct comm_op *op);
MUST_CHECK enum status comm_wait(struct comm *c, struct comm_op *op);

/* Starts and waits. */
MUST_CHECK enum status comm_run(struct comm *c, struct comm_op *op);

/* Tells all other ranks that this one cannot go on, and why, so that they end without a message of
 * their own. A process of an MPI job does not return from it: it prints the message, prefixed with
 * its rank, and ends the job with the status's exit code. Threads return. */
void comm_fail(struct comm *c, enum status st, const char *message);

void comm_close(struct comm *c); /* NULL is fine */

/* One rank, nobody to talk to: every operation is a copy. */
MUST_CHECK enum status comm_open_solo(struct comm **c);

/* `size` communicators of one group, c[0 .. size-1], each for a thread of its own. A reduction adds
 * in rank order. timeout_s: how long to wait for the others; 0: for ever. */
MUST_CHECK enum status comm_open_local(int size, double timeout_s, struct comm **c);

/* Was this process started by an MPI launcher (mpirun, srun ...)? Looks at the environment alone.
 */
bool comm_under_mpi(void);

/* "Open MPI 4.1.4", "MPICH 4.0"; "none" in a build without MPI. */
const char *comm_mpi_version(void);

struct comm_mpi_config {
    double timeout_s; /* 0: wait for ever */
    /* Asked now and then while waiting: a request to stop shortens the time limit to a second, as
     * a launcher that lost a rank sends one to all others. May be NULL. */
    bool (*stop_requested)(void);
};

/* Joins the ranks of this process's MPI job; once per process. STATUS_UNSUPPORTED in a build
 * without MPI. */
MUST_CHECK enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c);

#ifdef __cplusplus
}
#endif
#endif
