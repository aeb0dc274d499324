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
 * One thread at a time uses a communicator.
 *
 * Device communicators work on the memory of one device whose streams go on beside the host
 * (backend.h, `asynchronous`). An operation waits for an event and sets others, so that nothing
 * but streams has to wait:
 *
 *     event_record(ready, s);                       g is complete when s gets here
 *     sum.after = ready, sum.over = done;
 *     TRY(comm_start(c, &sum));
 *     ... more work on s ...
 *     TRY(comm_wait_on(c, &sum, s));                what follows on s sees the sum
 *
 * Where a device's streams are the calling thread, its memory is the host's and it needs none: all
 * communicators take op.after and the like, and those of the host do not look at them. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/status.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

enum { COMM_MAX_STARTED = 1024 }; /* operations started and not yet waited for; more is INVALID */

struct device;
struct event;
struct stream;

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
    /* On a device communicator. The events are the caller's, and not recorded anew by others before
     * the operation has been waited for; NULL: not wanted. ended_ns stays 0 after comm_wait_on. */
    const struct event *after; /* takes up the data when this has passed, as recorded last */
    struct event *began;       /* recorded as the data is taken up, */
    struct event *over;        /* and when the result is there */
    /* In sums of floating types: each rank's values are multiplied by it and rounded before they
     * are added, so that narrow types hold the sum of many; 0: they are not. */
    float factor;
    bool on_host;   /* send and recv are host memory, and no event is looked at */
    int64_t handle; /* the communicator's own: 0 at first and whenever nothing is under way */
};

struct comm; /* defined in comm/internal.h */

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_name(const struct comm *c); /* "mpi", "local", "mpi, staged through ..." */

/* The device whose memory operations work on; NULL: host memory. */
struct device *comm_device(const struct comm *c);

MUST_CHECK enum status comm_start(struct comm *c, struct comm_op *op);
MUST_CHECK enum status comm_wait(struct comm *c, struct comm_op *op);

/* Waited for, with the difference that what is put on stream `s` after it begins when the result is
 * there; op.over must be wanted. A communicator may still hold the host until all ranks' data is
 * on its way. On a communicator of the host, and for host memory, the same as comm_wait. */
MUST_CHECK enum status comm_wait_on(struct comm *c, struct comm_op *op, struct stream *s);

/* Starts and waits. */
MUST_CHECK enum status comm_run(struct comm *c, struct comm_op *op);

/* Sums of n doubles of host memory over all ranks, in place. */
MUST_CHECK enum status comm_sum(struct comm *c, double *values, int64_t n);

/* Parts the ranks: from now on operations are among those that gave the same group, from 0, and
 * comm_rank and comm_size tell the place and the number there, in the order of the ranks. A group
 * of -1 makes them one again; all give it, or none. Every rank comes here, with nothing under way,
 * and all go on to start the same operations, in kind and number, whatever their group; before it
 * is closed a communicator is whole again. STATUS_UNSUPPORTED for any ranks but those of MPI. */
MUST_CHECK enum status comm_divide(struct comm *c, int group);

/* Says that operations will use this memory again and again, until the communicator is closed; some
 * libraries move it faster then. All ranks say it alike, before the first operation there. */
MUST_CHECK enum status comm_reuse(struct comm *c, void *mem, size_t bytes);

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

/* Makes device communicators c[0 .. size-1] of communicators of the host, of the same ranks: one
 * for each of this process's ranks, with the device of each. A thread of each carries operations
 * out in the order of their start, by way of pinned host memory: for ranks that share a GPU and for
 * builds without a library that knows it. What the communicator of the host cannot, they cannot. A
 * sum of many ranks may associate otherwise than the host's, which depends on the size; it has the
 * same bits on every rank and every time.
 *
 * host[i] and device[i] are not owned and must outlive c[i]. While an operation on c[i] has not
 * been waited for, host[i] is c[i]'s alone: a sum of host memory goes through c[i] with op.on_host.
 */
MUST_CHECK enum status comm_open_staged(int size, struct comm *const *host,
                                        struct device *const *device, struct comm **c);

