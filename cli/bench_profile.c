/* ampscale bench profile: the kernels of a training step. */
#include "bench/profile.h"

#include "cli/bench_options.h"

#define SETTINGS_OF struct bench_options
static const struct setting profile_settings[] = {
    {"budget", 0, "S", NULL, "Stop after S seconds (default: no limit)", AS_REAL(budget_s, 1, 1e6)},
    {"out", 0, "DIR", NULL, "Folder for profile.json and ncu's output", AS_TEXT(dir)},
    {0},
};

const struct cli_command cmd_bench_profile = {
    .name = "profile",
    .summary = "every GPU kernel of a training step, measured by NVIDIA's profiler",
    .doc = "Runs one training step on a GPU under NVIDIA's profiler ncu. For every kernel, reports "
           "time, DRAM traffic, tensor core use, and the lower bound of its operation.\vExit "
           "status: 0 if the step was profiled, 1 on an error, 2 on wrong usage, 5 if the device "
           "is not a GPU, if ncu is missing or may not read counters, or if the budget is over.",
    .example = {{"The kernels of a step of ResNet-50 (needs a GPU and ncu)",
                 "ampscale bench profile --devices cuda:0 --precision amp -b 256"},
                {"In at most five minutes, with ncu's output kept (needs a GPU and ncu)",
                 "ampscale bench profile --devices cuda:0 --budget 300 --out results/profile"}},
    .part = {{bench_device_settings},
             {bench_network_settings},
             {bench_peak_settings},
             {bench_fuse_settings},
             {profile_settings}},
    .prints = true,
    .config = &(struct bench_options){0},
    .bench = bench_profile};
