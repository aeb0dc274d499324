/* Collectives between ranks, by size, as nccl-tests measures them.
 *
 * For each size an operation is timed out of place and in place, and every element of its result is
 * checked. A sample is the time of the slowest rank; the ranks meet before each. Where
 * communicators lack a form, it includes the copy that a caller would have to make: of a broadcast
 * out of place the root's, from send to recv, and of a reduce-scatter in place each rank's, of its
 * part into the buffer that the values came from.
 *
 * In memory of devices, a sample is the time by the device's own clock from when the data is ready
 * on a stream until that stream can go on with the result; the communicator is the one that
 * training uses. Values are made and checked on the host.
 *
 * Sizes, counts and bandwidths are those of nccl-tests (PERFORMANCE.md and src/ there): of n ranks,
 * algbw is bytes over seconds, where the bytes of an allgather or a reduce-scatter are those of all
 * ranks' parts together, and busbw is algbw times 2(n-1)/n for allreduce, (n-1)/n for allgather and
 * reduce-scatter, 1 for broadcast and reduce. */
#ifndef BENCH_COLLECTIVE_H
#define BENCH_COLLECTIVE_H

#include "bench/harness.h"
#include "comm/comm.h"
#include "kernels/device_list.h"
#include "runners/gpu_group.h"

#include <stdio.h>

enum { COLLECTIVE_SCHEMA = 1, COLLECTIVE_RANKS_MAX = 256 };

enum bench_format { BENCH_TABLE, BENCH_JSON, BENCH_CSV };

struct collective_config {
    enum comm_kind kind; /* any but the barrier; the root of those that have one is rank 0 */
    enum comm_reduction reduction;
    enum dtype type;
    int64_t first, last; /* bytes */
    int64_t step;        /* bytes from one size to the next; 0: `factor` times as much */
    int factor;          /* at least 2 */
    int checks;          /* of each result, with other values each time; 0: none */
    int ranks;           /* threads of this process; 0: two, or the processes of the job */
    const char *devices; /* as train has them, a thread for each in every process; NULL: the host */
    enum comm_via via;   /* how devices talk */
    const int64_t *list; /* (listed) sizes in bytes, ascending, of which first and last are these,
                            and no step; NULL */
    int listed;
    struct harness_config timing;
    enum bench_format format;
    FILE *out;
};

enum collective_place { COLLECTIVE_OUT, COLLECTIVE_IN, COLLECTIVE_PLACES };

struct collective_time {
    struct harness_result time;
    double algbw, busbw; /* 1e9 bytes a second, by the median */
    int64_t wrong;       /* elements of all ranks and checks; -1: not checked */
};

struct collective_row {
    int64_t bytes, count; /* as nccl-tests prints them: of all parts, and of one rank's part */
    struct collective_time place[COLLECTIVE_PLACES];
};

/* Defaults but for the kind: fp32 sums of 1 KiB to 64 MiB, each size twice the one before. */
struct collective_config collective_config_default(void);

/* "float", "half" ...: nccl-tests' names of types. */
const char *collective_type_str(enum dtype type);
const char *collective_reduction_str(enum comm_reduction reduction);

/* Does the kind combine values? */
bool collective_reduces(enum comm_kind kind);

/* Elements of one rank's part for a size of `bytes` among `ranks`: where each rank has its own, a
 * whole number of 16 bytes. */
int64_t collective_count(enum comm_kind kind, enum dtype type, int64_t bytes, int ranks);

/* Fills in both bandwidths from `bytes` of the row and the median. */
void collective_bandwidth(enum comm_kind kind, int ranks, int64_t bytes, struct collective_time *t);

/* --- values (collective_check.c) --- */

/* Element i of what rank `rank` of `ranks` brings in check number `round`: a small whole number, so
 * that all types hold it, and sums over all ranks, exactly. */
double collective_value(int64_t i, int rank, int ranks, int round);

/* Writes the values of elements 0 to n-1. */
void collective_fill(enum dtype type, void *mem, int64_t n, int rank, int ranks, int round);

/* Writes what no value is. */
void collective_poison(enum dtype type, void *mem, int64_t n);

/* Elements of rank's result in `mem` that are not what they have to be; `count` as in comm_op. */
int64_t collective_wrong(const struct collective_config *c, const void *mem, int64_t count,
                         int rank, int ranks, int round);

