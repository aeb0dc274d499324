/* Collectives between the ranks of a run. The ranks are processes (MPI, Gloo, TCP) or threads of
 * one process (local).
 *
 * The caller describes an operation once, in a struct comm_op, and carries it out many times:
 *
 *     struct comm_op sum = {COMM_ALLREDUCE, COMM_SUM, DTYPE_F32, .send = g, .recv = g, .count = n};
 *     TRY(comm_start(c, &sum));      returns at once; the communicator uses g
 *     ... compute ...
 *     TRY(comm_wait(c, &sum));       g holds the sum over all ranks
 *
 * Every rank starts the same operations in the same order, and may wait for them in any order.
 * Starting and waiting allocate no memory. Results have the same bits on every rank. If the same
 * ranks repeat the same operations on the same values, the results have the same bits again.
 * Operations are numbered from 1 in the order of their start; messages name an operation by its
 * number.
 *
 * When a rank is lost, or does not start an operation within the time limit, the operation fails on
 * all ranks. Under MPI, one rank prints a line that names the rank at fault, and the job ends; no
 * call returns. The job's exit code is 1 or, if a rank was lost, the launcher's exit code. Without
 * MPI the message names the rank at fault, and the caller can then only call comm_fail and
 * comm_close. Between threads and over TCP, data moves only within comm_wait, and never overlaps
 * with computation.
 *
 * Only one thread at a time may use a communicator.
 *
 * Device communicators work on the memory of one device whose streams are asynchronous (backend.h).
 * An operation waits for one event, and records other events, for which streams can wait. The host
 * therefore need not wait:
 *
 *     event_record(ready, s);                       g is complete when s reaches this point
 *     sum.after = ready, sum.over = done;
 *     TRY(comm_start(c, &sum));
 *     ... more work on s ...
 *     TRY(comm_wait_on(c, &sum, s));                later work on s reads the sum
 *
 * A device with synchronous streams works on host memory. It uses a host communicator, which
 * ignores op.after, op.began, op.over and op.factor. */
#pragma once

#include "base/status.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    COMM_MAX_STARTED = 1024
}; /* operation n must be waited for before operation n + COMM_MAX_STARTED is started; otherwise
    * comm_start fails with STATUS_INVALID */

struct device;
struct event;
struct stream;

/* Below, (n) means a buffer of n elements. */
enum comm_kind {
    COMM_ALLREDUCE,      /* recv (count) = reduction over all ranks' send (count) */
    COMM_BROADCAST,      /* recv (count) = root's recv (count); send is not used */
    COMM_REDUCE,         /* on root: recv (count) = reduction; elsewhere recv is not used */
    COMM_ALLGATHER,      /* recv (size * count) = every rank's send (count), in rank order */
    COMM_REDUCE_SCATTER, /* recv (count) = this rank's part of the reduction of send (size*count) */
    COMM_ALLTOALL,       /* part r of recv (size * count) = this rank's part of rank r's send
                          * (size * count) */
    COMM_GATHER,         /* on root: recv (size * count) = every rank's send (count), in rank order;
                          * elsewhere `recv` is not used */
    COMM_SCATTER,        /* recv (count) = this rank's part of root's send (size * count); elsewhere
                          * `send` is not used */
    COMM_SENDRECV,       /* recv (count) = send (count) of the previous rank; rank 0 receives from
                          * the last rank */
    COMM_BARRIER,        /* no data */
    COMM_KIND_COUNT
};
const char *comm_kind_str(enum comm_kind kind); /* "allreduce" ... */
bool comm_reduces(enum comm_kind kind);         /* combines values */
bool comm_has_root(enum comm_kind kind);

/* A sum of F16 or BF16 values adds two values at a time in fp32 and rounds the result (IEEE 754, to
 * nearest even). A sum over n ranks is therefore rounded n - 1 times. Sums of I32 wrap around. If
 * any rank's value is a NaN, the result of any reduction is a NaN. An average is the sum divided by
 * the number of ranks. The quotient is rounded too, for I32 towards zero. NCCL instead multiplies
 * floating values by the reciprocal of the number of ranks, rounds the products, and then adds
 * them. */
