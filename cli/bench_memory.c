/* ampscale bench memory: bandwidth of the host's memory, or of a device's. */
#include "bench/memory.h"

#include "cli/bench_options.h"

#define SETTINGS_OF struct bench_options
static const struct setting memory_settings[] = {
    {"max-mib", 0, "N", NULL, "Size of an array in MiB (default: larger than every cache)",
     AS_INTEGER(max_mib, 4, 65536)},
    {0},
};

const struct cli_command cmd_bench_memory = {
    .name = "memory",
    .summary = "memory bandwidth: STREAM's kernels, or copies to, from and within a device",
    .doc = "Times STREAM's copy, scale, add and triad in the host's memory, or copies to, from "
           "and within a device, and checks every element.\vExit status: 0 if every element is "
           "right, 1 on an error, 2 on wrong usage, 4 if an element is wrong.",
    .example = {{"The bandwidth of this machine's memory", "ampscale bench memory"},
                {"Copies to, from and within a GPU (needs a GPU)",
                 "ampscale bench memory --devices cuda:0"},
                {"Copies between every two of four GPUs (needs 4 GPUs)",
                 "ampscale bench memory --devices cuda:0,1,2,3"}},
    .part = {{bench_device_settings}, {bench_timing_settings}, {memory_settings}},
    .prints = true,
    .config = &(struct bench_options){.timing = {.within = 0.01, .seconds = 5}},
    .bench = bench_memory};
