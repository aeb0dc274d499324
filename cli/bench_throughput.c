/* ampscale bench throughput: times training on a device, in turns with another program. */
#include "bench/throughput.h"

#include "cli/bench_options.h"
#include "runners/settings.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct throughput_command {
    struct throughput_config config;
    bool fuse[FUSE_COUNT], graphs[2]; /* values given by the flags; graphs: on, off */
    bool fuse_given, graphs_given;
};

static enum status take_row(const struct setting *s, const char *part, void *command)
{
    struct throughput_config *c = command;
    struct throughput_key *key = &c->key[c->n_keys];
    struct policy known;
    int64_t batch;
    size_t n = strcspn(part, ":");
    if (n == 0 || n >= sizeof key->precision || !part[n])
        return status_fail(STATUS_USAGE, "--rows '%s': give PRECISION:IMAGES, such as amp:256",
                           part);
    if (c->n_keys == THROUGHPUT_KEYS_MAX)
        return status_fail(STATUS_USAGE, "--rows: more than %d rows", THROUGHPUT_KEYS_MAX);
    snprintf(key->precision, sizeof key->precision, "%.*s", (int)n, part);
    if (policy_find(key->precision, -1, &known) != STATUS_OK)
        return status_fail(
            STATUS_USAGE,
            "--rows '%s': give fp32, tf32, amp, bf16, or O0 to O3, and a number of images", part);
    TRY(setting_integer(s->flag, part + n + 1, 1, BENCH_BATCH_MAX, &batch));
    key->batch = (int)batch;
    c->n_keys++;
    return STATUS_OK;
}

static enum status take_peer(const struct setting *s, const char *file, void *command)
{
    struct throughput_config *c = command;
    c->peer = strcmp(file, "none") == 0 ? NULL : file;
    if (c->peer && access(c->peer, R_OK) != 0)
        return status_fail(STATUS_USAGE, "--%s '%s': cannot read the script: %s", s->flag, c->peer,
                           strerror(errno));
    return STATUS_OK;
}

#define SETTINGS_OF struct throughput_command
static const struct setting throughput_settings[] = {
    {"rows", 0, "P:N,...", "amp:256,bf16:256,tf32:256,fp32:256",
     "Precisions, named as for train, and images per step; the first round measures all of them",
     PARTS_TAKEN_BY(take_row, config.n_keys)},
    {"net", 'a', "ARCH", "resnet50", "Network", AS_TEXT(config.options.net)},
    {"image-size", 0, "PX", "224", "Side of the input images in pixels",
     AS_INTEGER(config.options.image_size, 1, BENCH_IMAGE_SIZE_MAX)},
    {"steps", 0, "N", "40", "Steps per turn, the first ten of which are warm-up",
     AS_INTEGER(config.steps, 1, 100000)},
    {"rounds", 0, "N", "3", "Turns of each row, at most 64",
     AS_INTEGER(config.options.rounds, 1, THROUGHPUT_ROUNDS_MAX)},
    {"fuse", 0, TRAIN_FUSE_WORDS ",...", NULL,
     "Fusion levels, named as for train: one row for each", AS_SET(fuse), GIVEN(fuse_given)},
    {"graphs", 0, "on|off,...", NULL, "Graph modes: one row for each", AS_SET(graphs),
     GIVEN(graphs_given)},
    {"peer", 0, "FILE", "none",
     "Program to take turns with; it must answer as tests/peers/torch_step.py does; 'none': no "
     "other program",
     TAKEN_BY(take_peer)},
    {"no-compile", 0, NULL, NULL, "Measure the other program in eager mode only",
     AS_SWITCH(config.no_compile)},
    {"files", 0, NULL, NULL, "Add a row that repeats the first one with JPEG files as input",
     AS_SWITCH(config.files)},
    {"plans", 0, "N", NULL, "Plans of cuDNN to time for each convolution, as for train",
     AS_INTEGER(config.plans, 1, PLANS_MAX)},
    {"resume", 0, NULL, NULL, "Keep the results of the record in the folder of --out",
     AS_SWITCH(config.resume)},
    {0},
};

/* Combines each given level of --fuse with each given value of --graphs. If only one of the two
 * flags was given, the other flag has the default of `train`. */
static enum status run_throughput(void *command)
{
    struct throughput_command *a = command;
    struct throughput_config *c = &a->config;
    a->fuse[FUSE_AUTO] |= !a->fuse_given && a->graphs_given;
    a->graphs[0] |= !a->graphs_given && a->fuse_given;
    for (enum fuse f = 0; f < FUSE_COUNT; f++)
        for (int off = 0; off < 2; off++)
            if (a->fuse[f] && a->graphs[off])
                c->combination[c->n_combinations++] = (struct throughput_combination){f, !off};
    if (c->resume && !c->options.dir)
        return status_fail(STATUS_USAGE, "--resume: give --out, the folder of the record");
    return bench_throughput(c);
}

const struct cli_command cmd_bench_throughput = {
    .name = "throughput",
    .summary =
        "training throughput in turns with another program, by precision, batch, fusion and graphs",
    .doc =
        "Measures training throughput on a device, in turns with another program; each turn runs "
        "in its own process. A run that fails on a GPU is repeated without fused operations, then "
        "without graphs, then without both, unless --fuse or --graphs is given.\vExit status: 0 if "
        "every row has a number, 1 on an error, 2 on wrong usage, 5 if a row has no number.",
    .example = {{"ResNet-18 in fp32 on this machine",
                 "ampscale bench throughput -a resnet18 --image-size 64 --rows fp32:32"},
                {"ResNet-50 on a GPU with and without fused operations (needs a GPU)",
                 "ampscale bench throughput --devices cuda:0 --rows amp:256 --fuse auto,none"},
                {"In turns with PyTorch, from the source tree (needs a GPU and PyTorch)",
                 "ampscale bench throughput --devices cuda:0 --peer tests/peers/torch_step.py"}},
    .part = {{bench_device_settings}, {bench_child_settings}, {throughput_settings}},
    .prints = true,
    .config = &(struct throughput_command){.graphs = {false}},
    .work = run_throughput};
