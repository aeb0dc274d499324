/* ampscale bench step: the operations of a training step. */
#include "bench/step.h"

#include "bench/profile.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>

enum { KEY_PEAK = 256, KEY_FUSE, KEY_PROFILE };

struct step_args {
    struct bench_net net;
    bool profile;
};

static const struct argp_child children[] = {{&bench_net_argp, 0, NULL, 0}, {0}};

static error_t parse_step(int key, char *arg, struct argp_state *state)
{
    struct step_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->net;
        return 0;
    case KEY_PEAK:
        a->net.config.peak = arg;
        return 0;
    case KEY_FUSE:
        return bench_fuse(arg, &a->net.config.fuse) == STATUS_OK ? 0 : EINVAL;
    case KEY_PROFILE:
        a->profile = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_bench_step(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"peak", KEY_PEAK, "FILE", 0,
         "The device's peaks, as 'bench peak --json' printed them (default: measure them first)",
         0},
        {"fuse", KEY_FUSE, "auto|none|stats|apply|all", 0,
         "How far convolution and batch norm are fused where the device can (default auto), as "
         "train has it",
         0},
        {"profile-one-step", KEY_PROFILE, 0, OPTION_HIDDEN,
         "One step with marks for a profiler, untimed; what bench profile starts", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_step,
        .children = children,
        .doc = "Times a training step, operation by operation, in its place, and how near each "
               "comes to the least time that the peaks allow."};
    struct step_args a = {.net = bench_net_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    struct bench_net_config c = bench_net_config_of(&a.net);
    enum status st = a.profile ? bench_profile_step(&c) : bench_step(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
