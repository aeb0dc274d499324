/* ampscale bench overhead: what a step costs besides computing. */
#include "bench/overhead.h"

#include "bench/memory.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"

struct overhead_args {
    struct bench_common common;
    struct bench_timing timing;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct overhead_args *a = state->input;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = &a->common;
    state->child_inputs[1] = &a->timing;
    return 0;
}

static enum status run_overhead(const struct overhead_args *a)
{
    struct overhead_config c = {.devices = a->common.devices,
                                .threads = a->common.threads,
                                .timing = memory_timing_default(),
                                .format = a->common.json  ? BENCH_JSON
                                          : a->timing.csv ? BENCH_CSV
                                                          : BENCH_TABLE,
                                .out = stdout};
    TRY(bench_timing_take(&a->timing, a->common.json, &c.timing));
    if (c.timing.most > OVERHEAD_ITERS_MAX || c.timing.warmup > OVERHEAD_ITERS_MAX)
        return status_fail(STATUS_USAGE, "-n and -w: give at most %d here", OVERHEAD_ITERS_MAX);
    return bench_overhead(&c);
}

int cmd_bench_overhead(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&bench_common_argp, 0, NULL, 0}, {&bench_timing_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse,
        .children = children,
        .doc = "Times calls that do next to nothing: an operation's launch, an event, a step of a "
               "network of one small layer, a line of the record, and a sum of 4 bytes between "
               "ranks; each is shown to have taken place."};
    struct overhead_args a = {.common = bench_common_default(), .timing = bench_timing_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_overhead(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
