/* ampscale predict: forecasts a training step on more ranks than were measured. */
#include "predict/prediction.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/text_new.h"
#include "bench/step_predict.h"
#include "cli/bench_options.h"
#include "cli/picture.h"
#include "plots/plot.h"
#include "runners/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES_MAX = 16, TABLES_MAX = 16, RANKS_MAX = 1 << 20, RECORD_MAX_BYTES = 64 << 20 };
enum { GPU_BATCH = 256 };

struct predict_args {
    const char *source[SOURCES_MAX];
    int n_sources;
    const char *gpu;           /* start from the predicted step of this GPU; NULL: from `source` */
    struct bench_options step; /* net, image_size, precision: of that step; NULL and 0: not given */
    const char *table[TABLES_MAX];
    int n_tables;
    struct prediction_config config;
    double input_gb_per_s; /* read rate of all ranks together; 0: unlimited */
    bool has_image_bytes;
    const char *out; /* folder of the record and the figure; NULL: none */
    struct plot_size pictures;
    bool json;
};

/* Reads a link such as "12.5,40": latency in us, bandwidth in GB/s. */
static enum status take_link(const struct setting *s, const char *arg, void *args)
{
    char latency[32];
    double us, gb_per_s;
    size_t len = strcspn(arg, ",");
    if (arg[len] == '\0' || len >= sizeof latency)
        return status_fail(STATUS_USAGE,
                           "--%s '%s': give latency in us, a comma, and bandwidth in GB/s", s->flag,
                           arg);
    snprintf(latency, sizeof latency, "%.*s", (int)len, arg);
    TRY(setting_real(s->flag, latency, 0, 1e7, &us));
    TRY(setting_real(s->flag, arg + len + 1, 1e-6, 1e6, &gb_per_s));
    *(struct link *)setting_member(s, args) =
        (struct link){.latency_s = us * 1e-6, .bytes_per_s = gb_per_s * 1e9};
    return STATUS_OK;
}

static enum status ranks_add(struct prediction_config *c, int64_t ranks)
{
    if (c->n_ranks == PREDICTION_RANKS_MAX)
        return status_fail(STATUS_USAGE, "--ranks has more than %d numbers", PREDICTION_RANKS_MAX);
    if (c->n_ranks > 0 && ranks <= c->ranks[c->n_ranks - 1])
        return status_fail(STATUS_USAGE, "--ranks: give numbers in ascending order");
    c->ranks[c->n_ranks++] = ranks;
    return STATUS_OK;
}

/* Reads one part of a list of numbers of ranks, such as "2..4096" or "2,4,8,48". */
static enum status take_ranks(const struct setting *s, const char *part, void *args)
{
    struct prediction_config *c = &((struct predict_args *)args)->config;
    char first[32];
    int64_t a, b;
    const char *dots = strstr(part, "..");
    snprintf(first, sizeof first, "%.*s", (int)(dots ? dots - part : (ptrdiff_t)strlen(part)),
             part);
    TRY(setting_integer(s->flag, first, 1, RANKS_MAX, &a));
    TRY(dots ? setting_integer(s->flag, dots + 2, a, RANKS_MAX, &b) : STATUS_OK);
    for (; dots && a < b; a *= 2)
        TRY(ranks_add(c, a));
    return ranks_add(c, dots ? b : a);
}

