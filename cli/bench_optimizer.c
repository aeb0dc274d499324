/* ampscale bench optimizer: the update of a network's parameters. */
#include "bench/optimizer.h"

#include "cli/bench_options.h"

#define SETTINGS_OF struct bench_options
static const struct setting optimizer_settings[] = {
    {"net", 0, "ARCH", "resnet50", "Network that provides the parameters", AS_TEXT(net)},
    {"precision", 0, "fp32|tf32|amp|bf16|O0|O1|O2|O3", NULL,
     "Precision, named as for train (default: fp32, amp and O2, one row each)",
     TAKEN_BY(bench_take_precision)},
    {"emulate", 0, NULL, NULL, "Emulate the precision in fp32, even if the processor has the type",
     AS_SWITCH(emulate)},
    {0},
};

const struct cli_command cmd_bench_optimizer = {
    .name = "optimizer",
    .summary = "the optimizer's update of a network's parameters",
    .doc = "Times the optimizer's update of a network's parameters, compares its memory traffic "
           "with the device's measured bandwidth, and checks every element.\vExit status: 0 if "
           "every element is right, 1 on an error, 2 on wrong usage, 4 if an element is wrong.",
    .example = {{"The update of ResNet-18's parameters, in three precisions",
                 "ampscale bench optimizer --net resnet18"},
                {"One precision, with peaks that 'bench peak --json -o peak.json' has measured",
                 "ampscale bench optimizer --net resnet18 --precision fp32 --peak peak.json"}},
    .part = {{bench_device_settings},
             {bench_timing_settings},
             {bench_peak_settings},
             {optimizer_settings}},
    .prints = true,
    .config = &(struct bench_options){.timing = {.within = 0.01, .seconds = 5}},
    .bench = bench_optimizer};
