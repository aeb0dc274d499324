/* ampscale bench step: the operations of a training step. */
#include "bench/step.h"

#include "cli/bench_options.h"

struct step_command {
    struct bench_options options;
    bool marked;
};

#define SETTINGS_OF struct step_command
static const struct setting step_settings[] = {
    {"profile-one-step", 0, NULL, NULL,
     "Run one untimed step with marks for a profiler; 'bench profile' uses this", AS_SWITCH(marked),
     .traits = SETTING_HIDDEN},
    {0},
};

static enum status run_step(void *command)
{
    const struct step_command *c = command;
    return c->marked ? bench_step_marked(&c->options) : bench_step(&c->options);
}

const struct cli_command cmd_bench_step = {
    .name = "step",
    .summary = "a training step, operation by operation, compared with the device's peaks",
    .doc = "Times every operation of a training step in place, and compares it with the lower "
           "bound that the device's peaks allow.",
    .part = {{bench_device_settings},
             {bench_network_settings},
             {bench_peak_settings},
             {bench_fuse_settings},
             {step_settings}},
    .prints = true,
    .config = &(struct step_command){.marked = false},
    .work = run_step};
