/* ampscale bench overhead: the cost of a step's calls, without the computation. */
#include "bench/overhead.h"

#include "cli/bench_options.h"

const struct cli_command cmd_bench_overhead = {
    .name = "overhead",
    .summary = "costs of a step besides computing: launches, events, records",
    .doc = "Times minimal calls: the launch of an operation, an event, a step of a one-layer "
           "network, a line of the record, and an all-reduce of 4 bytes between ranks. Checks that "
           "each call took effect.",
    .part = {{bench_device_settings}, {bench_timing_settings}},
    .prints = true,
    .config = &(struct bench_options){.timing = {.within = 0.01, .seconds = 5}},
    .bench = bench_overhead};