enum comm_reduction { COMM_SUM, COMM_MAX, COMM_MIN, COMM_AVG };

struct comm_op {
    enum comm_kind kind;
    enum comm_reduction reduction;
    enum dtype type; /* F32, F64, F16, BF16, I32 or U8 (bytes, which cannot be reduced) */
    int root;
    /* The communicator uses this memory from comm_start until comm_wait returns. `send` may equal
     * `recv` if both have the same size and the operation reduces values; in an allgather and a
     * gather, `send` may be this rank's part of `recv`; in a scatter, `recv` may be this rank's
     * part of `send`. Any other overlap is STATUS_INVALID. After a failure the contents of `recv`
     * are undefined, and if the ranks are threads, a slower rank may still use this memory until
     * all ranks have closed their communicators. */
    const void *send;
    void *recv;
    int64_t count;
    /* Times in ns of clock_ns(), set by comm_start and comm_wait. begun_ns: when the operation
     * started. ended_ns: when it completed on this rank, which may be long before the call of
     * comm_wait. */
    int64_t begun_ns, ended_ns;
    /* Events of the caller, used only on a device communicator; NULL: no event. The caller must
     * wait for the operation before it records one of these events again. ended_ns stays 0 after
     * comm_wait_on. */
    const struct event *after; /* the operation reads `send` only after the latest recording of this
                                * event */
    struct event *began;       /* recorded before the operation reads `send` */
    struct event *over;        /* recorded after `recv` is complete */
    /* For sums of floating types on a device communicator; 0: no factor. Each rank multiplies its
     * values by this factor and rounds the products before they are added. A small factor keeps
     * sums within the range of a 16-bit type. */
    float factor;
    bool on_host;   /* `send` and `recv` are host memory, and events are ignored */
    int64_t handle; /* only the communicator uses it; 0 while the operation is not started */
};

/* The transport that the user asks for. Between GPUs, AUTO chooses NCCL if every rank has NCCL and
 * no two ranks share a GPU. Between processes, AUTO chooses MPI if an MPI launcher started them,
 * else Gloo; every rank needs the Gloo module. All transports except NCCL move data through host
 * memory. */
enum comm_via {
    VIA_AUTO,
    VIA_NCCL,
    VIA_HOST,  /* MPI or Gloo, by the rule of AUTO; never NCCL */
    VIA_MPI,   /* only MPI */
    VIA_GLOO,  /* only Gloo */
    VIA_LOCAL, /* only the threads of one process; refused between processes */
};
#define COMM_VIA_WORDS "auto|nccl|host|mpi|gloo|local"
static inline bool comm_via_is_host(enum comm_via via)
{
    return via >= VIA_HOST;
}

struct comm; /* defined in comm/internal.h */

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_name(const struct comm *c); /* "mpi", "gloo", "mpi, staged through ..." */

/* The device whose memory the operations use; NULL: host memory. */
struct device *comm_device(const struct comm *c);

MUST_CHECK enum status comm_start(struct comm *c, struct comm_op *op);
MUST_CHECK enum status comm_wait(struct comm *c, struct comm_op *op);

/* Makes later work on stream `s` wait for the result, so the host need not wait. op.over must be
 * set. The call may still block the host until the transfers of all ranks have been queued. On a
 * host communicator, and for host memory, this function does the same as comm_wait. */
MUST_CHECK enum status comm_wait_on(struct comm *c, struct comm_op *op, struct stream *s);

/* Starts and waits. */
MUST_CHECK enum status comm_run(struct comm *c, struct comm_op *op);

/* Replaces each of n doubles in host memory by its sum over all ranks. */
MUST_CHECK enum status comm_sum(struct comm *c, double *values, int64_t n);

/* Gathers `bytes` bytes of host memory at `own` from every rank. On every rank, `all` then has the
 * bytes of all ranks, in rank order. */
MUST_CHECK enum status comm_gather(struct comm *c, const void *own, void *all, int64_t bytes);

