/* ampscale bench peak: what the device can do at best. */
#include "bench/peak.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>

enum { KEY_ROUNDS = 256, KEY_MAX_MIB };

struct peak_args {
    struct bench_common common;
    int rounds, max_mib;
};

static const struct argp_option options[] = {
    {"rounds", KEY_ROUNDS, "N", 0, "Calls of which the best counts (default 5, at most 64)", 0},
    {"max-mib", KEY_MAX_MIB, "N", 0,
     "The largest set of bytes to move, in MiB (default: one that no cache holds)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct peak_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        break;
    case KEY_ROUNDS:
        st = bench_int("--rounds", arg, 1, BENCH_ROUNDS_MAX, &a->rounds);
        break;
    case KEY_MAX_MIB:
        st = bench_int("--max-mib", arg, 4, 65536, &a->max_mib);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

int cmd_bench_peak(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Measures the device's memory bandwidth, and its rates of products in the types "
               "that it has."};
    struct peak_args a = {.common = bench_common_default(), .rounds = 5};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    struct peak_config c = {.devices = a.common.devices,
                            .threads = a.common.threads,
                            .rounds = a.rounds,
                            .max_mib = a.max_mib,
                            .json = a.common.json,
                            .out = stdout};
    enum status st = bench_peak(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