#define SETTINGS_OF struct predict_args
static const struct setting predict_settings[] = {
    {"network", 0, "US,GB/S", NULL,
     "Between nodes: latency of a message in microseconds, and bandwidth of a node in GB/s",
     TAKEN_BY(take_link), SETTING_AT(config.system.net.inter), GIVEN(config.known.inter)},
    {"intra", 0, "US,GB/S", NULL,
     "Between the ranks of a node: latency and bandwidth (default 10,40)", TAKEN_BY(take_link),
     SETTING_AT(config.system.net.intra), GIVEN(config.known.intra)},
    {"nccl-table", 0, "FILE", NULL,
     "Take latency and bandwidth from the output of nccl-tests' all_reduce_perf; may be given for "
     "several numbers of ranks",
     AS_LIST(table, n_tables)},
    {"ranks", 0, "A..B|N,...", "2..4096",
     "Numbers of ranks to forecast: from A to B by doubling, or a list",
     PARTS_TAKEN_BY(take_ranks, config.n_ranks)},
    {"ranks-per-node", 0, "N", NULL, "Ranks per node (default: as measured, else 1)",
     AS_INTEGER(config.system.net.ranks_per_node, 1, RANKS_MAX)},
    {"batch-size", 'b', "N", NULL,
     "Images per rank and step (default: as measured; with --gpu 256)",
     AS_INTEGER(config.batch, 1, BENCH_BATCH_MAX)},
    {"algorithm", 0, "ring|tree|auto", "ring",
     "Algorithm of the all-reduce; auto: the cheaper one for each bucket",
     AS_CHOICE(config.system.net.algorithm)},
    {"stragglers", 0, "SIGMA", NULL,
     "Variation of the ranks' compute times: standard deviation of their logarithm (default: that "
     "of the run's steps, else 0.02)",
     AS_REAL(config.system.sigma, 0, 2), GIVEN(config.known.sigma)},
    {"input-bandwidth", 0, "GB/S", NULL,
     "Read bandwidth of the storage for all ranks together, in GB/s (default: no limit)",
     AS_REAL(input_gb_per_s, 1e-6, 1e6)},
    {"image-bytes", 0, "B", NULL, "Bytes per image (default: as read, else 115000)",
     AS_REAL(config.system.image_bytes, 1, 1e12), GIVEN(has_image_bytes)},
    {"fit", 0, NULL, NULL, "Fit the parameters of network and stragglers to the measured points",
     AS_SWITCH(config.fit)},
    {"fit-up-to", 0, "N", NULL, "Fit to points of up to N ranks; points of more ranks test the fit",
     AS_INTEGER(config.fit_up_to, 1, RANKS_MAX), GIVEN(config.fit)},
    {"gpu", 0, PREDICT_GPUS "|FILE", NULL,
     "Start from the step that 'bench step --predict' predicts for this GPU, instead of a "
     "measurement",
     AS_TEXT(gpu)},
    {"out", 0, "DIR", NULL, "Folder for the record and its figure", AS_TEXT(out)},
    JSON_ROW(json),
    {NULL, 0, "RUN", NULL, NULL, AS_LIST(source, n_sources)},
    {0},
};

#undef SETTINGS_OF
#define SETTINGS_OF struct bench_options
static const struct setting gpu_settings[] = {
    {"arch", 'a', "ARCH", NULL, "Network, with --gpu (default resnet50)", AS_TEXT(net)},
    {"image-size", 0, "PX", NULL, "Side of the images in pixels, with --gpu (default 224)",
     AS_INTEGER(image_size, 1, BENCH_IMAGE_SIZE_MAX)},
    {"precision", 0, TRAIN_PRECISION_WORDS, NULL, "Precision, with --gpu (default fp32)",
     TAKEN_BY(bench_take_precision)},
    {0},
};

static enum status check_args(const struct predict_args *a)
{
    if (a->n_sources == 0 && !a->gpu)
        return status_fail(STATUS_USAGE, "no measurement to start from: give the folder of a run, "
                                         "an analysis.json, a published table or --gpu");
    if (a->n_sources > 0 && a->gpu)
        return status_fail(STATUS_USAGE, "--gpu and '%s' exclude each other: give one of them",
                           a->source[0]);
    if (!a->gpu && (a->step.net || a->step.image_size > 0 || a->step.precision))
        return status_fail(STATUS_USAGE, "--arch, --image-size and --precision need --gpu");
    if ((a->config.known.inter || a->config.known.intra) && a->n_tables > 0)
        return status_fail(STATUS_USAGE,
                           "--network and --nccl-table exclude each other: give one of them");
    return STATUS_OK;
}

static enum status load_runs(const struct predict_args *a, struct source *out)
{
    enum status st;
    struct run *run[SOURCES_MAX] = {NULL};
    for (int i = 0; i < a->n_sources; i++)
        CHECK(run_load_whole(a->source[i], &run[i]));
    CHECK(source_of_runs((const struct run *const *)run, a->n_sources, out));
done:
    for (int i = 0; i < a->n_sources; i++)
        run_free(run[i]);
    return st;
}