/* Divides the ranks into groups. Later operations are between the ranks that passed the same
 * `group`, a number from 0. comm_rank and comm_size then refer to the group. The order of ranks in
 * a group is their order in the whole job. If all ranks pass -1, they are one group again. Either
 * all ranks pass -1 or no rank does; at comm_close, all ranks must be one group. Every rank calls
 * comm_divide after it has waited for all its operations. After that, all groups must start the
 * same number of operations, of the same kinds. STATUS_UNSUPPORTED without MPI. */
MUST_CHECK enum status comm_divide(struct comm *c, int group);

/* Registers memory that operations will use repeatedly until the communicator is closed. Some
 * libraries move data in registered memory faster. Every rank calls it before the first operation
 * on that memory. */
MUST_CHECK enum status comm_reuse(struct comm *c, void *mem, size_t bytes);

/* Fails all ranks, because this rank cannot continue. MPI: prints "ampscale: rank 1: <message>" on
 * stderr, ends the job with the exit code of `st`, and does not return. The other ranks exit
 * without reporting. If several ranks fail at once, the lowest one reports. Local, Gloo, TCP:
 * returns. On the other ranks, operations fail with `st` and "rank 1: <message>" when the caller
 * waits for them. Solo: does nothing. Joint: fails only the threads of this process; the
 * communicator between the processes does not fail. */
void comm_fail(struct comm *c, enum status st, const char *message);

/* Closes the communicator; does nothing for NULL. MPI, Gloo: waits, within the time limit, until
 * all other ranks close their communicators too. A rank that exits early must therefore call
 * comm_fail first. */
void comm_close(struct comm *c);

/* Opens a communicator with one rank, where every operation is a copy. */
MUST_CHECK enum status comm_open_solo(struct comm **c);

/* Opens `size` communicators of one group, c[0 .. size-1], one for each of `size` threads. They are
 * closed separately, in any order. A reduction combines the ranks' values in rank order. timeout_s:
 * time limit of a wait for the other ranks; 0: none. */
MUST_CHECK enum status comm_open_local(int size, double timeout_s, struct comm **c);

/* Joins the threads of several processes into one group for sums and barriers. `within` connects
 * the threads of this process; `between` connects the processes, and only the first thread uses it.
 * `*c` owns neither of them, and both must outlive it. */
MUST_CHECK enum status comm_open_joint(struct comm *within, struct comm *between, struct comm **c);

/* Makes device communicators c[0 .. size-1], one for each rank of this process: c[i] moves the data
 * of device[i] through the host communicator host[i], which has the same ranks. Each c[i] has a
 * thread, which carries out its operations in the order of their start and stages the data through
 * pinned host memory. Staging is for ranks that share a GPU and for builds without NCCL. A staged
 * communicator supports the same operations as its host communicator. A sum over a large array may
 * add the values in another order than the host communicator would: the array is summed in pieces,
 * and the order depends on the size of a piece. Results have the same bits on every rank and every
 * time.
 *
 * c[i] does not own host[i] and device[i], which must outlive it. While an operation on c[i] has
 * started and has not been waited for, only c[i] may use host[i]; an operation on host memory then
 * uses c[i] with op.on_host. */
MUST_CHECK enum status comm_open_staged(int size, struct comm *const *host,
                                        struct device *const *device, struct comm **c);

struct nccl_port;

/* comm_nccl_find loads NCCL through the CUDA module. STATUS_UNSUPPORTED: a part is missing, and the
 * message names that part. The caller calls comm_nccl_drop when no communicator uses the port any
 * more. comm_nccl_drop does nothing for NULL. */
MUST_CHECK enum status comm_nccl_find(struct nccl_port **port);
void comm_nccl_drop(struct nccl_port *port);

struct comm_nccl_config {
    const struct nccl_port *port; /* from comm_nccl_find, or from a test (comm/nccl_port.h) */
    struct comm *host;            /* connects the processes; not owned; used only while the
                                   * communicators open */
    double timeout_s;             /* time limit of each operation, and of opening the communicators;
                                   * 0: none */
};

/* Makes device communicators c[0 .. n-1], one for each of this process's n GPUs. Every process of
 * `host` has n GPUs, and the GPUs of all processes form one group: GPU i of process p is rank
 * p * n + i. Each communicator is for one thread. NCCL chooses the order of reductions by
 * size, ranks and topology. If an input of a maximum or minimum is a NaN, the result may be a
 * number. When an operation is not over within the time limit, or NCCL reports an error, all
 * operations of this rank fail from then on, with a message that names the rank and the operation,
 * and the rank's streams no longer wait for operations. comm_fail fails only this rank. */
