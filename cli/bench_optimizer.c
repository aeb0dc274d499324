/* ampscale bench optimizer: the update of a network's parameters. */
#include "bench/optimizer.h"

#include "bench/memory.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"
#include "model/policy.h"

enum { KEY_NET = 256, KEY_PRECISION, KEY_EMULATE, KEY_PEAK };

struct optimizer_args {
    struct bench_common common;
    struct bench_timing timing;
    struct optimizer_config config;
};

static const struct argp_option options[] = {
    {"net", KEY_NET, "ARCH", 0, "Network whose parameters these are (default resnet50)", 0},
    {"precision", KEY_PRECISION, "fp32|tf32|amp|bf16|O0|O1|O2|O3", 0,
     "As train has them (default: fp32, amp and O2, a row each)", 0},
    {"emulate", KEY_EMULATE, 0, 0, "Round in fp32 although the processor has the type", 0},
    {"peak", KEY_PEAK, "FILE", 0,
     "The device's peaks, as 'bench peak --json' printed them (default: measure them first)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct optimizer_args *a = state->input;
    struct optimizer_config *c = &a->config;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        state->child_inputs[1] = &a->timing;
        return 0;
    case KEY_NET:
        c->net = arg;
        return 0;
    case KEY_PRECISION:
        c->n_precisions = 1;
        c->precision[0] = arg;
        return 0;
    case KEY_EMULATE:
        c->emulate = true;
        return 0;
    case KEY_PEAK:
        c->peak = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum status run_optimizer(struct optimizer_args *a)
{
    struct optimizer_config *c = &a->config;
    struct policy known;
    for (int i = 0; i < c->n_precisions; i++)
        TRY(policy_find(c->precision[i], -1, &known));
    TRY(bench_timing_take(&a->timing, a->common.json, &c->timing));
    c->devices = a->common.devices;
    c->threads = a->common.threads;
    c->format = a->common.json ? BENCH_JSON : a->timing.csv ? BENCH_CSV : BENCH_TABLE;
    return bench_optimizer(c);
}

int cmd_bench_optimizer(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&bench_common_argp, 0, NULL, 0}, {&bench_timing_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Times the optimizer's update of a network's parameters by the bytes that it must "
               "move, against the device's measured bandwidth, and checks every element."};
    struct optimizer_args a = {.common = bench_common_default(),
                               .timing = bench_timing_default(),
                               .config = {.net = "resnet50",
                                          .n_precisions = 3,
                                          .precision = {"fp32", "amp", "O2"},
                                          .timing = memory_timing_default(),
                                          .out = stdout}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_optimizer(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
