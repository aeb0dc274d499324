/* Measures collectives between ranks, size by size, as nccl-tests does.
 *
 * For each size, an operation is timed out of place and in place, and every element of its result
 * is checked. A sample is the time of the slowest rank, from comm_op.begun_ns to ended_ns of a
 * comm_run that follows a barrier; of several operations, from the first start to the last result.
 * Communicators lack an out-of-place broadcast, and an in-place reduce-scatter, alltoall and
 * sendrecv. Samples of these include a copy: of the root's input before the operation, or of each
 * rank's result into the input buffer after it.
 *
 * If the data is in device memory, a sample is measured by the device's clock. It begins when the
 * data is ready on a stream, and ends when that stream can use the result. The communicator is the
 * one that training uses. The host generates the input values and checks the results.
 *
 * Sizes, counts and bandwidths are defined as in nccl-tests (its PERFORMANCE.md and src/). With n
 * ranks, algbw is the size in bytes divided by the seconds. For a kind with parts (allgather,
 * reduce-scatter, alltoall, gather, scatter), the size is the sum over all parts of one buffer.
 * busbw is algbw times 2(n-1)/n for allreduce, (n-1)/n for kinds with parts, and 1 for broadcast,
 * reduce and sendrecv. One rank moves no data to others, and its busbw is 0. A size that leaves no
 * element for each rank makes a row of 0 bytes, which does not count in the mean busbw. */
#pragma once

#include "bench/options.h"
#include "comm/comm.h"
#include "comm/world.h"

enum {
    COLLECTIVE_RANKS_MAX = 256,
    COLLECTIVE_AGGREGATED_MAX = 64, /* operations that start together */
    COLLECTIVE_SHARED = 16          /* brief calls after which the ranks share their times */
};

struct collective_config {
    struct bench_options options; /* .devices: the devices, named as in `train`, each with its own
                                   * thread in every process; NULL: host memory is measured */
    enum comm_kind kind;          /* any kind but the barrier */
    int root;                     /* for kinds with a root */
    enum comm_reduction reduction;
    enum dtype type;
    int64_t first, last; /* bytes */
    int64_t step;        /* bytes from one size to the next; 0: each size is the size before it
                          * times `factor` */
    int factor;          /* at least 2 */
    int aggregated;      /* number of operations of a sample. A rank starts all of them before it
                          * waits for the first. Each operation has its own buffers. The sample is
                          * their average time */
    int gpus;            /* number of GPUs of each process, or 0 for the GPUs that options.devices
                          * names. The index of the first GPU of a process is gpus * local rank */
    int checks;          /* number of checks of each result, each with new values */
    int ranks;           /* number of threads that act as ranks; 0: the ranks are the processes of
                          * the job, or 2 threads if there is no job */
    enum comm_via via;   /* how devices communicate */
};

enum collective_place { COLLECTIVE_OUT, COLLECTIVE_IN, COLLECTIVE_PLACES };

struct collective_time {
    struct harness_result time;
    double algbw, busbw; /* 1e9 bytes/s, from the median time */
    int64_t wrong;       /* number of wrong elements over all ranks and checks; -1: not checked */
};

struct collective_row {
    int64_t bytes, count; /* as nccl-tests prints them: `bytes` is the total size of all parts,
                           * `count` the number of elements of one part */
    struct collective_time place[COLLECTIVE_PLACES];
};

/* Returns the defaults of all members but the kind: fp32 sums of 1 KiB to 64 MiB; each size is
 * twice the size before it. */
struct collective_config collective_config_default(void);

/* Returns the name of the type in nccl-tests: "float", "half" ... */
const char *collective_type_str(enum dtype type);

/* Whether a rank's `send` or `recv` buffer has a part for each rank. */
bool collective_has_parts(enum comm_kind kind);

/* Returns the number of elements of one part for a size of `bytes`. For kinds with parts, a part is
 * one rank's share of the bytes, rounded down to a multiple of 16 bytes. For other kinds, the part
 * is all bytes. */
int64_t collective_count(enum comm_kind kind, enum dtype type, int64_t bytes, int ranks);

/* Sets algbw and busbw from the row's `bytes` and the median time. */
void collective_bandwidth(enum comm_kind kind, int ranks, int64_t bytes, struct collective_time *t);

/* --- values (collective_form.c) --- */

/* Returns element i of the input of rank `rank` in check number `round`, for a job of `ranks`
 * ranks. The element is a whole number, small enough that every type represents it and its sum over
 * all ranks exactly. */
double collective_value(int64_t i, int rank, int ranks, int round);

/* Sets elements 0 to n-1 to the values that collective_value returns. */
void collective_fill(enum dtype type, void *mem, int64_t n, int rank, int ranks, int round);

/* Counts the wrong elements of the result of `rank` in `mem`. `count` is as in comm_op. */
int64_t collective_wrong(const struct collective_config *c, const void *mem, int64_t count,
                         int rank, int ranks, int round);

/* --- measuring one size on a communicator (collective_form.c) --- */

/* Buffers of one rank, and its communicator for control messages. Close the communicators of all
 * ranks of the process before you free the buffers: after a failed operation, a slower rank may
 * still use them. */
struct collective_buffers {
    size_t bytes;                 /* size of `send`, and of `recv`, for one operation */
    int turns;                    /* number of operations that start together */
    void *send, *recv;            /* (turns, bytes) */
    struct collective_turn *turn; /* (turns) */
    double seconds[COLLECTIVE_SHARED];
    struct harness_job job; /* all ranks; without processes: rows are measured once, whatever else
                             * the host does */
    struct comm *words; /* communicator of the same ranks for control messages: the slowest times,
                         * the number of wrong elements */
    /* Used only if the communicator is a device's: */
    struct device *device;
    void *host; /* pinned memory, in which values are generated and checked */
    struct stream *stream;
    struct event *from, *ready, *to, *over[COLLECTIVE_AGGREGATED_MAX];
};
/* `words` is a communicator for host memory, or one that accepts host memory (comm_op.on_host). It
 * may be the same communicator as `comm`. */
MUST_CHECK enum status collective_buffers_open(struct comm *comm, struct comm *words, int64_t bytes,
                                               int turns, struct collective_buffers *b);
void collective_buffers_close(struct collective_buffers *b); /* accepts a zeroed struct */

/* Measures and checks one size. Every rank calls this function and gets the same row. Wrong results
 * are not a failure here: the row counts them. */
MUST_CHECK enum status collective_measure(const struct collective_config *c, struct comm *comm,
                                          struct collective_buffers *b, int64_t bytes,
                                          struct collective_row *row);

/* --- the benchmark --- */

/* Returns a new object with every setting of the measurement. */
json_t *collective_config_json(const struct collective_config *c);

/* The ranks of this process, one thread each. */
struct collective_ranks {
    int members;
    struct comm *const *comm;  /* (members); collective_run closes them, except the world's
                                * communicator */
    struct comm *const *words; /* (members) see collective_buffers_open */
    const char *why;           /* the reason if devices communicate through the host; else NULL */
};

/* Measures all sizes between the ranks and prints them (collective_run.c). Afterwards returns
 * STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status collective_run(const struct collective_config *c, struct world *w,
                                      const struct collective_ranks *ranks);

/* Finds or starts the ranks and calls collective_run. If a rank fails, the job ends. */
MUST_CHECK enum status bench_collective(const struct collective_config *c);