MUST_CHECK enum status comm_open_nccl(const struct comm_nccl_config *config, int n,
                                      struct device *const *device, struct comm **c);

/* Whether an MPI launcher (mpirun, srun ...) started this process. False in a build without MPI. */
bool comm_under_mpi(void);

/* "Open MPI 4.1.4", "MPICH 4.0"; "none" in a build without MPI. */
const char *comm_mpi_version(void);

/* The value that srun's --mpi needs for this MPI library: "pmix", or "pmi2" for MPICH; NULL without
 * MPI. */
const char *comm_srun_mpi(void);

struct comm_tcp_config {
    const char *address; /* HOST:PORT of rank 0; an IPv6 address in brackets */
    int rank, size;
    double timeout_s;        /* time limit for connecting, and for a wait without progress; 0:
                              * none */
    const char *job;         /* identifies the job: the same text on all of its ranks, another text
                              * in other jobs */
    const char *secret_file; /* file of mode 600 with the same secret on all ranks; NULL:
                              * AMPSCALE_SECRET, if set */
    bool insecure;           /* allows an address beyond loopback without a secret */
    bool one_host;           /* all ranks are known to be on this host */
};

/* Joins the ranks of a job at a TCP address, without MPI or Gloo, for control: allgather,
 * broadcast, barrier, and all-reduce (sum, maximum or minimum of F64, F32 or I32, in rank order),
 * of at most 4 MiB. Anything else is STATUS_UNSUPPORTED. All bytes pass through rank 0, in
 * comm_wait. The ranks prove to each other that they know the secret; STATUS_USAGE for an address
 * beyond loopback without a secret, unless `insecure` is set. */
MUST_CHECK enum status comm_open_tcp(const struct comm_tcp_config *config, struct comm **c);

struct gloo_port;

/* Loads the Gloo module, which stays loaded. STATUS_UNSUPPORTED: a part is missing, and the message
 * names that part. */
MUST_CHECK enum status comm_gloo_find(const struct gloo_port **port);

/* Connects every two ranks of `control`, so that Gloo moves the data between them. comm_open_tcp
 * has opened `control` with the same `config`. Data moves between comm_start and comm_wait, in a
 * separate thread, which sleeps while no data moves. Each rank except rank 0 listens at a free port
 * of its address until the lower ranks have connected and proved that they know the job's secret.
 * Messages about failures, lost ranks and the end of the job go over `control`. On success `*c`
 * owns `control`; after a failure the caller closes it. */
MUST_CHECK enum status comm_open_gloo(const struct gloo_port *port, struct comm *control,
                                      const struct comm_tcp_config *config, struct comm **c);

struct comm_mpi_config {
    double timeout_s; /* time limit of an operation that is waited for and makes no progress; 0:
                       * none */
    double join_s;    /* time limit within which all ranks must join; 0: none */
    /* Returns whether this process has been asked to stop; may be NULL. The communication thread
     * calls it repeatedly. When Open MPI's launcher loses a rank, it sends the other ranks SIGTERM
     * and kills them a second later. After a request to stop, the ranks therefore check each
     * other's health at once, and end the job if one of them does not answer. (The launchers of
     * MPICH and Open MPI 5 kill the ranks sooner, and name the lost process themselves.) */
    bool (*stop_requested)(void);
    /* Called on the communication thread before the job ends because a rank failed or was lost;
     * `message` is the printed line. May be NULL. The process ends a fraction of a second later. */
    void (*ending)(void *context, enum status st, const char *message);
    void *context;
};

/* Joins the ranks of this process's MPI job. A process can do so only once. STATUS_UNSUPPORTED in
 * a build without MPI. STATUS_LIBRARY if not all ranks join in time; a thread then stays inside
 * the MPI library, and the process should exit soon. Data moves between comm_start and comm_wait,
 * in a separate thread, which sleeps briefly between polls to leave the cores to computation. */
MUST_CHECK enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c);