struct nccl_port;

/* What links GPUs, as the CUDA module has it; to be dropped when no communicator uses it any more
 * (NULL is fine). STATUS_UNSUPPORTED with one line that says what is missing. */
MUST_CHECK enum status comm_nccl_find(struct nccl_port **port);
void comm_nccl_drop(struct nccl_port *port);

struct comm_nccl_config {
    const struct nccl_port *port; /* comm_nccl_find's, or a test's (comm/nccl_port.h) */
    struct comm *host;            /* between the processes; not owned, and used to open alone */
    double timeout_s;             /* for an operation to be over, and to open; 0: for ever */
};

/* Makes device communicators c[0 .. n-1] of this process's n GPUs, of one group with the GPUs of
 * all other processes of `host`, which have as many each: GPU i of process p is rank p * n + i.
 * Each is for a thread of its own. The library reduces in an order that it chooses by size, ranks
 * and wiring; a maximum or minimum with a NaN may not be one. When an operation is not over within
 * the limit, or the library says that it never will be, everything fails from then on, on this
 * rank, with one message that names rank and operation; what streams wait for is set free.
 * comm_fail ends this rank's part alone. */
MUST_CHECK enum status comm_open_nccl(const struct comm_nccl_config *config, int n,
                                      struct device *const *device, struct comm **c);

/* Was this process started by an MPI launcher (mpirun, srun ...)? Looks at the environment alone.
 */
bool comm_under_mpi(void);

/* "Open MPI 4.1.4", "MPICH 4.0"; "none" in a build without MPI. */
const char *comm_mpi_version(void);

/* What srun's --mpi has to be for that library: "pmix", or "pmi2" for MPICH; NULL without MPI. */
const char *comm_srun_mpi(void);

/* Who this process is among those of its job. */
struct comm_place {
    int rank, size;
};

/* As the launcher tells it in the environment: torchrun, mpirun, srun, or RANK and WORLD_SIZE.
 * `get` looks a variable up (getenv). STATUS_USAGE where none does, or what it tells cannot be. */
MUST_CHECK enum status comm_place_find(const char *(*get)(const char *name), struct comm_place *p);

/* Which of its host's processes this one is, as the launcher tells it in the environment: Open MPI,
 * MPICH's Hydra, MVAPICH, torchrun, Slurm. *local_rank is -1 where none does. STATUS_USAGE where
 * what it tells is no number. */
MUST_CHECK enum status comm_local_rank_find(const char *(*get)(const char *name), int *local_rank);

struct comm_tcp_config {
    const char *address; /* HOST:PORT of rank 0; an IPv6 address in brackets */
    struct comm_place place;
    double timeout_s; /* to meet, and without anything moving; 0: for ever */
};

/* Joins the ranks of a job at a TCP address, without MPI. All data passes through rank 0, in
 * comm_wait. A reduction combines the ranks' values in rank order. A rank that is lost or fails
 * ends the operation on all, with a message that names it, as among threads. */
MUST_CHECK enum status comm_open_tcp(const struct comm_tcp_config *config, struct comm **c);

struct comm_mpi_config {
    double timeout_s; /* without any progress of an operation that is waited for; 0: for ever */
    double join_s;    /* for all ranks to join; 0: for ever */
    /* Asked now and then, by another thread than the caller's. Open MPI's launcher, when it loses a
     * rank, asks the others to stop and kills them a second later; so a request to stop makes the
     * ranks ask each other at once whether they are all there, and end the job if one is not.
     * (MPICH's and Open MPI 5's kill sooner, and say which process died.) May be NULL. */
    bool (*stop_requested)(void);
};

/* Joins the ranks of this process's MPI job; once per process. STATUS_UNSUPPORTED in a build
 * without MPI; STATUS_LIBRARY where not all come in time: a thread stays inside the library then,
 * and the process should soon end. Data moves between comm_start and comm_wait, by a thread of its
 * own, which sleeps briefly between looks at the network so that computing threads keep their
 * cores. */
MUST_CHECK enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c);
#endif
