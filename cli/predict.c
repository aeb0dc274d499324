/* ampscale predict: a training step on more ranks than there are. */
#include "predict/prediction.h"

#include "base/file.h"
#include "cli/cli.h"
#include "plots/forecast.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_NETWORK = 256,
    KEY_INTRA,
    KEY_NCCL_TABLE,
    KEY_RANKS,
    KEY_RANKS_PER_NODE,
    KEY_ALGORITHM,
    KEY_STRAGGLERS,
    KEY_INPUT_BANDWIDTH,
    KEY_IMAGE_BYTES,
    KEY_FIT,
    KEY_FIT_UP_TO,
    KEY_JSON,
};

enum { SOURCES_MAX = 16, TABLES_MAX = 16, RANKS_MAX = 1 << 20 };

static const struct argp_option options[] = {
    {"network", KEY_NETWORK, "US,GB/S", 0,
     "Latency of a message between nodes in microseconds, and a node's bandwidth", 0},
    {"intra", KEY_INTRA, "US,GB/S", 0,
     "Latency and bandwidth between the ranks of a node (default 10,40)", 0},
    {"nccl-table", KEY_NCCL_TABLE, "FILE", 0,
     "Latency and bandwidth from the output of nccl-tests' all_reduce_perf; may be given for "
     "several numbers of ranks",
     0},
    {"ranks", KEY_RANKS, "A..B|N,...", 0,
     "Ranks to forecast: from A to B by doubling, or these (default 2..4096)", 0},
    {"ranks-per-node", KEY_RANKS_PER_NODE, "N", 0, "Ranks of a node (default: as measured, else 1)",
     0},
    {"batch-size", 'b', "N", 0, "Images of a rank (default: as measured)", 0},
    {"algorithm", KEY_ALGORITHM, "ring|tree|auto", 0,
     "How gradients are summed (default ring); auto takes the cheaper one for each bucket", 0},
    {"stragglers", KEY_STRAGGLERS, "SIGMA", 0,
     "How the ranks' own times differ: standard deviation of their logarithm (default: as steps of "
     "a run vary, else 0.02)",
     0},
    {"input-bandwidth", KEY_INPUT_BANDWIDTH, "GB/S", 0,
     "What storage gives all ranks together (default: no bound)", 0},
    {"image-bytes", KEY_IMAGE_BYTES, "B", 0, "Bytes of an image (default: as read, else 115000)",
     0},
    {"fit", KEY_FIT, 0, 0, "Fit network and stragglers to the measured points", 0},
    {"fit-up-to", KEY_FIT_UP_TO, "N", 0, "Fit to those of up to N ranks; the others are held out",
     0},
    {"out", 'o', "DIR", 0, "Write the record and draw it there", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0},
};

struct predict_args {
    const char *source[SOURCES_MAX];
    int n_sources;
    const char *table[TABLES_MAX];
    int n_tables;
    struct prediction_config config;
    bool has_ranks, has_intra, has_network, has_image_bytes;
    const char *out; /* NULL: no record, no figure */
    bool json;
};

/* "12.5,40" as a link. */
static enum status parse_link(const char *flag, const char *arg, struct link *out)
{
    char latency[32];
    double us, gb_per_s;
    size_t len = strcspn(arg, ",");
    if (arg[len] == '\0' || len >= sizeof latency)
        return status_fail(
            STATUS_USAGE, "%s '%s': give latency in us, a comma, and bandwidth in GB/s", flag, arg);
    snprintf(latency, sizeof latency, "%.*s", (int)len, arg);
    TRY(cli_double(flag, latency, 0, 1e7, &us));
    TRY(cli_double(flag, arg + len + 1, 1e-6, 1e6, &gb_per_s));
    *out = (struct link){.latency_s = us * 1e-6, .bytes_per_s = gb_per_s * 1e9};
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

/* "2..4096" or "2,4,8,48". */
static enum status parse_ranks(const char *arg, struct prediction_config *c)
{
    char word[32];
    int64_t a, b;
    const char *dots = strstr(arg, "..");
    c->n_ranks = 0;
    if (dots) {
        snprintf(word, sizeof word, "%.*s", (int)(dots - arg), arg);
        TRY(cli_int("--ranks", word, 1, RANKS_MAX, &a));
        TRY(cli_int("--ranks", dots + 2, a, RANKS_MAX, &b));
        for (; a < b; a *= 2)
            TRY(ranks_add(c, a));
        return ranks_add(c, b);
    }
    for (const char *at = arg;; at++) {
        size_t len = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)len, at);
        TRY(cli_int("--ranks", word, 1, RANKS_MAX, &a));
        TRY(ranks_add(c, a));
        at += len;
        if (*at == '\0')
            return STATUS_OK;
    }
}

