/* ampscale bench conv: a network's convolutions beside its step, or DeepBench's. */
#include "bench/conv.h"

#include "bench/conv_deepbench.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

enum { KEY_NO_STEP = 256, KEY_DEEPBENCH, KEY_PEAK, KEY_MAX_MIB };

struct conv_args {
    struct bench_net net;
    struct bench_timing timing;
    bool deepbench;
    const char *peak;
    int max_mib;
};

static const struct argp_option options[] = {
    {"no-step", KEY_NO_STEP, 0, 0, "Leave the training step out", 0},
    {"deepbench", KEY_DEEPBENCH, 0, 0,
     "DeepBench's training convolutions, in place of a network's; of the flags of networks "
     "--precision counts",
     0},
    {"peak", KEY_PEAK, "FILE", 0,
     "With --deepbench, shares of the device's peak, as 'bench peak --json' printed it", 0},
    {"max-mib", KEY_MAX_MIB, "N", 0,
     "With --deepbench, leave out what needs more memory (default: three quarters of what is free)",
     0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct conv_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->net;
        state->child_inputs[1] = &a->timing;
        break;
    case KEY_NO_STEP:
        a->net.config.no_step = true;
        break;
    case KEY_DEEPBENCH:
        a->deepbench = true;
        break;
    case KEY_PEAK:
        a->peak = arg;
        break;
    case KEY_MAX_MIB:
        st = bench_int("--max-mib", arg, 1, 1 << 24, &a->max_mib);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* Here a precision is the type of every operand. */
static enum status type_of(const char *precision, enum dtype *out)
{
    static const struct {
        const char *precision;
        enum dtype type;
    } types[] = {
        {"fp32", DTYPE_F32}, {"tf32", DTYPE_TF32}, {"amp", DTYPE_F16}, {"bf16", DTYPE_BF16}};
    *out = DTYPE_F32;
    if (!precision)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(precision, types[i].precision) == 0) {
            *out = types[i].type;
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE, "--precision '%s': give fp32, tf32, amp or bf16", precision);
}

static enum status run_deepbench(const struct conv_args *a)
{
    struct conv_deepbench_config c = {.devices = a->net.common.devices,
                                      .threads = a->net.common.threads,
                                      .max_mib = a->max_mib,
                                      .peak = a->peak,
                                      .timing = conv_deepbench_timing_default(),
                                      .json = a->net.common.json,
                                      .csv = a->timing.csv,
                                      .out = stdout};
    if (a->net.config.emulate)
        return status_fail(STATUS_USAGE, "--emulate is for networks, not for --deepbench");
    TRY(type_of(a->net.config.precision, &c.type));
    TRY(bench_timing_take(&a->timing, c.json, &c.timing));
    return bench_conv_deepbench(&c, DEEPBENCH_CONVS, deepbench_conv);
}

static enum status run_conv(const struct conv_args *a)
{
    if (a->deepbench)
        return run_deepbench(a);
    if (a->peak || a->max_mib || a->timing.csv || a->timing.iters >= 0 || a->timing.warmup >= 0)
        return status_fail(STATUS_USAGE,
                           "--peak, --max-mib, --csv, -n and -w are for --deepbench alone");
    struct bench_net_config c = bench_net_config_of(&a->net);
    return bench_conv(&c);
}

int cmd_bench_conv(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&bench_net_argp, 0, NULL, 0}, {&bench_timing_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Times each convolution of a network by itself, forward and backward, in fp32, and "
               "how near a whole training step comes to their sum; or those that DeepBench times. "
               "Elements of each result are checked."};
    struct conv_args a = {.net = bench_net_default(), .timing = bench_timing_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_conv(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
