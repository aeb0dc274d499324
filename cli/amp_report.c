/* ampscale amp-report: what fp16 would lose of a network's gradients, and which loss scale helps.
 */
#include "runners/amp_report.h"
#include "cli/cli.h"
#include "plots/amp.h"

#include <errno.h>

enum {
    KEY_IMAGE_SIZE = 256,
    KEY_CLASSES,
    KEY_BATCHES,
    KEY_LOSS_SCALE,
    KEY_INIT,
    KEY_SEED,
    KEY_DEVICES,
    KEY_THREADS,
    KEY_OUT,
    KEY_JSON,
};

static const struct argp_option options[] = {
    {"arch", 'a', "ARCH", 0, "This network in place of a run's, with fresh weights", 0},
    {"init", KEY_INIT, "FILE", 0, "The network's weights, from a safetensors file", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of the images (default: the run's, or 224)", 0},
    {"batch-size", 'b', "N", 0, "Images in a batch (default: the run's, or 32)", 0},
    {"batches", KEY_BATCHES, "N", 0, "Batches to measure (default: 4)", 0},
    {"classes", KEY_CLASSES, "N", 0, "Classes, without DATA (default: the run's, or 1000)", 0},
    {"loss-scale", KEY_LOSS_SCALE, "S", 0, "Current scale (default: the run's, or 65536)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of weights and order (default: the run's, or 0)", 0},
    {"devices", KEY_DEVICES, "cpu|ref|cuda:N", 0, "Device that computes (default: cpu)", 0},
    {"threads", KEY_THREADS, "N", 0, "Host threads that compute (default: all cores)", 0},
    {"out", KEY_OUT, "DIR", 0, "Folder of record and figure (default: see below)", 0},
    {"json", KEY_JSON, NULL, 0, "Print the record in place of the table", 0},
    {0},
};

/* The positional arguments: RUN [DATA], or with -a: [DATA]. */
struct arguments {
    struct amp_report_config report;
    const char *word[2];
    int n;
};

static enum status take_count(const char *flag, const char *arg, int64_t max, int *out)
{
    int64_t v;
    TRY(cli_int(flag, arg, 1, max, &v));
    *out = (int)v;
    return STATUS_OK;
}

static enum status take_words(struct arguments *a)
{
    struct amp_report_config *r = &a->report;
    if (!r->arch && a->n == 0)
        return status_fail(STATUS_USAGE, "nothing to report on: give the folder of a run, or -a "
                                         "ARCH");
    if (r->arch && a->n == 2)
        return status_fail(STATUS_USAGE,
                           "'%s' is one argument too many: with -a only DATA is "
                           "expected",
                           a->word[1]);
    if (!r->arch && r->init)
        return status_fail(STATUS_USAGE, "--init needs -a: a run has weights of its own");
    r->run = r->arch ? NULL : a->word[0];
    r->data = r->arch ? a->word[0] : a->word[1];
    return STATUS_OK;
}

static enum status parse_number(int key, const char *arg, struct amp_report_config *r)
{
    switch (key) {
    case KEY_IMAGE_SIZE:
        return take_count("--image-size", arg, 4096, &r->image_size);
    case 'b':
        return take_count("-b", arg, 65536, &r->batch);
    case KEY_BATCHES:
        return take_count("--batches", arg, 100000, &r->batches);
    case KEY_CLASSES:
        return take_count("--classes", arg, 1000000, &r->classes);
    case KEY_THREADS:
        return take_count("--threads", arg, 1024, &r->threads);
    case KEY_SEED:
        return cli_int("--seed", arg, 0, INT64_C(1) << 53, &r->seed);
    default:
        return cli_double("--loss-scale", arg, 1e-30, 1e30, &r->loss_scale);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    struct amp_report_config *r = &a->report;
    switch (key) {
    case 'a':
        r->arch = arg;
        return 0;
    case KEY_INIT:
        r->init = arg;
        return 0;
    case KEY_DEVICES:
        r->devices = arg;
        return 0;
    case KEY_OUT:
        r->out = arg;
        return 0;
    case KEY_JSON:
        r->json = true;
        return 0;
    case KEY_IMAGE_SIZE:
    case 'b':
    case KEY_BATCHES:
    case KEY_CLASSES:
    case KEY_THREADS:
    case KEY_SEED:
    case KEY_LOSS_SCALE:
        return parse_number(key, arg, r) == STATUS_OK ? 0 : EINVAL;
    case ARGP_KEY_ARG:
        if (a->n == 2)
            return ARGP_ERR_UNKNOWN;
        a->word[a->n++] = arg;
        return 0;
    case ARGP_KEY_END:
        return take_words(a) == STATUS_OK ? 0 : EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A machine without gnuplot still gets its answer. */
static enum status draw(const struct amp_report_config *r, const char *dir)
{
    struct plot_options o = {.png = true, .svg = true, .written = r->json ? NULL : stdout};
    enum status st = plot_amp_report(dir, &o);
    if (st != STATUS_UNSUPPORTED)
        return st;
    fprintf(stderr, "ampscale: warning: %s\n", status_message());
    return STATUS_OK;
}

static enum status run(const struct amp_report_config *r)
{
    char dir[4096];
    TRY(amp_report_run(r, dir, sizeof dir));
    if (!r->json)
        printf("\n%s/" AMP_REPORT_NAME "\n", dir);
    return draw(r, dir);
}

int cmd_amp_report(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "RUN [DATA]\n-a ARCH [DATA]",
        .doc =
            "Counts, in fp32, the gradients that fp16 would lose at loss scale 1 and at the "
            "current "
            "one, layer by layer, and recommends a scale. RUN is the folder of 'ampscale train "
            "--out'; its network, data, newest checkpoint and loss scale are taken, and DATA "
            "may follow where the data has moved. With -a it is a network with fresh weights, on "
            "DATA or on noise.\v"
            "The record and the figure go to --out, which is RUN/amp-report or amp-report-ARCH "
            "unless given."};
    struct arguments a = {.report = {.batches = 4, .seed = -1, .devices = "cpu", .stream = stdout}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run(&a.report);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
