/* ampscale bench collective: its flags bear nccl-tests' names. */
#include "bench/collective.h"

#include "bench/deepbench.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_DEVICES = 256, KEY_COMM, KEY_DEEPBENCH, KEY_RANKS, KEY_THREADS, KEY_JSON, KEY_CSV };

#define BYTES_MAX ((int64_t)1 << 40)

enum { CHECKS_MAX = 1000, FACTOR_MAX = 1024 };

struct collective_args {
    const char *kind; /* NULL: not said */
    bool json, csv;
    bool by_factor, by_step; /* -f or -i was given */
    bool sized;              /* -b, -e, -f or -i */
    bool deepbench;
    int64_t list[DEEPBENCH_SUMS];
    struct collective_config config;
};

static const struct argp_option options[] = {
    {"minbytes", 'b', "SIZE", 0, "The smallest size in bytes, with K, M or G (default 1K)", 0},
    {"maxbytes", 'e', "SIZE", 0, "The largest size (default 64M)", 0},
    {"stepfactor", 'f', "N", 0, "From one size to the next, times N (default 2)", 0},
    {"stepbytes", 'i', "SIZE", 0, "From one size to the next, plus SIZE", 0},
    {"iters", 'n', "N", 0, "Measurements of each size, at most (default 20)", 0},
    {"warmup", 'w', "N", 0, "Warm-up runs, which do not count (default 5)", 0},
    {"check", 'c', "N", 0, "Checks of each result, 0 for none (default 1)", 0},
    {"datatype", 'd', "float|half|bfloat16|double|int32|uint8", 0,
     "Type of the elements (default float)", 0},
    {"op", 'o', "sum|max|min", 0, "How elements are combined (default sum)", 0},
    {"ranks", KEY_RANKS, "N", 0, "Threads of one process as ranks, without a launcher (default 2)",
     0},
    {"devices", KEY_DEVICES, "cuda:N,...", 0,
     "GPUs as ranks, a thread for each, in every process of a job; cuda: one for each process "
     "(default: the host's memory)",
     0},
    {"comm", KEY_COMM, "auto|nccl|host", 0,
     "What GPUs talk through (default auto): NCCL, or by way of the host", 0},
    {"deepbench", KEY_DEEPBENCH, 0, 0, "DeepBench's sizes of sums of float", 0},
    {"threads", KEY_THREADS, "N", 0, "Taken because launchers give it; nothing computes here", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {"csv", KEY_CSV, 0, 0, "Print CSV", 0},
    {0},
};

/* "64M": a whole number of bytes, from 1 to BYTES_MAX. */
static enum status parse_bytes(const char *flag, const char *arg, int64_t *out)
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
        return status_fail(STATUS_USAGE, "%s '%s': give a number of bytes from 1 to 1T, as in 64M",
                           flag, arg);
    *out = (int64_t)n << shift;
    return STATUS_OK;
}

static enum status parse_type(const char *arg, enum dtype *out)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16,
                                       DTYPE_F64, DTYPE_I32, DTYPE_U8};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(arg, collective_type_str(types[i])) == 0) {
            *out = types[i];
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_USAGE, "-d '%s': give float, half, bfloat16, double, int32 or uint8",
                       arg);
}

static enum status parse_op(const char *arg, enum comm_reduction *out)
{
    static const enum comm_reduction all[] = {COMM_SUM, COMM_MAX, COMM_MIN};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(arg, collective_reduction_str(all[i])) == 0) {
            *out = all[i];
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_USAGE, "-o '%s': give sum, max or min", arg);
}

static enum status parse_kind(const char *arg, enum comm_kind *out)
{
    for (int kind = 0; kind < COMM_BARRIER; kind++) {
        if (arg && strcmp(arg, comm_kind_str((enum comm_kind)kind)) == 0) {
            *out = (enum comm_kind)kind;
            return STATUS_OK;
        }
    }
    if (!arg)
        return status_fail(STATUS_USAGE, "no operation: give allreduce, broadcast, reduce, "
                                         "allgather or reduce-scatter");
    return status_fail(STATUS_USAGE,
                       "bench collective '%s': give allreduce, broadcast, reduce, allgather or "
                       "reduce-scatter",
                       arg ? arg : "");
}

