/* ampscale bench: micro-benchmarks, each a command with flags of its own. */
#include "cli/bench_options.h"

#include <string.h>

static const struct cli_command *const benchmarks[] = {
    &cmd_bench_accuracy, &cmd_bench_collective, &cmd_bench_conv,       &cmd_bench_gemm,
    &cmd_bench_input,    &cmd_bench_memory,     &cmd_bench_optimizer,  &cmd_bench_overlap,
    &cmd_bench_peak,     &cmd_bench_step,       &cmd_bench_throughput, NULL};

static const struct cli_command family = {
    .doc = "Measures the parts of training one by one.",
    .example = {{"The peaks of this machine, to which the other benchmarks refer",
                 "ampscale bench peak --json -o peak.json"},
                {"Which operations of a training step take the time",
                 "ampscale bench step --net resnet18 -b 8 --image-size 64 --peak peak.json"},
                {"Whether the input is fast enough",
                 "ampscale bench input --data data/synth10 --image-size 64"}},
    .commands = benchmarks};

/* Returns the benchmark with that name, or NULL if there is none. */
static const struct cli_command *find_benchmark(const char *name)
{
    for (const struct cli_command *const *c = benchmarks; *c; c++)
        if (strcmp(name, (*c)->name) == 0)
            return *c;
    return NULL;
}

/* Moves the benchmark's name before the flags, because a launcher may insert flags before the
 * name. */
static void name_first(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (argv[1][0] != '-' || !find_benchmark(argv[i]))
            continue;
        char *name = argv[i];
        memmove(&argv[2], &argv[1], (size_t)(i - 1) * sizeof *argv);
        argv[1] = name;
        return;
    }
}

static int run_bench(const struct cli_command *c, int argc, char **argv)
{
    const struct cli_command *b;
    struct bar bar = {.out = bar_stream(false)};
    (void)c;
    name_first(argc, argv);
    if (argc > 1 && (b = find_benchmark(argv[1]))) {
        struct bench_options *o = b->config;
        o->out = stdout;
        o->timing.bar = &bar;
        o->timing.repeats = HARNESS_REPEATS;
        bar.title = b->name;
    }
    int code = cli_run(&family, argc, argv);
    bar_erase(&bar);
    return code;
}

const struct cli_command cmd_bench = {
    .name = "bench", .summary = "time the parts of training one by one", .run = run_bench};
