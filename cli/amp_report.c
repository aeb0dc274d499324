/* ampscale amp-report: the gradients that fp16 would lose, and the loss scale that avoids it. */
#include "verify/amp_report.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "plots/plot.h"
#include "runners/settings.h"

#include <stdio.h>

/* The positional arguments: RUN [DATA], or with -a: [DATA]. */
struct arguments {
    struct amp_report_config report;
    struct plot_size pictures;
    const char *word[2];
    int n;
};

#define SETTINGS_OF struct arguments
static const struct setting amp_report_settings[] = {
    {"arch", 'a', "ARCH", NULL, "Network with fresh weights, instead of the network of a run",
     AS_TEXT(report.arch)},
    {"init", 0, "FILE", NULL, "The network's weights, from a safetensors file",
     AS_TEXT(report.init)},
    {"image-size", 0, "PX", NULL, "Side of the images (default: the run's, or 224)",
     AS_INTEGER(report.image_size, 1, TRAIN_IMAGE_SIZE_MAX)},
    {"batch-size", 'b', "N", NULL, "Images per batch (default: the run's, or 32)",
     AS_INTEGER(report.batch, 1, TRAIN_BATCH_MAX)},
    {"batches", 0, "N", "4", "Batches to measure", AS_INTEGER(report.batches, 1, 100000)},
    {"classes", 0, "N", NULL, "Number of classes if no DATA is given (default: the run's, or 1000)",
     AS_INTEGER(report.classes, 1, TRAIN_CLASSES_MAX)},
    {"loss-scale", 0, "S", NULL, "Current loss scale (default: the run's, or 65536)",
     AS_REAL(report.loss_scale, 1e-30, 1e30)},
    {"seed", 0, "N", NULL, "Seed of weights and order (default: the run's, or 0)",
     AS_INTEGER(report.seed, 0, TRAIN_SEED_MAX)},
    {"devices", 0, "cpu|ref|cuda:N", "cpu", "Device that runs the network",
     AS_TEXT(report.devices)},
    {"threads", 0, "N", NULL, "Host threads (default: all cores)",
     AS_INTEGER(report.threads, 1, TRAIN_THREADS_MAX)},
    {"out", 0, "DIR", NULL, "Folder for the record and the figure (default: see below)",
     AS_TEXT(report.out)},
    JSON_ROW(report.json),
    {NULL, 0, "DATA", NULL, NULL, AS_LIST(word, n)},
    {0},
};

static enum status take_words(struct arguments *a)
{
    struct amp_report_config *r = &a->report;
    if (!r->arch && a->n == 0)
        return status_fail(STATUS_USAGE,
                           "nothing to measure: give the folder of a run, or -a ARCH");
    if (r->arch && a->n == 2)
        return status_fail(STATUS_USAGE, "unexpected argument '%s': with -a only DATA is expected",
                           a->word[1]);
    if (!r->arch && r->init)
        return status_fail(STATUS_USAGE, "--init needs -a: a run already has weights");
    r->run = r->arch ? NULL : a->word[0];
    r->data = r->arch ? a->word[0] : a->word[1];
    return STATUS_OK;
}

/* Draws the figure. If gnuplot is missing, the command succeeds without a figure. */
static enum status draw(const struct arguments *a, const char *dir)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/amp-report.json", dir));
    enum status st = picture_draw(path, dir, &a->pictures, a->report.json);
    if (st != STATUS_UNSUPPORTED)
        return st;
    fprintf(stderr, "ampscale: warning: %s\n", status_message());
    return STATUS_OK;
}

static enum status amp_report(void *arguments)
{
    struct arguments *a = arguments;
    struct amp_report_config *r = &a->report;
    char dir[4096];
    r->stream = stdout;
    TRY(take_words(a));
    TRY(plot_size_check(&a->pictures));
    TRY(amp_report_run(r, dir, sizeof dir));
    if (!r->json) {
        printf("\n");
        text_print(stdout, "%s/" AMP_REPORT_NAME, dir);
    }
    return draw(a, dir);
}

const struct cli_command cmd_amp_report = {
    .name = "amp-report",
    .summary = "count gradients that fp16 would lose, and recommend a loss scale",
    .arguments = "RUN [DATA]\n-a ARCH [DATA]",
    .doc = "Computes gradients in fp32, counts in each layer the gradients that fp16 would lose, "
           "at loss scale 1 and at the current loss scale, and recommends a loss scale. RUN is the "
           "folder of 'ampscale train --out': its network, data, newest checkpoint and loss scale "
           "are used; give DATA if the data has moved. -a measures a network with fresh weights, "
           "on DATA or on noise.\vThe record and the figure go to --out, by default "
           "RUN/amp-report or amp-report-ARCH.",
    .example = {{"Which gradients of a finished run fp16 would lose, and which loss scale helps",
                 "ampscale amp-report runs/first"},
                {"The same for a network with fresh weights, on noise",
                 "ampscale amp-report -a resnet50 -b 8 --batches 1 --out amp-resnet50"}},
    .part = {{amp_report_settings}, {picture_settings, offsetof(struct arguments, pictures)}},
    .prints = true,
    .config = &(struct arguments){.report.seed = -1},
    .work = amp_report};
