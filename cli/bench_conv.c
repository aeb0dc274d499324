/* ampscale bench conv: times the convolutions of DeepBench, or those of a network. For a network,
 * also times the whole step. */
#include "bench/conv.h"

#include "bench/conv_deepbench.h"
#include "cli/bench_options.h"

#include <string.h>

struct conv_command {
    struct bench_options options;
    bool no_step, deepbench;
};

#define SETTINGS_OF struct conv_command
static const struct setting conv_settings[] = {
    {"no-step", 0, NULL, NULL, "Do not time the training step", AS_SWITCH(no_step)},
    {"deepbench", 0, NULL, NULL,
     "Time DeepBench's training convolutions instead of a network's; of the network's flags only "
     "--precision applies",
     AS_SWITCH(deepbench)},
    {"peak", 0, "FILE", NULL,
     "With --deepbench: report shares of the peaks in FILE, the output of 'bench peak --json'",
     AS_TEXT(options.peak)},
    {"max-mib", 0, "N", NULL,
     "With --deepbench: skip convolutions that need more memory, in MiB (default: three quarters "
     "of the free memory)",
     AS_INTEGER(options.max_mib, 1, 1 << 24)},
    {0},
};

/* Sets *out to the type of the operands at a precision. */
static enum status type_of(const char *precision, enum dtype *out)
{
    static const struct {
        const char *precision;
        enum dtype type;
    } types[] = {
        {"fp32", DTYPE_F32}, {"tf32", DTYPE_TF32}, {"amp", DTYPE_F16}, {"bf16", DTYPE_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(precision, types[i].precision) == 0) {
            *out = types[i].type;
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE, "--precision '%s': give fp32, tf32, amp or bf16", precision);
}

static enum status run_conv(void *command)
{
    const struct conv_command *a = command;
    const struct bench_options *o = &a->options;
    struct conv_deepbench_config c = {.options = *o};
    if (!a->deepbench && (o->peak || o->max_mib || o->format == BENCH_CSV ||
                          o->format == BENCH_MARKDOWN || o->timed))
        return status_fail(STATUS_USAGE,
                           "--peak, --max-mib, --csv, --markdown, -n and -w need --deepbench");
    if (!a->deepbench)
        return bench_conv(o, !a->no_step);
    if (o->emulate)
        return status_fail(STATUS_USAGE,
                           "--emulate is for networks: leave it out with --deepbench");
    TRY(type_of(bench_precision(o), &c.type));
    return bench_conv_deepbench(&c, DEEPBENCH_CONVS, deepbench_conv);
}

const struct cli_command cmd_bench_conv = {
    .name = "conv",
    .summary = "each convolution of a network, compared with a whole training step",
    .doc = "Times each convolution of a network alone, forward and backward, in fp32, and compares "
           "the sum of these times with the time of a whole training step. With --deepbench, times "
           "the convolutions of DeepBench's list instead. Checks elements of each result.",
    .part = {{bench_device_settings},
             {bench_network_settings},
             {bench_timing_settings},
             {conv_settings}},
    .prints = true,
    .config = &(struct conv_command){.options.timing = {.within = 0.02, .seconds = 1}},
    .work = run_conv};
