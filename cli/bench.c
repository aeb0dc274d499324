/* ampscale bench: micro-benchmarks, each a command with flags of its own. */
#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <string.h>

static const struct cli_command benchmarks[] = {
    {"accuracy", "a training at each precision, compared with recorded runs", cmd_bench_accuracy},
    {"collective", "bandwidth between ranks by size, in nccl-tests' table", cmd_bench_collective},
    {"conv", "each convolution of a network, and a training step beside them", cmd_bench_conv},
    {"gemm", "matrix products: a network's, DeepBench's or one size", cmd_bench_gemm},
    {"input", "reading, decoding and augmenting images, and the whole loader", cmd_bench_input},
    {"memory", "STREAM's kernels, or copies to, from and within a device", cmd_bench_memory},
    {"optimizer", "the update of a network's parameters, by the bytes that it moves",
     cmd_bench_optimizer},
    {"overhead", "what a step costs besides computing: launches, events, records",
     cmd_bench_overhead},
    {"overlap", "how much communication hides behind the backward pass", cmd_bench_overlap},
    {"peak", "the device's memory bandwidth and rates of products", cmd_bench_peak},
    {"profile", "every GPU kernel of a training step, as NVIDIA's profiler sees it",
     cmd_bench_profile},
    {"step", "a training step, operation by operation, against the peaks", cmd_bench_step},
    {"throughput", "training in turns with a peer's, by precision, batch, fusion and graphs",
     cmd_bench_throughput},
    {0},
};

static bool is_benchmark(const char *word)
{
    for (const struct cli_command *c = benchmarks; c->name; c++)
        if (strcmp(word, c->name) == 0)
            return true;
    return false;
}

/* Flags may come before the benchmark's name, as a launcher puts them: the name goes first. */
static void name_first(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (argv[1][0] != '-' || !is_benchmark(argv[i]))
            continue;
        char *name = argv[i];
        memmove(&argv[2], &argv[1], (size_t)(i - 1) * sizeof *argv);
        argv[1] = name;
        return;
    }
}

int cmd_bench(int argc, char **argv)
{
    name_first(argc, argv);
    return cli_run(benchmarks, "Times the parts that training is made of.", argc, argv);
}
