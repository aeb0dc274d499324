/* Collectives between the ranks of a run. The ranks are processes (MPI, Gloo, TCP) or threads of
 * one process (local). The caller describes an operation once, in a struct comm_op, and carries it
 * out many times:
 *
 *     struct comm_op sum = {COMM_ALLREDUCE, COMM_SUM, DTYPE_F32, .send = g, .recv = g, .count = n};
 *     TRY(comm_start(c, &sum));      returns at once; the communicator uses g
 *     ... compute ...
 *     TRY(comm_wait(c, &sum));       g holds the sum over all ranks
 *
 * comm_run does both at once; over MPI it is MPI's blocking call, on the calling thread. Every rank
 * starts the same operations in the same order, each of them by comm_start or each by comm_run, and
 * may wait for them in any order. Starting and waiting allocate no memory. Messages name an
 * operation by its number, from 1 in the order of their start. Results have the
 * same bits on every rank, and again if the same ranks repeat the operations on the same values;
 * over MPI and NCCL, a NaN may have other bits on another rank.
 *
 * When a rank is lost, or does not reach an operation within the time limit, the operation fails on
 * all ranks (health.c). Under MPI, one rank prints a line that names the rank at fault, and the job
 * ends; no call returns. Without MPI the message names the rank at fault, and the caller can then
 * only call comm_fail and comm_close. Between threads, data moves only within comm_wait and
 * comm_run, and never overlaps with computation.
 *
 * Only one thread at a time may use a communicator.
 *
 * Device communicators work on the memory of one device whose streams are asynchronous (backend.h).
 * An operation waits for one event, and records others, so that the host need not wait:
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

/* Operation n must be waited for before n + COMM_MAX_STARTED starts; else STATUS_INVALID. */
enum { COMM_MAX_STARTED = 1024 };

struct comm; /* defined in comm/internal.h */
struct device;
struct event;
struct gloo_port;
struct nccl_port;
struct stream;

/* Below, (n) means a buffer of n elements. */
enum comm_kind {
    COMM_ALLREDUCE,      /* recv (count) = reduction over all ranks' send (count) */
    COMM_BROADCAST,      /* recv (count) = root's recv (count); send is not used */
    COMM_REDUCE,         /* on root: recv (count) = reduction; elsewhere recv is not used */
    COMM_ALLGATHER,      /* recv (size * count) = every rank's send (count), in rank order */
    COMM_REDUCE_SCATTER, /* recv (count) = this rank's part of the reduction of send (size*count) */
    COMM_ALLTOALL,       /* part r of recv (size*count) = my part of rank r's send (size*count) */
    COMM_GATHER,         /* on root: as allgather; elsewhere recv is not used */
    COMM_SCATTER,        /* recv (count) = this rank's part of root's send (size * count) */
    COMM_SENDRECV,       /* recv (count) = send (count) of the previous rank, in a ring */
    COMM_BARRIER,        /* no data */
    COMM_KIND_COUNT
};
const char *comm_kind_str(enum comm_kind kind); /* "allreduce" ... */
bool comm_reduces(enum comm_kind kind);         /* combines values */
bool comm_has_root(enum comm_kind kind);

/* A sum of F16 or BF16 values adds two values at a time in fp32 and rounds the result (IEEE 754, to
 * nearest even), so n - 1 times over n ranks. Sums of I32 wrap around. If any rank's value is a
 * NaN, a sum is a NaN, and so is a maximum or minimum, except over MPI and NCCL, where it may be a
 * number. An average is the sum divided by the number of ranks, and rounded, for I32 towards zero;
 * NCCL instead multiplies floating values by the reciprocal, rounds the products, and adds them. */
enum comm_reduction { COMM_SUM, COMM_MAX, COMM_MIN, COMM_AVG };

struct comm_op {
    enum comm_kind kind;
    enum comm_reduction reduction;
    enum dtype type; /* F32, F64, F16, BF16, I32 or U8 (bytes, which cannot be reduced) */
    int root;
    /* The communicator uses this memory from comm_start until comm_wait returns. `send` may equal
     * `recv` if both have the same size and the operation reduces values; in an allgather and a
     * gather, `send` may be this rank's part of `recv`, in a scatter the reverse. Any other overlap
     * is STATUS_INVALID. After a failure the contents of `recv` are undefined; if the ranks are
     * threads, slower ones may use this memory until all have closed their communicators. */
    const void *send;
    void *recv;
    int64_t count;
    /* Times in ns of clock_ns(), set by the communicator: when the operation started, and when it
     * completed on this rank, perhaps long before comm_wait; 0 after comm_wait_on. */
    int64_t begun_ns, ended_ns;
    /* Events of the caller, used only on a device communicator; NULL: no event. The caller waits
     * for the operation before it records one of them again. */
    const struct event *after; /* the operation reads `send` only after its latest recording */
    struct event *began;       /* recorded before the operation reads `send` */
    struct event *over;        /* recorded after `recv` is complete */
    /* For sums of floating types on a device communicator; 0: no factor. Each rank multiplies its
     * values by it and rounds the products before they are added: a small factor keeps sums within
     * the range of a 16-bit type. */
    float factor;
    bool on_host;   /* `send` and `recv` are host memory, and events are ignored */
    int64_t handle; /* only the communicator uses it; 0 while the operation is not started */
};

