/* ampscale bench profile: the kernels of a training step. */
#include "bench/profile.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>

enum { KEY_PEAK = 256, KEY_FUSE, KEY_BUDGET, KEY_OUT };

struct profile_args {
    struct bench_net net;
    struct profile_config config;
};

static const struct argp_option options[] = {
    {"fuse", KEY_FUSE, "auto|none|stats|apply|all", 0,
     "How far convolution and batch norm are fused where the device can (default auto), as train "
     "has it",
     0},
    {"peak", KEY_PEAK, "FILE", 0,
     "The device's peaks, as 'bench peak --json' printed them (default: measure them first)", 0},
    {"budget", KEY_BUDGET, "S", 0, "Give up after S seconds (default: never)", 0},
    {"out", KEY_OUT, "DIR", 0, "Folder for profile.json and for what ncu wrote", 0},
    {0},
};

static error_t parse_profile(int key, char *arg, struct argp_state *state)
{
    struct profile_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->net;
        break;
    case KEY_FUSE:
        st = bench_fuse(arg, &a->net.config.fuse);
        break;
    case KEY_PEAK:
        a->net.config.peak = arg;
        break;
    case KEY_BUDGET:
        st = cli_double("--budget", arg, 1, 1e6, &a->config.budget_s);
        break;
    case KEY_OUT:
        a->config.dir = arg;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status run_profile(struct profile_args *a)
{
    char program[PATH_MAX];
    TRY(process_own_file(program, sizeof program));
    a->config.program = program;
    a->config.net = bench_net_config_of(&a->net);
    return bench_profile(&a->config);
}

int cmd_bench_profile(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_net_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse_profile,
        .children = children,
        .doc = "Runs one training step on a GPU under NVIDIA's profiler ncu: time, DRAM traffic "
               "and tensor core use of every kernel, and the least that its operation needs.\v"
               "Exit status: 0 profiled, 1 failed or stopped by a signal, 2 wrong usage, 5 the "
               "device is no GPU, ncu is missing or may not read counters, or the budget is over."};
    struct profile_args a = {.net = bench_net_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_profile(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
