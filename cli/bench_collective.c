/* ampscale bench collective: times collectives; it has the flags of nccl-tests. */
#include "bench/collective.h"

#include "cli/bench_options.h"
#include "kernels/device_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((int64_t)1 << 40)

enum { CHECKS_MAX = 1000, FACTOR_MAX = 1024 };

struct collective_command {
    struct collective_config config;
    const char *kind;        /* NULL: not given */
    bool by_factor, by_step; /* -f or -i was given */
    int threads;             /* ignored; accepted because launchers pass it to every program */
    int nthreads;            /* must be 1; accepted because nccl-tests have this flag */
};

/* --- values --- */

/* Reads a whole number of bytes such as "64M", from 1 to BYTES_MAX. */
static enum status take_bytes(const struct setting *s, const char *arg, void *command)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    long long n = strtoll(arg, &end, 10);
    bool number = *arg >= '0' && *arg <= '9' && errno == 0;
    int shift = 0;
    if (*end != '\0') {
        const char *unit = strchr(units, *end & ~0x20);
        number = number && unit && *unit && end[1] == '\0';
        shift = number ? 10 * (int)(unit - units + 1) : 0;
    }
    if (!number || n < 1 || n > BYTES_MAX >> shift)
        return status_fail(STATUS_USAGE,
                           "--%s '%s': give a number of bytes from 1 to 1T, such as 64M", s->flag,
                           arg);
    *(int64_t *)setting_member(s, command) = (int64_t)n << shift;
    return STATUS_OK;
}

static enum status take_nthreads(const struct setting *s, const char *arg, void *command)
{
    (void)command;
    if (strcmp(arg, "1") == 0)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "--%s '%s': each GPU has one thread; leave out the flag, and give -g, the "
                       "number of GPUs of a process, or --ranks, the number of ranks that use the "
                       "host's memory",
                       s->flag, arg);
}

static enum status take_type(const struct setting *s, const char *arg, void *command)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16,
                                       DTYPE_F64, DTYPE_I32, DTYPE_U8};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(arg, collective_type_str(types[i])) == 0) {
            ((struct collective_command *)command)->config.type = types[i];
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE,
                       "--%s '%s': give float, half, bfloat16, double, int32 or uint8", s->flag,
                       arg);
}

enum { NAME_BYTES = 32 };

/* Copies a name without '-', '_' and the ending "_perf" of nccl-tests' programs. */
static void bare_name(const char *name, char out[NAME_BYTES])
{
    size_t n = 0, length = strlen(name), suffix = strlen("_perf");
    if (length > suffix && strcmp(name + length - suffix, "_perf") == 0)
        length -= suffix;
    for (size_t i = 0; i < length && n < NAME_BYTES - 1; i++)
        if (name[i] != '-' && name[i] != '_')
            out[n++] = name[i];
    out[n] = '\0';
}

static bool names_kind(const char *arg, const char *kind)
{
    char given[NAME_BYTES], known[NAME_BYTES];
    bare_name(arg, given);
    bare_name(kind, known);
    return strcmp(given, known) == 0;
}

static enum status parse_kind(const char *arg, enum comm_kind *out)
{
    static const char known[] = "give allreduce, broadcast, reduce, allgather, reduce-scatter, "
                                "alltoall, gather, scatter or sendrecv";
    for (int kind = 0; arg && kind < COMM_BARRIER; kind++)
        if (names_kind(arg, comm_kind_str((enum comm_kind)kind))) {
            *out = (enum comm_kind)kind;
            return STATUS_OK;
        }
    return arg ? status_fail(STATUS_USAGE, "bench collective '%s': %s", arg, known)
               : status_fail(STATUS_USAGE, "no operation: %s", known);
}

/* --- flags --- */

