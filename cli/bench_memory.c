/* ampscale bench memory: bandwidth of the host's memory, or of a device's. */
#include "bench/memory.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>

enum { KEY_MAX_MIB = 256 };

struct memory_args {
    struct bench_common common;
    struct bench_timing timing;
    int max_mib;
};

static const struct argp_option options[] = {
    {"max-mib", KEY_MAX_MIB, "N", 0, "Size of an array in MiB (default: one that no cache holds)",
     0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct memory_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        state->child_inputs[1] = &a->timing;
        break;
    case KEY_MAX_MIB:
        st = bench_int("--max-mib", arg, 4, 65536, &a->max_mib);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status run_memory(const struct memory_args *a)
{
    struct memory_config c = {.devices = a->common.devices,
                              .threads = a->common.threads,
                              .max_mib = a->max_mib,
                              .timing = memory_timing_default(),
                              .json = a->common.json,
                              .csv = a->timing.csv,
                              .out = stdout};
    TRY(bench_timing_take(&a->timing, c.json, &c.timing));
    return bench_memory(&c);
}

int cmd_bench_memory(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&bench_common_argp, 0, NULL, 0}, {&bench_timing_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Times STREAM's copy, scale, add and triad in the host's memory, or copies to, from "
               "and within a device, and checks every element."};
    struct memory_args a = {.common = bench_common_default(), .timing = bench_timing_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_memory(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
