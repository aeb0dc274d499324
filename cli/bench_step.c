/* ampscale bench step: the operations of a training step. */
#include "bench/step.h"
#include "bench/step_predict.h"

#include "cli/bench_options.h"

struct step_command {
    struct bench_options options;
    bool marked;
    const char *predict; /* a described GPU; NULL: none */
};

#define SETTINGS_OF struct step_command
static const struct setting step_settings[] = {
    {"predict", 0, PREDICT_GPUS "|FILE", NULL,
     "Predict the step on this GPU, or on the GPU that FILE describes, instead of timing it; the "
     "GPU need not be present",
     AS_TEXT(predict)},
    BENCH_CSV_ROW,
    {"profile-one-step", 0, NULL, NULL,
     "Run one untimed step, with an empty kernel before each operation, for ncu",
     AS_SWITCH(marked)},
    {0},
};

static enum status run_step(void *command)
{
    const struct step_command *c = command;
    if (c->predict)
        return bench_step_predict(&c->options, c->predict);
    return bench_step(&c->options, c->marked);
}

const struct cli_command cmd_bench_step = {
    .name = "step",
    .summary = "a training step, operation by operation, compared with the device's peaks",
    .doc =
        "Times every operation while the whole training step runs, and compares the time with the "
        "lower bound that the device's peaks allow. With --predict nothing is measured: the step "
        "is planned for a GPU that need not be present, and bytes, FLOPs and predicted time of "
        "every kernel are printed.",
    .example = {{"The operations of a step of ResNet-18",
                 "ampscale bench step --net resnet18 -b 8 --image-size 64"},
                {"As CSV, with peaks that 'bench peak --json -o peak.json' has measured",
                 "ampscale bench step --net resnet18 -b 8 --image-size 64 --peak peak.json --csv"},
                {"Predict a step on an H100, without one (needs the CUDA module and cuDNN)",
                 "ampscale bench step --predict h100 --precision amp -b 256"}},
    .part = {{bench_device_settings},
             {bench_network_settings},
             {bench_peak_settings},
             {bench_fuse_settings},
             {step_settings}},
    .prints = true,
    .config = &(struct step_command){.marked = false},
    .work = run_step};
