/* Defines tables of flags that several benchmarks share. */
#include "cli/bench_options.h"

#include "runners/settings.h"

#include <string.h>

#define SETTINGS_OF struct bench_options

enum status bench_take_format(const struct setting *s, const char *text, void *config)
{
    static const char *const flags[] = {
        [BENCH_CSV] = "csv", [BENCH_MARKDOWN] = "markdown", [BENCH_JSON] = "json"};
    struct bench_options *o = config;
    enum bench_format before = o->format;
    (void)text;
    o->format = BENCH_CSV;
    while (strcmp(s->flag, flags[o->format]) != 0)
        o->format++;
    if (before != BENCH_TEXT && before != o->format)
        return status_fail(STATUS_USAGE, "--%s and --%s exclude each other: give one of them",
                           flags[before], s->flag);
    return STATUS_OK;
}

enum status bench_take_quiet(const struct setting *s, const char *text, void *config)
{
    struct bench_options *o = config;
    (void)s;
    (void)text;
    o->quiet = true;
    if (o->timing.bar)
        o->timing.bar->out = NULL;
    return STATUS_OK;
}

enum status bench_take_precision(const struct setting *s, const char *text, void *config)
{
    struct policy known;
    if (policy_find(text, -1, &known) != STATUS_OK)
        return status_fail(STATUS_USAGE, "--%s '%s': give fp32, tf32, amp or bf16, or O0 to O3",
                           s->flag, text);
    ((struct bench_options *)config)->precision = text;
    return STATUS_OK;
}

const struct setting bench_device_settings[] = {
    {"devices", 0, "cpu|ref|cuda:N", "cpu", "Device to measure", AS_TEXT(devices)},
    {"threads", 0, "N", NULL, "Host threads (default: all cores)",
     AS_INTEGER(threads, 1, BENCH_THREADS_MAX)},
    BENCH_JSON_ROW,
    BENCH_QUIET_ROW,
    {0},
};

const struct setting bench_timing_settings[] = {
    {"iters", 'n', "N", "50", "Largest number of timed calls per row",
     AS_INTEGER(timing.most, 1, BENCH_ITERS_MAX)},
    {"warmup", 'w', "N", "2", "Warm-up calls, which are not timed",
     AS_INTEGER(timing.warmup, 0, BENCH_ITERS_MAX)},
    BENCH_CSV_ROW,
    {"markdown", 0, NULL, NULL, "Print a table in Markdown", TAKEN_BY(bench_take_format)},
    {0},
};

const struct setting bench_network_settings[] = {
    {"net", 0, "ARCH", "resnet50", "Network to time", AS_TEXT(net)},
    {"batch-size", 'b', "N", "16", "Images per step", AS_INTEGER(batch, 1, BENCH_BATCH_MAX)},
    {"image-size", 0, "PX", "224", "Side of the input images in pixels",
     AS_INTEGER(image_size, 1, BENCH_IMAGE_SIZE_MAX)},
    {"rounds", 0, "N", "5", "Timed rounds, at most 64", AS_INTEGER(rounds, 1, BENCH_ROUNDS_MAX)},
    {"precision", 0, TRAIN_PRECISION_WORDS, NULL,
     "Precision of the training step, named as for train (default fp32)",
     TAKEN_BY(bench_take_precision)},
    {"emulate", 0, NULL, NULL, "Emulate the precision in fp32, even if the processor has the type",
     AS_SWITCH(emulate)},
    {0},
};

const struct setting bench_peak_settings[] = {
    {"peak", 0, "FILE", NULL,
     "The device's peaks, the output of 'bench peak --json' (default: measure them first)",
     AS_TEXT(peak)},
    {0},
};

const struct setting bench_fuse_settings[] = {
    {"fuse", 0, TRAIN_FUSE_WORDS, "auto", "Fusion of convolution and batch norm, as in train",
     AS_CHOICE(fuse)},
    {0},
};

const struct setting bench_child_settings[] = {
    {"budget", 0, "S", NULL, "Stop after S seconds and report the rows that are finished",
     AS_REAL(budget_s, 1, 1e6)},
    {"out", 0, "DIR", NULL,
     "Folder for the runs and for the record, which is rewritten after each row", AS_TEXT(dir)},
    {0},
};
