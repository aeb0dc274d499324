/* ampscale bench peak: the highest rates of the device. */
#include "bench/micro.h"

#include "cli/bench_options.h"

#define SETTINGS_OF struct bench_options
static const struct setting peak_settings[] = {
    {"rounds", 0, "N", "5",
     "Least number of calls, at most 64; more until the fastest one is stable",
     AS_INTEGER(rounds, 1, BENCH_ROUNDS_MAX)},
    {"max-mib", 0, "N", NULL,
     "Largest amount of memory to read or write, in MiB (default: larger than every cache)",
     AS_INTEGER(max_mib, 4, 65536)},
    {0},
};

const struct cli_command cmd_bench_peak = {
    .name = "peak",
    .summary = "the device's memory bandwidth and GEMM throughput",
    .doc = "Measures the device's memory bandwidth, and its "
           "GEMM throughput in every type that it supports.",
    .example = {{"Measure this machine", "ampscale bench peak"},
                {"Keep the peaks for --peak of other benchmarks",
                 "ampscale bench peak --json -o peak.json"}},
    .part = {{bench_device_settings}, {peak_settings}},
    .prints = true,
    .config = &(struct bench_options){0},
    .bench = bench_peak};
