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
 * bits again whenever the same ranks run the same operations on the same values. Operations are
 * numbered from 1 in the order of their start; messages name them so.
 *
 * A rank that is gone, or that has not come within the time limit, ends what the others do. Under
 * MPI one of them says which rank it was, in one line, and the whole job ends with exit code 1 (or
 * what the launcher makes of the lost rank); no call returns. Among threads the operation fails on
 * all, with a message that names the rank; after that a communicator can only be failed and closed.
 * A local group waits for the others in comm_wait alone and its data moves there; nothing is hidden
 * behind what comes between.
 *
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

enum { COMM_MAX_STARTED = 1024 }; /* operations started and not yet waited for; more is INVALID */

/* Below: (n) elements. */
enum comm_kind {
    COMM_ALLREDUCE,      /* recv (count) = reduction over all ranks' send (count) */
    COMM_BROADCAST,      /* recv (count) = root's recv (count); send is not looked at */
    COMM_REDUCE,         /* on root: recv (count) = reduction; elsewhere recv is not touched */
    COMM_ALLGATHER,      /* recv (size * count) = every rank's send (count), in rank order */
    COMM_REDUCE_SCATTER, /* recv (count) = this rank's part of the reduction of send (size*count) */
    COMM_BARRIER,        /* no data */
    COMM_KIND_COUNT
};
const char *comm_kind_str(enum comm_kind kind); /* "allreduce" ... */

/* Sums of F16 and BF16 add two values in fp32 and round the result (IEEE 754, to nearest even), so
 * that a sum over n ranks rounds n - 1 times; those of I32 wrap around. A NaN on any rank makes any
 * reduction a NaN. */
enum comm_reduction { COMM_SUM, COMM_MAX, COMM_MIN };

struct comm_op {
    enum comm_kind kind;
    enum comm_reduction reduction;
    enum dtype type; /* F32, F64, F16, BF16, I32 or U8 (bytes: only to be moved) */
    int root;
    /* The caller's until comm_start, the communicator's until comm_wait returns. send may be recv
     * where both have one size, and may be this rank's part of recv in an allgather; otherwise they
     * do not overlap. What a failed operation leaves in recv is anything; where ranks are
     * threads, a slower one may use the memory until all have closed. */
    const void *send;
    void *recv;
    int64_t count;
    /* Filled in by comm_start and comm_wait, by clock_ns(): when the operation was started and when
     * it was over on this rank, which may be long before comm_wait was called. */
    int64_t begun_ns, ended_ns;
    int64_t handle; /* the communicator's own: 0 at first and whenever nothing is under way */
};

struct comm; /* defined in comm/internal.h */

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_name(const struct comm *c); /* "mpi", "local", "solo" */

MUST_CHECK enum status comm_start(struct comm *c, struct comm_op *op);
MUST_CHECK enum status comm_wait(struct comm *c, struct comm_op *op);

/* Starts and waits. */
MUST_CHECK enum status comm_run(struct comm *c, struct comm_op *op);

/* Tells all other ranks that this one cannot go on, and why.
 * MPI: prints "ampscale: rank 1: <message>" on stderr and ends the job with the status's exit code;
 * does not return. The other ranks end without a message of their own; of several that fail at the
 * same time, the lowest prints.
 * Local: returns; whatever the others start or wait for fails with `st` and "rank 1: <message>".
 * Solo: does nothing. */
void comm_fail(struct comm *c, enum status st, const char *message);

/* NULL is fine. MPI: waits for all other ranks to close too, under the time limit; a rank that ends
 * alone must call comm_fail instead. */
void comm_close(struct comm *c);

/* One rank, nobody to talk to: every operation is a copy. */
MUST_CHECK enum status comm_open_solo(struct comm **c);

/* `size` communicators of one group, c[0 .. size-1], each for a thread of its own and closed by
 * itself, in any order. A reduction combines the ranks' values in rank order. timeout_s: how long
 * to wait for the others; 0: for ever. */
MUST_CHECK enum status comm_open_local(int size, double timeout_s, struct comm **c);

/* The threads of several processes as one group, for sums and barriers: `within` joins the threads
 * of this process, `between` the processes, and is used by the first thread alone. Neither is
 * owned; both must outlive it. */
MUST_CHECK enum status comm_open_joint(struct comm *within, struct comm *between, struct comm **c);

/* Was this process started by an MPI launcher (mpirun, srun ...)? Looks at the environment alone.
 */
bool comm_under_mpi(void);

/* "Open MPI 4.1.4", "MPICH 4.0"; "none" in a build without MPI. */
const char *comm_mpi_version(void);

struct comm_mpi_config {
    double timeout_s; /* without any progress of an operation that is waited for; 0: for ever */
    /* Asked now and then, by another thread than the caller's. Open MPI's launcher, when it loses a
     * rank, asks the others to stop and kills them a second later; so a request to stop makes the
     * ranks ask each other at once whether they are all there, and end the job if one is not.
     * (MPICH's kills all at once, and says itself which process died.) May be NULL. */
    bool (*stop_requested)(void);
};

/* Joins the ranks of this process's MPI job; once per process. STATUS_UNSUPPORTED in a build
 * without MPI. Data moves between comm_start and comm_wait, by a thread of its own, which sleeps
 * briefly between looks at the network so that computing threads keep their cores. */
MUST_CHECK enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c);

#ifdef __cplusplus
}
#endif
#endif