/* Loads the published series that has the name `which`. If `which` is NULL, the file must have only
 * one series. */
static enum status load_published(const char *path, const char *which, struct source *out)
{
    struct published p;
    const struct published_series *s;
    TRY(published_load(path, &p));
    s = &p.series[0];
    enum status st = which || p.n > 1 ? published_find(&p, which ? which : "", &s) : STATUS_OK;
    st = st == STATUS_OK ? source_of_published(s, out) : st;
    published_free(&p);
    return st;
}

/* Finds the series of a study that has the number (counted from 1) or the name `which`. If `which`
 * is NULL, the study must have only one series. */
static enum status find_series(const struct analysis *a, const char *path, const char *which,
                               int64_t *found)
{
    char known[1024] = "", number[24], name[SOURCE_LABEL_MAX];
    for (int64_t i = 0; i < a->n_series; i++) {
        source_series_name(a, i, name);
        snprintf(number, sizeof number, "%lld", (long long)i + 1);
        *found = i;
        if (which ? strcmp(which, name) == 0 || strcmp(which, number) == 0 : a->n_series == 1)
            return STATUS_OK;
        text_join(known, sizeof known, ", ", "%s '%s'", number, name);
    }
    return status_fail(STATUS_USAGE,
                       "%s%s%s'%s' has %lld series: append a colon and the number or name of one: "
                       "%s",
                       which ? "no series '" : "", which ? which : "", which ? "': " : "", path,
                       (long long)a->n_series, known);
}

static enum status load_analysis(const char *path, const char *which, struct source *out)
{
    enum status st;
    struct analysis a;
    int64_t i = 0;
    TRY(analysis_read(path, &a));
    st = find_series(&a, path, which, &i);
    st = st == STATUS_OK ? source_of_analysis(&a, i, out) : st;
    analysis_free(&a);
    return st;
}

/* Loads a JSON file: the record of a predicted step, or a study. */
static enum status load_json(const char *path, const char *which, struct source *out)
{
    json_t *record;
    TRY(json_read(path, RECORD_MAX_BYTES, &record));
    bool is_step = strcmp(json_text_at(record, "bench"), "step_predict") == 0;
    enum status st = is_step ? source_of_step(record, out) : load_analysis(path, which, out);
    json_decref(record);
    return st;
}

/* Predicts the step of a GPU. */
static enum status load_gpu(struct predict_args *a, struct source *out)
{
    struct text_stream text;
    json_t *record = NULL;
    struct bench_options *o = &a->step;
    TRY(text_stream_open(&text));
    o->net = o->net ? o->net : "resnet50";
    o->image_size = o->image_size > 0 ? o->image_size : 224;
    o->batch = a->config.batch > 0 ? (int)a->config.batch : GPU_BATCH;
    o->format = BENCH_JSON;
    o->out = text.out;
    enum status st = bench_step_predict(o, a->gpu), written = text_stream_close(&text);
    CHECK(st == STATUS_OK ? written : st);
    CHECK(json_parse(text.text, text.size, a->gpu, &record));
    CHECK(source_of_step(record, out));
done:
    json_decref(record);
    free(text.text);
    return st;
}

static enum status load_source(struct predict_args *a, struct source *out)
{
    char path[4096];
    if (a->gpu)
        return load_gpu(a, out);
    const char *name = a->source[0], *colon = strrchr(name, ':');
    bool exists;
    TRY(path_format(path, sizeof path, "%s", name));
    TRY(path_look(name, &exists));
    if (colon && !exists)
        path[colon - name] = '\0';
    const char *which = strlen(path) < strlen(name) ? colon + 1 : NULL;
    bool is_table = text_ends_with(path, ".csv"), is_analysis = text_ends_with(path, ".json");
    if (!is_table && !is_analysis)
        return load_runs(a, out);
    if (a->n_sources > 1)
        return status_fail(
            STATUS_USAGE,
            "'%s' must be the only source: several sources must all be folders of runs", path);
    return is_table ? load_published(path, which, out) : load_json(path, which, out);
}