static enum status parse_via(const char *arg, enum comm_via *out)
{
    static const char *const words[] = {[VIA_AUTO] = "auto", [VIA_NCCL] = "nccl", "host"};
    for (int i = 0; i <= VIA_HOST; i++) {
        if (strcmp(arg, words[i]) == 0) {
            *out = (enum comm_via)i;
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_USAGE, "--comm '%s': give auto, nccl or host", arg);
}

static enum status parse_flag(int key, const char *arg, struct collective_args *a)
{
    struct collective_config *c = &a->config;
    int threads;
    a->sized = a->sized || key == 'b' || key == 'e' || key == 'f' || key == 'i';
    switch (key) {
    case KEY_DEVICES:
        c->devices = arg;
        return STATUS_OK;
    case KEY_COMM:
        return parse_via(arg, &c->via);
    case 'b':
        return parse_bytes("-b", arg, &c->first);
    case 'e':
        return parse_bytes("-e", arg, &c->last);
    case 'f':
        a->by_factor = true;
        return bench_int("-f", arg, 2, FACTOR_MAX, &c->factor);
    case 'i':
        a->by_step = true;
        return parse_bytes("-i", arg, &c->step);
    case 'n':
        return bench_int("-n", arg, 1, BENCH_ITERS_MAX, &c->timing.most);
    case 'w':
        return bench_int("-w", arg, 0, BENCH_ITERS_MAX, &c->timing.warmup);
    case 'c':
        return bench_int("-c", arg, 0, CHECKS_MAX, &c->checks);
    case 'd':
        return parse_type(arg, &c->type);
    case 'o':
        return parse_op(arg, &c->reduction);
    case KEY_THREADS:
        return bench_int("--threads", arg, 1, 1024, &threads);
    default:
        return bench_int("--ranks", arg, 1, COLLECTIVE_RANKS_MAX, &c->ranks);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct collective_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_JSON:
        a->json = true;
        break;
    case KEY_CSV:
        a->csv = true;
        break;
    case KEY_DEEPBENCH:
        a->deepbench = true;
        break;
    case ARGP_KEY_ARG:
        if (a->kind)
            return ARGP_ERR_UNKNOWN;
        a->kind = arg;
        st = parse_kind(arg, &a->config.kind);
        break;
    default:
        if (!arg)
            return ARGP_ERR_UNKNOWN;
        st = parse_flag(key, arg, a);
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status take_deepbench(struct collective_args *a)
{
    struct collective_config *c = &a->config;
    if (a->sized)
        return status_fail(STATUS_USAGE, "--deepbench has sizes of its own: leave -b, -e, -f and "
                                         "-i out");
    if (c->kind != COMM_ALLREDUCE || c->type != DTYPE_F32 || c->reduction != COMM_SUM)
        return status_fail(STATUS_USAGE, "--deepbench is allreduce, of sums of float");
    for (int i = 0; i < DEEPBENCH_SUMS; i++)
        a->list[i] = deepbench_sum[i] * (int64_t)sizeof(float);
    c->list = a->list;
    c->listed = DEEPBENCH_SUMS;
    c->first = c->list[0];
    c->last = c->list[c->listed - 1];
    return STATUS_OK;
}

static enum status run_collective(struct collective_args *a)
{
    if (!a->kind)
        TRY(parse_kind(NULL, &a->config.kind));
    if (a->json && a->csv)
        return status_fail(STATUS_USAGE, "--json and --csv: give one of them");
    if (a->by_factor && a->by_step)
        return status_fail(STATUS_USAGE, "-f and -i: give one of them");
    if (a->deepbench)
        TRY(take_deepbench(a));
    if (a->config.via != VIA_AUTO && !a->config.devices)
        return status_fail(STATUS_USAGE, "--comm is for --devices");
    a->config.format = a->json ? BENCH_JSON : a->csv ? BENCH_CSV : BENCH_TABLE;
    return bench_collective(&a->config);
}

int cmd_bench_collective(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "allreduce|broadcast|reduce|allgather|reduce-scatter",
        .doc = "Measures the bandwidth between ranks by size, in nccl-tests' table, with every "
               "element checked: of the ranks of a job, of threads, or of GPUs."};
    struct collective_args a = {.config = collective_config_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_collective(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