#define SETTINGS_OF struct collective_command
_Static_assert(COMM_SUM == 0 && COMM_MAX == 1 && COMM_MIN == 2 && COMM_AVG == 3, "--op");
static const struct setting collective_settings[] = {
    {NULL, 0, "KIND", NULL, NULL, AS_TEXT(kind)},
    {"minbytes", 'b', "SIZE", "1K", "Smallest size in bytes; K, M and G are accepted",
     TAKEN_BY(take_bytes), SETTING_AT(config.first)},
    {"maxbytes", 'e', "SIZE", "64M", "Largest size in bytes", TAKEN_BY(take_bytes),
     SETTING_AT(config.last)},
    {"stepfactor", 'f', "N", "2", "Factor from one size to the next",
     AS_INTEGER(config.factor, 2, FACTOR_MAX), GIVEN(by_factor)},
    {"stepbytes", 'i', "SIZE", NULL, "Difference from one size to the next, in bytes",
     TAKEN_BY(take_bytes), SETTING_AT(config.step), GIVEN(by_step)},
    {"iters", 'n', "N", "20", "Largest number of timed calls of each size",
     AS_INTEGER(config.options.timing.most, 1, BENCH_ITERS_MAX)},
    {"warmup", 'w', "N", "5", "Warm-up calls, which are not timed",
     AS_INTEGER(config.options.timing.warmup, 0, BENCH_ITERS_MAX), .aliases = {"warmup_iters"}},
    {"agg-iters", 'm', "N", "1",
     "Operations that start together in a call; times are per operation",
     AS_INTEGER(config.aggregated, 1, COLLECTIVE_AGGREGATED_MAX), .aliases = {"agg_iters"}},
    {"check", 'c', "N", "1", "Checks of each result; 0: none",
     AS_INTEGER(config.checks, 0, CHECKS_MAX)},
    {"datatype", 'd', "float|half|bfloat16|double|int32|uint8", "float", "Type of the elements",
     TAKEN_BY(take_type)},
    {"op", 'o', "sum|max|min|avg", "sum", "Reduction: how elements are combined",
     AS_CHOICE(config.reduction)},
    {"root", 'r', "N", "0", "Root of broadcast, reduce, gather and scatter",
     AS_INTEGER(config.root, 0, COLLECTIVE_RANKS_MAX - 1)},
    {"ranks", 0, "N", NULL,
     "Number of threads of one process that act as ranks, without a launcher (default 2)",
     AS_INTEGER(config.ranks, 1, COLLECTIVE_RANKS_MAX)},
    {"devices", 0, "cuda:N,...", NULL,
     "GPUs that act as ranks in every process of a job, one thread per GPU; cuda: one GPU per "
     "process (default: no GPUs; the ranks use the host's memory)",
     AS_TEXT(config.options.devices)},
    {"ngpus", 'g', "N", NULL,
     "Number N of GPUs that act as ranks in each process; the index of the first is N times the "
     "local rank, as in nccl-tests",
     AS_INTEGER(config.gpus, 1, DEVICES_MAX)},
    {"nthreads", 't', "1", NULL, "Must be 1; accepted because scripts for nccl-tests pass it",
     TAKEN_BY(take_nthreads), SETTING_AT(nthreads)},
    {"comm", 0, COMM_VIA_WORDS, "auto",
     "nccl: NCCL, between GPUs; host: host memory; mpi, gloo: that library; local: the threads of "
     "one process",
     AS_CHOICE(config.via)},
    {"threads", 0, "N", NULL, "Ignored; accepted because launchers pass it to every program",
     AS_INTEGER(threads, 1, BENCH_THREADS_MAX)},
    BENCH_JSON_ROW,
    BENCH_CSV_ROW,
    BENCH_QUIET_ROW,
    {0},
};

static enum status run_collective(void *command)
{
    struct collective_command *a = command;
    TRY(parse_kind(a->kind, &a->config.kind));
    if (a->by_factor && a->by_step)
        return status_fail(STATUS_USAGE, "-f and -i exclude each other: give one of them");
    bool gpu = a->config.via == VIA_NCCL || a->config.via == VIA_HOST;
    if (gpu && !a->config.options.devices && !a->config.gpus)
        return status_fail(STATUS_USAGE,
                           "--comm nccl and host have an effect only with --devices or -g");
    return bench_collective(&a->config);
}

const struct cli_command cmd_bench_collective = {
    .name = "collective",
    .summary = "bandwidth between ranks by message size, in nccl-tests' table",
    .arguments =
        "allreduce|broadcast|reduce|allgather|reduce-scatter|alltoall|gather|scatter|sendrecv",
    .doc = "Measures the bandwidth between ranks by message size, in nccl-tests' table, and checks "
           "every element. A time is the median of calls, of each the slowest rank's, after a "
           "barrier. The ranks are those of a job, threads, or GPUs. The names that nccl-tests use "
           "(all_reduce, all_reduce_perf) are accepted too.\vExit status: 0 if every element is "
           "right, 1 on an error, 2 on wrong usage, 4 if an element is wrong.",
    .example = {{"All-reduce between two threads, up to 1 MiB",
                 "ampscale bench collective allreduce -e 1M"},
                {"All-reduce between two processes, over MPI if it is installed",
                 "ampscale launch --nproc 2 -- bench collective allreduce"},
                {"All-reduce between eight GPUs, with nccl-tests' flags (needs 8 GPUs)",
                 "ampscale bench collective all_reduce_perf -b 8 -e 1G -f 2 -g 8"}},
    .part = {{collective_settings}},
    .prints = true,
    .config = &(struct collective_command){.config.options.timing = {.within = 0.02, .seconds = 2}},
    .work = run_collective};
