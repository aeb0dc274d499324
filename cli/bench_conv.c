/* ampscale bench conv: times the convolutions of a network, and the whole step. */
#include "bench/conv.h"

#include "cli/bench_options.h"

struct conv_command {
    struct bench_options options;
    bool no_step;
};

#define SETTINGS_OF struct conv_command
static const struct setting conv_settings[] = {
    {"conv-algorithm", 0, CONV_ALGORITHM_WORDS, "auto",
     "Algorithm of convolutions on a CPU, as in train", AS_CHOICE(options.conv_algorithm)},
    {"no-step", 0, NULL, NULL, "Do not time the training step", AS_SWITCH(no_step)},
    {0},
};

static enum status run_conv(void *command)
{
    const struct conv_command *a = command;
    return bench_conv(&a->options, !a->no_step);
}

const struct cli_command cmd_bench_conv = {
    .name = "conv",
    .summary = "each convolution of a network, compared with a whole training step",
    .doc = "Times each convolution of a network alone, forward and backward, in fp32, and compares "
           "the sum of these times with the time of a whole training step. Checks elements of each "
           "result.\vExit status: 0 if every element is right, 1 on an error, 2 on wrong usage, 4 "
           "if an element is wrong.",
    .example = {{"The convolutions of ResNet-18 on small images",
                 "ampscale bench conv --net resnet18 -b 8 --image-size 64"},
                {"Those of ResNet-50 on a GPU, as JSON (needs a GPU)",
                 "ampscale bench conv --devices cuda:0 -b 64 --json -o conv.json"}},
    .part = {{bench_device_settings}, {bench_network_settings}, {conv_settings}},
    .prints = true,
    .config = &(struct conv_command){.no_step = false},
    .work = run_conv};