/* --- a size, on a communicator --- */

/* Buffers of one rank, `bytes` each, and what it tells the others. When an operation failed, a
 * slower rank of the same process may use them until all have closed their communicators. */
struct collective_buffers {
    size_t bytes;
    void *send, *recv;
    double word;
    struct comm *words; /* between the same ranks, for what they tell each other */
    /* Where the communicator is of a device: */
    struct device *device;
    void *host; /* pinned; where values are made and checked */
    struct stream *stream;
    struct event *from, *ready, *over, *to;
};
/* `words` is of host memory, or takes it (comm_op.on_host); may be `comm`. */
MUST_CHECK enum status collective_buffers_open(struct comm *comm, struct comm *words, int64_t bytes,
                                               struct collective_buffers *b);
void collective_buffers_close(struct collective_buffers *b); /* a zeroed one is fine */

/* Measures and checks one size; called by every rank, each of which gets the same row. That results
 * are wrong is no failure here: the row says so. */
MUST_CHECK enum status collective_measure(const struct collective_config *c, struct comm *comm,
                                          struct collective_buffers *b, int64_t bytes,
                                          struct collective_row *row);

/* --- what is printed (collective_report.c) --- */

struct collective_rank {
    const char *host;
    int pid;
};

struct collective_report {
    const struct collective_config *config;
    const char *network;                /* what they talk through */
    const char *memory;                 /* where the data lies: "host" or "device" */
    const char *why;                    /* devices talk by way of the host: one line, or "" */
    const json_t *versions;             /* of libraries; an object */
    int ranks, threads;                 /* threads of a process that are ranks */
    const struct collective_rank *rank; /* (ranks) */
    int rows;
    int failed;    /* results with wrong elements, */
    int64_t wrong; /* and these elements */
    double busbw;  /* sum over rows and places */
    json_t *json;  /* the rows as objects; with BENCH_JSON */
};

/* Rank 0's, in this order. The table and the CSV are printed row by row, JSON at the end. */
MUST_CHECK enum status collective_report_begin(struct collective_report *r);
MUST_CHECK enum status collective_report_row(struct collective_report *r,
                                             const struct collective_row *row);
MUST_CHECK enum status collective_report_end(struct collective_report *r);
void collective_report_close(struct collective_report *r);

/* A number in `width` places: with two digits, one, none, or an exponent, whichever fits first.
 * out has width + 1 bytes, 6 or 7 places. */
void collective_number(double value, int width, char *out);

/* --- all of it --- */

/* The ranks of this process, a thread for each. */
struct collective_ranks {
    int members;
    struct comm *const *comm;  /* (members); closed when all is done, but for that of the world */
    struct comm *const *words; /* (members) see collective_buffers_open */
    const char *why;           /* see collective_report */
};

/* Measures all sizes between the ranks and prints. STATUS_MISMATCH where a result was wrong, when
 * all is printed. */
MUST_CHECK enum status collective_run(const struct collective_config *c, struct world *w,
                                      const struct collective_ranks *ranks);

/* --- devices (collective_devices.c) --- */

/* The devices of this process, and how they talk to all others. */
struct collective_devices {
    struct device_list list;
    int n;
    struct device *device[DEVICES_MAX];
    struct nccl_port *port;
    struct gpu_group group;
    struct comm *local[DEVICES_MAX]; /* between the threads of a process; none where n is 1, */
    struct comm *joint[DEVICES_MAX]; /* and between those of all processes, where there are more */
    struct comm *comm[DEVICES_MAX], *words[DEVICES_MAX];
};

/* Finds what --devices names: before the world is opened. STATUS_USAGE for devices that have the
 * host's memory. */
MUST_CHECK enum status collective_devices_find(const struct collective_config *c,
                                               struct collective_devices *d);
/* Opens them, and the communicators between them and those of all other processes. */
MUST_CHECK enum status collective_devices_open(const struct collective_config *c, struct world *w,
                                               struct collective_devices *d);
/* comm[] is collective_run's to close. */
void collective_devices_close(struct collective_devices *d);

/* Finds or makes the ranks, and runs. A rank that fails ends the job. */
MUST_CHECK enum status bench_collective(const struct collective_config *c);
#endif