static enum status list_add(const char **list, int *n, int most, const char *what, const char *arg)
{
    if (*n == most)
        return status_fail(STATUS_USAGE, "more than %d %s, from '%s' on", most, what, arg);
    list[(*n)++] = arg;
    return STATUS_OK;
}

static enum status parse_storage(const char *arg, struct system *s)
{
    TRY(cli_double("--input-bandwidth", arg, 1e-6, 1e6, &s->input_bytes_per_s));
    s->input_bytes_per_s *= 1e9;
    return STATUS_OK;
}

static enum status parse_value(int key, const char *arg, struct predict_args *a)
{
    struct prediction_config *c = &a->config;
    struct system *s = &c->system;
    switch (key) {
    case KEY_NETWORK:
        c->known.inter = a->has_network = true;
        return parse_link("--network", arg, &s->net.inter);
    case KEY_INTRA:
        c->known.intra = a->has_intra = true;
        return parse_link("--intra", arg, &s->net.intra);
    case KEY_NCCL_TABLE:
        return list_add(a->table, &a->n_tables, TABLES_MAX, "tables", arg);
    case KEY_RANKS:
        a->has_ranks = true;
        return parse_ranks(arg, c);
    case KEY_RANKS_PER_NODE:
        return cli_int("--ranks-per-node", arg, 1, RANKS_MAX, &s->net.ranks_per_node);
    case 'b':
        return cli_int("-b", arg, 1, RANKS_MAX, &c->batch);
    case KEY_ALGORITHM:
        return cost_algorithm_parse(arg, &s->net.algorithm);
    case KEY_STRAGGLERS:
        c->known.sigma = true;
        return cli_double("--stragglers", arg, 0, 2, &s->sigma);
    case KEY_INPUT_BANDWIDTH:
        return parse_storage(arg, s);
    case KEY_IMAGE_BYTES:
        a->has_image_bytes = true;
        return cli_double("--image-bytes", arg, 1, 1e12, &s->image_bytes);
    default:
        c->fit = true;
        return cli_int("--fit-up-to", arg, 1, RANKS_MAX, &c->fit_up_to);
    }
}

