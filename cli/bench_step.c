/* ampscale bench step: the operations of a training step. */
#include "bench/step.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>

enum { KEY_PEAK = 256, KEY_FUSE };

static const struct argp_child children[] = {{&bench_net_argp, 0, NULL, 0}, {0}};

static error_t parse_step(int key, char *arg, struct argp_state *state)
{
    struct bench_net *n = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = n;
        return 0;
    case KEY_PEAK:
        n->config.peak = arg;
        return 0;
    case KEY_FUSE:
        return bench_fuse(arg, &n->config.fuse) == STATUS_OK ? 0 : EINVAL;
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
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_step,
        .children = children,
        .doc = "Times a training step, operation by operation, in its place, and how near each "
               "comes to the least time that the peaks allow."};
    struct bench_net n = bench_net_default();
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &n, &exit_code))
        return exit_code;
    struct bench_net_config c = bench_net_config_of(&n);
    enum status st = bench_step(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