/* The transport that the user asks for. Between GPUs, AUTO chooses NCCL if every rank has NCCL and
 * no two ranks share a GPU. Between processes, AUTO and HOST choose MPI if an MPI launcher started
 * them, else Gloo. LOCAL connects the threads of one process. All transports except NCCL move data
 * through host memory. */
enum comm_via { VIA_AUTO, VIA_NCCL, VIA_HOST, VIA_MPI, VIA_GLOO, VIA_LOCAL };
#define COMM_VIA_WORDS "auto|nccl|host|mpi|gloo|local"
static inline bool comm_via_is_host(enum comm_via via)
{
    return via >= VIA_HOST;
}

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_name(const struct comm *c); /* "mpi", "gloo", "mpi, staged through ..." */

/* The device whose memory the operations use; NULL: host memory. */
struct device *comm_device(const struct comm *c);

MUST_CHECK enum status comm_start(struct comm *c, struct comm_op *op);
MUST_CHECK enum status comm_wait(struct comm *c, struct comm_op *op);
MUST_CHECK enum status comm_run(struct comm *c, struct comm_op *op); /* starts and waits */

/* Makes later work on stream `s` wait for the result. op.over must be set. The call may block the
 * host until the transfers of all ranks have been queued. On a host communicator, and for host
 * memory, and if `s` is NULL, it is comm_wait. */
MUST_CHECK enum status comm_wait_on(struct comm *c, struct comm_op *op, struct stream *s);

/* Replaces each of n doubles in host memory by its sum over all ranks. */
MUST_CHECK enum status comm_sum(struct comm *c, double *values, int64_t n);

/* Gathers `bytes` bytes of host memory at `own` from every rank in `all`, in rank order. */
MUST_CHECK enum status comm_gather(struct comm *c, const void *own, void *all, int64_t bytes);

/* Divides the ranks into groups. Later operations are between the ranks that passed the same
 * `group`, a number from 0, in the order of the whole job; comm_rank and comm_size refer to the
 * group. All groups start the same number of operations, of the same kinds. If all ranks pass -1,
 * they are one group again, as they must be at comm_close. Every rank first waits for all its
 * operations. STATUS_UNSUPPORTED without MPI. */
MUST_CHECK enum status comm_divide(struct comm *c, int group);

/* Registers memory that operations use until the communicator is closed: some libraries move it
 * faster. Every rank calls it before the first operation on that memory. */
MUST_CHECK enum status comm_reuse(struct comm *c, void *mem, size_t bytes);

/* Fails all ranks, because this rank cannot continue. MPI: one rank prints "ampscale: rank 1:
 * <message>" on stderr, and all ranks exit with the exit code of `st`. Local, Gloo, TCP: returns;
 * the other ranks' operations fail with `st` and "rank 1: <message>". Solo: does nothing. Joint:
 * fails only the threads of this process. */
void comm_fail(struct comm *c, enum status st, const char *message);

/* After a failure: whether this rank says why, which is rank 0 or, if that is lost, rank 1. */
bool comm_speaks(const struct comm *c);

/* Closes the communicator; does nothing for NULL. MPI, Gloo: waits, within the time limit, until
 * all ranks close theirs. A rank that exits early must therefore call comm_fail first. */
void comm_close(struct comm *c);

/* Opens a communicator with one rank, where every operation is a copy. */
MUST_CHECK enum status comm_open_solo(struct comm **c);

/* Opens the communicators c[0 .. size-1] of a group of threads, which close them in any order. A
 * reduction combines the ranks' values in rank order. timeout_s: time limit of a wait for the other
 * ranks; 0: none. */
MUST_CHECK enum status comm_open_local(int size, double timeout_s, struct comm **c);

/* Joins the threads of several processes into one group for all-reduces and barriers. `within`
 * connects this process's threads; `between` connects the processes, and only the first thread uses
 * it. Both must outlive `*c`. */
MUST_CHECK enum status comm_open_joint(struct comm *within, struct comm *between, struct comm **c);

/* Makes device communicators c[0 .. size-1], one for each rank of this process, for ranks that
 * share a GPU and builds without NCCL: c[i] moves the data of device[i] through pinned host memory
 * and host[i], which has the same ranks and supports the same operations. A thread of c[i] carries
 * them out in the order of their start. The order in which a sum adds values may depend on the size
 * of the pieces that it moves. host[i] and device[i] must outlive c[i]. Until an operation that was
 * started on c[i] has been waited for, only c[i] may use host[i]; operations on host memory then
 * use c[i] with op.on_host. */
