/* The flags of 'bench collective' and 'bench memory'. Those of the first bear nccl-tests' names. */
#include "cli/bench_micro.h"

#include "bench/memory.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MINBYTES = 512, KEY_RANKS, KEY_CSV };

#define BYTES_MAX ((int64_t)1 << 40)

enum { ITERS_MAX = 100000, CHECKS_MAX = 1000, FACTOR_MAX = 1024 };

static const struct argp_option options[] = {
    {"minbytes", KEY_MINBYTES, "SIZE", 0,
     "collective: the smallest size in bytes, with K, M or G; as -b (default 1K)", 0},
    {"maxbytes", 'e', "SIZE", 0, "collective: the largest size (default 64M)", 0},
    {"stepfactor", 'f', "N", 0, "collective: from one size to the next, times N (default 2)", 0},
    {"stepbytes", 'i', "SIZE", 0, "collective: from one size to the next, plus SIZE", 0},
    {"iters", 'n', "N", 0,
     "collective, memory: measurements of each size, at most (default 20, or 50 for memory)", 0},
    {"warmup", 'w', "N", 0, "collective, memory: and before them (default 5, or 2)", 0},
    {"check", 'c', "N", 0, "collective: checks of each result, 0 for none (default 1)", 0},
    {"datatype", 'd', "float|half|bfloat16|double|int32|uint8", 0,
     "collective: type of the elements (default float)", 0},
    {"op", 'o', "sum|max|min", 0, "collective: how they are combined (default sum)", 0},
    {"ranks", KEY_RANKS, "N", 0,
     "collective: threads of one process as ranks, without a launcher (default 2)", 0},
    {"csv", KEY_CSV, 0, 0, "collective, memory: print CSV", 0},
    {0},
};

struct bench_micro bench_micro_default(void)
{
    return (struct bench_micro){
        .iters = -1, .warmup = -1, .collective = collective_config_default()};
}

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

static enum status parse_int(const char *flag, const char *arg, int min, int max, int *out)
{
    int64_t v;
    TRY(cli_int(flag, arg, min, max, &v));
    *out = (int)v;
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
    return status_fail(STATUS_USAGE,
                       "bench collective '%s': give allreduce, broadcast, reduce, allgather or "
                       "reduce-scatter",
                       arg ? arg : "");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench_micro *m = state->input;
    struct collective_config *c = &m->collective;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_MINBYTES:
        st = parse_bytes("--minbytes", arg, &c->first);
        break;
    case 'e':
        st = parse_bytes("-e", arg, &c->last);
        break;
    case 'f':
        m->by_factor = true;
        st = parse_int("-f", arg, 2, FACTOR_MAX, &c->factor);
        break;
    case 'i':
        m->by_step = true;
        st = parse_bytes("-i", arg, &c->step);
        break;
    case 'n':
        st = parse_int("-n", arg, 1, ITERS_MAX, &m->iters);
        break;
    case 'w':
        st = parse_int("-w", arg, 0, ITERS_MAX, &m->warmup);
        break;
    case 'c':
        st = parse_int("-c", arg, 0, CHECKS_MAX, &c->checks);
        break;
    case 'd':
        st = parse_type(arg, &c->type);
        break;
    case 'o':
        st = parse_op(arg, &c->reduction);
        break;
    case KEY_RANKS:
        st = parse_int("--ranks", arg, 1, COLLECTIVE_RANKS_MAX, &c->ranks);
        break;
    case KEY_CSV:
        m->csv = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

const struct argp bench_micro_argp = {.options = options, .parser = parse};

static enum status set_timing(const struct bench_micro *m, bool json, struct harness_config *timing)
{
    if (json && m->csv)
        return status_fail(STATUS_USAGE, "--json and --csv: give one of them");
    if (m->iters >= 0)
        timing->most = m->iters;
    if (m->warmup >= 0)
        timing->warmup = m->warmup;
    return STATUS_OK;
}

enum status bench_micro_collective(struct bench_micro *m, const char *first, bool json)
{
    struct collective_config *c = &m->collective;
    TRY(parse_kind(m->kind, &c->kind));
    TRY(set_timing(m, json, &c->timing));
    if (first)
        TRY(parse_bytes("-b", first, &c->first));
    if (m->by_factor && m->by_step)
        return status_fail(STATUS_USAGE, "-f and -i: give one of them");
    c->format = json ? BENCH_JSON : m->csv ? BENCH_CSV : BENCH_TABLE;
    return bench_collective(c);
}

enum status bench_micro_memory(const struct bench_micro *m, struct memory_config *c)
{
    c->timing = memory_timing_default();
    c->csv = m->csv;
    TRY(set_timing(m, c->json, &c->timing));
    return bench_memory(c);
}