/* Completes the configuration with values from the source and the tables. */
static enum status complete(struct predict_args *a, const struct source *source,
                            struct nccl_table *table)
{
    struct system *s = &a->config.system;
    struct network_cost *net = &s->net;
    int64_t per_node = net->ranks_per_node;
    if (!a->config.fit && !a->config.known.inter && a->n_tables == 0)
        return status_fail(STATUS_USAGE,
                           "no network to forecast for: give --network, --nccl-table or --fit");
    s->input_bytes_per_s = a->input_gb_per_s * 1e9;
    net->ranks_per_node = source->ranks_per_node;
    for (int i = 0; i < a->n_tables; i++) {
        TRY(nccl_table_load(a->table[i], &table[i]));
        *(table[i].nodes > 1 ? &a->config.known.inter : &a->config.known.intra) = true;
    }
    net->table = table;
    net->n_tables = a->n_tables;
    TRY(cost_from_tables(net));
    if (per_node > 0)
        net->ranks_per_node = per_node;
    if (!a->has_image_bytes)
        s->image_bytes = source->image_bytes;
    if (!a->config.known.sigma && source->sigma > 0) {
        s->sigma = source->sigma;
        a->config.known.sigma = !a->config.fit;
    }
    return STATUS_OK;
}

static enum status report(const struct predict_args *a, const struct prediction *p)
{
    char path[4096];
    if (a->json)
        json_print(prediction_json(p), stdout, JSON_RECORD);
    else
        prediction_print(p, stdout);
    if (a->out) {
        TRY(dir_make(a->out));
        TRY(path_format(path, sizeof path, "%s/predict.json", a->out));
        TRY(json_write(prediction_json(p), JSON_RECORD, "%s", path));
        TRY(picture_draw(path, a->out, &a->pictures, a->json));
    }
    return prediction_check(p);
}

static enum status predict(void *args)
{
    struct predict_args *a = args;
    struct source source;
    struct nccl_table table[TABLES_MAX];
    struct prediction p;
    TRY(plot_size_check(&a->pictures));
    TRY(check_args(a));
    TRY(load_source(a, &source));
    TRY(complete(a, &source, table));
    a->config.source = &source;
    TRY(prediction_make(&a->config, &p));
    return report(a, &p);
}

const struct cli_command cmd_predict = {
    .name = "predict",
    .summary = "forecast training on more ranks",
    .arguments = "FILE\nRUN...",
    .doc =
        "Forecasts training on more ranks than were measured: throughput, efficiency, and their "
        "limits. RUN is the folder of 'ampscale train --out'; several runs that differ in their "
        "number of ranks form one measurement. FILE is an analysis.json of 'ampscale study' or a "
        "published table (.csv); if it has several series, append a colon and the number or name "
        "of a series. FILE may also be the output of 'ampscale bench step --predict GPU "
        "--json'.\vExit status: 5 if a measured point that was not used lies outside the interval "
        "of its forecast.",
    .example =
        {{"Forecast from one run in mode ddp, for a network of 5 us and 12 GB/s",
          "ampscale predict runs/two --network 5,12 --ranks 2..64"},
         {"Fit to up to 32 GPUs of a published series; the other point tests the fit",
          "ampscale predict results/published/hal_v100.csv:feb --fit-up-to 32 --ranks 2..256"},
         {"8 to 64 H100, without one (needs the CUDA module and cuDNN), with a figure",
          "ampscale predict --gpu h100 --precision amp --network 2,50 --intra 5,350 "
          "--ranks-per-node 8 --ranks 8..64 --out plots/forecast"}},
    .part = {{predict_settings},
             {gpu_settings, offsetof(struct predict_args, step)},
             {picture_settings, offsetof(struct predict_args, pictures)}},
    .prints = true,
    .config =
        &(struct predict_args){
            .config.system = {.net = {.intra = {.latency_s = 1e-5, .bytes_per_s = 40e9},
                                      .inter = {.latency_s = 5e-4, .bytes_per_s = 5e9}},
                              .sigma = 0.02}},
    .work = predict};