static enum status check_args(const struct predict_args *a)
{
    if (a->n_sources == 0)
        return status_fail(STATUS_USAGE, "nothing measured to start from: give the folder of a "
                                         "run, an analysis.json or a published table");
    if (!a->config.fit && !a->has_network && a->n_tables == 0)
        return status_fail(STATUS_USAGE,
                           "no network to forecast for: give --network, --nccl-table or --fit");
    if ((a->has_network || a->has_intra) && a->n_tables > 0)
        return status_fail(STATUS_USAGE, "a network by numbers and by a table: give one of them");
    return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct predict_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_FIT:
        a->config.fit = true;
        break;
    case KEY_JSON:
        a->json = true;
        break;
    case 'o':
        a->out = arg;
        break;
    case ARGP_KEY_ARG:
        st = list_add(a->source, &a->n_sources, SOURCES_MAX, "sources", arg);
        break;
    case ARGP_KEY_END:
        st = check_args(a);
        break;
    default:
        if (key != 'b' && (key < KEY_NETWORK || key > KEY_JSON))
            return ARGP_ERR_UNKNOWN;
        st = parse_value(key, arg, a);
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status load_runs(const struct predict_args *a, struct source *out)
{
    enum status st;
    struct run *run[SOURCES_MAX] = {NULL};
    for (int i = 0; i < a->n_sources; i++)
        CHECK(run_load(a->source[i], &run[i]));
    CHECK(source_of_runs((const struct run *const *)run, a->n_sources, out));
done:
    for (int i = 0; i < a->n_sources; i++)
        run_free(run[i]);
    return st;
}

/* `which`: a series' name; NULL: the only one. */
static enum status load_published(const char *path, const char *which, struct source *out)
{
    struct published p;
    const struct published_series *s;
    TRY(published_load(path, &p));
    s = &p.series[0];
    enum status st = which || p.n > 1 ? published_find(&p, which ? which : "", &s) : STATUS_OK;
    if (st == STATUS_OK)
        st = source_of_published(s, out);
    published_free(&p);
    return st;
}

/* `which`: a series' number, from 1; NULL: the only one. */
static enum status load_analysis(const char *path, const char *which, struct source *out)
{
    enum status st;
    struct analysis a;
    int64_t i = 1;
    TRY(analysis_read(path, &a));
    if (a.n_series == 0)
        st = status_fail(STATUS_DATA, "no series in '%s'", path);
    else if (!which && a.n_series > 1)
        st = status_fail(STATUS_USAGE, "'%s' has %lld series: name one, as in '%s:1'", path,
                         (long long)a.n_series, path);
    else
        st = which ? cli_int("the series after ':'", which, 1, a.n_series, &i) : STATUS_OK;
    if (st == STATUS_OK)
        st = source_of_analysis(&a, i - 1, out);
    analysis_free(&a);
    return st;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static enum status load_source(const struct predict_args *a, struct source *out)
{
    char path[4096];
    const char *name = a->source[0], *colon = strrchr(name, ':');
    TRY(path_format(path, sizeof path, "%s", name));
    if (colon && !path_exists(name))
        path[colon - name] = '\0';
    const char *which = strlen(path) < strlen(name) ? colon + 1 : NULL;
    bool is_table = ends_with(path, ".csv"), is_analysis = ends_with(path, ".json");
    if (!is_table && !is_analysis)
        return load_runs(a, out);
    if (a->n_sources > 1)
        return status_fail(STATUS_USAGE, "'%s' and more: several sources must be runs", path);
    return is_table ? load_published(path, which, out) : load_analysis(path, which, out);
}

/* What the source and the tables say, where the command line says nothing. */
static enum status complete(struct predict_args *a, const struct source *source,
                            struct nccl_table *table)
{
    struct system *s = &a->config.system;
    struct network_cost *net = &s->net;
    int64_t per_node = net->ranks_per_node;
    net->ranks_per_node = source->ranks_per_node;
    for (int i = 0; i < a->n_tables; i++)
        TRY(nccl_table_load(a->table[i], &table[i]));
    net->table = table;
    net->n_tables = a->n_tables;
    TRY(cost_from_tables(net));
    if (a->n_tables > 0)
        a->config.known.intra = a->config.known.inter = true;
    if (per_node > 0)
        net->ranks_per_node = per_node;
    if (!a->has_image_bytes)
        s->image_bytes = source->image_bytes;
    if (!a->config.known.sigma && source->sigma > 0)
        s->sigma = source->sigma;
    return a->has_ranks ? STATUS_OK : parse_ranks("2..4096", &a->config);
}

/* The record, as text that the caller frees. */
static enum status record_of(const struct prediction *p, char **text)
{
    json_t *o = prediction_json(p);
    *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    return *text ? STATUS_OK : status_fail(STATUS_OOM, "no memory for the record");
}

/* `names` gets those of the pictures. */
static enum status draw(const char *record, const char *dir, FILE *names)
{
    const struct plot_options pictures = {.png = true, .svg = true, .written = names};
    char path[4096];
    TRY(dir_make(dir));
    TRY(path_format(path, sizeof path, "%s/predict.json", dir));
    TRY(file_replace(path, record, strlen(record)));
    return plot_forecast(path, dir, &pictures);
}

static enum status say(const struct predict_args *a, const struct prediction *p)
{
    enum status st = STATUS_OK;
    char *record;
    TRY(record_of(p, &record));
    if (a->json)
        puts(record);
    else
        prediction_print(p, stdout);
    if (a->out)
        st = draw(record, a->out, a->json ? NULL : stdout);
    free(record);
    return st;
}

static enum status predict(struct predict_args *a)
{
    enum status st;
    struct source *source = calloc(1, sizeof *source);
    struct prediction *p = calloc(1, sizeof *p);
    struct nccl_table *table = calloc(TABLES_MAX, sizeof *table);
    if (!source || !p || !table) {
        st = status_fail(STATUS_OOM, "no memory for a prediction");
        goto done;
    }
    CHECK(load_source(a, source));
    CHECK(complete(a, source, table));
    a->config.source = source;
    CHECK(prediction_make(&a->config, p));
    CHECK(say(a, p));
done:
    free(source);
    free(p);
    free(table);
    return st;
}

int cmd_predict(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "FILE\nRUN...",
        .doc = "Forecasts training on more ranks than were measured: throughput, efficiency, and "
               "what limits them. RUN is the folder of 'ampscale train --out'; several that "
               "differ in their ranks are one measurement. FILE is an analysis.json of 'ampscale "
               "study', or a published table (.csv), with a series' number or name behind a colon "
               "where there are several.",
    };
    struct predict_args a = {
        .config.system = {.net = {.intra = {.latency_s = 1e-5, .bytes_per_s = 40e9},
                                  .inter = {.latency_s = 5e-4, .bytes_per_s = 5e9}},
                          .sigma = 0.02}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = predict(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