MUST_CHECK enum status comm_open_staged(int size, struct comm *const *host,
                                        struct device *const *device, struct comm **c);

/* Loads NCCL through the CUDA module. STATUS_UNSUPPORTED: a part is missing, which the message
 * names. The caller drops the port (NULL: does nothing) when no communicator uses it any more. */
MUST_CHECK enum status comm_nccl_find(struct nccl_port **port);
void comm_nccl_drop(struct nccl_port *port);

struct comm_nccl_config {
    const struct nccl_port *port; /* from comm_nccl_find, or from a test (comm/nccl_port.h) */
    struct comm *host; /* connects the processes; not owned; used only by comm_open_nccl */
    double timeout_s;  /* time limit of each operation, and of the opening; 0: none */
};

/* Makes device communicators c[0 .. n-1], one for each of this process's n GPUs. Every process of
 * `host` has n GPUs, and the GPUs of all processes form one group: GPU i of process p is rank
 * p * n + i. Each communicator is for one thread. NCCL chooses the order of reductions by size,
 * ranks and topology. When an operation is not over within the time limit, or NCCL reports an
 * error, all operations of this rank fail from then on, with a message that names the rank and the
 * operation, and its streams no longer wait for operations. comm_fail fails only this rank. */
MUST_CHECK enum status comm_open_nccl(const struct comm_nccl_config *config, int n,
                                      struct device *const *device, struct comm **c);

/* Whether an MPI launcher (mpirun, srun ...) started this process. False in a build without MPI. */
bool comm_under_mpi(void);

/* "Open MPI 4.1.4", "MPICH 4.0"; "none" in a build without MPI. */
const char *comm_mpi_version(void);

/* The value of srun's --mpi for this MPI: "pmix", or "pmi2" for MPICH; NULL without MPI. */
const char *comm_srun_mpi(void);

struct comm_tcp_config {
    const char *address; /* HOST:PORT of rank 0; an IPv6 address in brackets */
    int rank, size;
    double timeout_s; /* time limit for connecting, and for a wait without progress; 0: none */
    const char *job;  /* the same text on all ranks of the job, another text in other jobs */
    const char *secret_file; /* of mode 600, the same on all ranks; NULL: AMPSCALE_SECRET, if set */
    bool insecure;           /* allows an address beyond loopback without a secret */
    bool one_host;           /* all ranks are known to be on this host */
};

/* Joins the ranks of a job at a TCP address, without MPI or Gloo, for control: allgather,
 * broadcast, barrier, and all-reduce (sum, maximum or minimum of F64, F32 or I32, in rank order),
 * of at most 4 MiB. Anything else is STATUS_UNSUPPORTED. All bytes pass through rank 0, in
 * comm_wait. The ranks prove to each other that they know the secret; STATUS_USAGE for an address
 * beyond loopback without a secret, unless `insecure` is set. */
MUST_CHECK enum status comm_open_tcp(const struct comm_tcp_config *config, struct comm **c);

/* Loads the Gloo module for good. STATUS_UNSUPPORTED: the message names the missing part. */
MUST_CHECK enum status comm_gloo_find(const struct gloo_port **port);

/* Connects every two ranks of `control`, which comm_open_tcp has opened with the same `config`, so
 * that Gloo moves the data between them. Each rank except rank 0 listens at a free port of its
 * address until the lower ranks have connected and proved that they know the job's secret. Messages
 * about failures, lost ranks and the end of the job go over `control`. On success `*c` owns
 * `control`; after a failure the caller closes it. */
MUST_CHECK enum status comm_open_gloo(const struct gloo_port *port, struct comm *control,
                                      const struct comm_tcp_config *config, struct comm **c);

struct comm_mpi_config {
    double timeout_s; /* time limit of an operation that makes no progress; a call of comm_run makes
                       * none before its end; 0: none */
    double join_s;    /* time limit within which all ranks must join; 0: none */
    /* All calls come from the calling thread, as MPI_THREAD_SINGLE allows: MPI then takes no locks,
     * but a started operation runs in comm_wait, and MPI_Init has no time limit. */
    bool blocking;
    /* Called on the health thread before the job ends because a rank failed or was lost; `message`
     * is the printed line. May be NULL. The process ends a fraction of a second later. */
    void (*ending)(void *context, enum status st, const char *message);
    void *context;
};

/* Joins the ranks of this process's MPI job. A process can do so only once. STATUS_UNSUPPORTED in
 * a build without MPI. STATUS_LIBRARY if not all ranks join in time; a thread then stays inside the
 * MPI library, and the process should exit soon. */
MUST_CHECK enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c);
