/* ampscale trend: when the speed of what a history tells of changed for good. */
#include "compare/trend.h"
#include "base/file.h"
#include "cli/cli.h"
#include "compare/compare.h"
#include "plots/trend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_METRIC = 256, KEY_THRESHOLD, KEY_ALPHA, KEY_JSON, KEY_OUT };

static const struct argp_option options[] = {
    {"metric", KEY_METRIC, "NAME", 0,
     "Look at this metric, in place of images_per_s and images_per_s_max; may be given several "
     "times",
     0},
    {"threshold", KEY_THRESHOLD, "PERCENT", 0, "Tell only steps that are larger (default 3)", 0},
    {"alpha", KEY_ALPHA, "P", 0, "Significance level (default 0.01)", 0},
    {"json", KEY_JSON, "FILE", 0, "Write series and steps as JSON", 0},
    {"out", KEY_OUT, "DIR", 0, "Draw the series and their steps into this folder, as PNG and SVG",
     0},
    {0},
};

struct trend_args {
    const char *dir, *json, *out; /* NULL: not given */
    bool wanted[METRICS];
    bool chosen;
    double alpha, threshold;
};

static enum status parse_metric(const char *name, struct trend_args *a)
{
    enum metric_id id;
    TRY(metric_find("--metric", name, &id));
    if (!a->chosen)
        memset(a->wanted, 0, sizeof a->wanted);
    a->chosen = a->wanted[id] = true;
    return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct trend_args *a = state->input;
    enum status st = STATUS_OK;
    double percent = 0;
    switch (key) {
    case KEY_METRIC:
        st = parse_metric(arg, a);
        break;
    case KEY_THRESHOLD:
        st = cli_double("--threshold", arg, 0, 100, &percent);
        a->threshold = percent / 100;
        break;
    case KEY_ALPHA:
        st = cli_double("--alpha", arg, 1.0 / TREND_SHUFFLES, 0.5, &a->alpha);
        break;
    case KEY_JSON:
        a->json = arg;
        break;
    case KEY_OUT:
        a->out = arg;
        break;
    case ARGP_KEY_ARG:
        if (a->dir)
            return ARGP_ERR_UNKNOWN;
        a->dir = arg;
        break;
    case ARGP_KEY_END:
        if (!a->dir)
            st = status_fail(STATUS_USAGE, "no history: give the folder of 'compare --record'");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* The figure is drawn from a record, which stays beside it. */
static enum status draw(const struct trend *t, const char *out)
{
    char path[4096];
    const struct plot_options how = {.png = true, .svg = true, .written = stdout};
    TRY(path_format(path, sizeof path, "%s/trend.json", out));
    TRY(dir_make(out));
    TRY(trend_write(t, path));
    return plot_trend(path, out, &how);
}

static enum status trend(const struct trend_args *a)
{
    enum status st;
    struct history h = {0};
    struct trend t = {0};
    CHECK(history_load(a->dir, &h));
    CHECK(trend_of(&h, a->wanted, a->alpha, a->threshold, &t));
    if (t.n == 0) {
        st = status_fail(STATUS_DATA, "'%s' tells nothing of the metrics asked for", a->dir);
        goto done;
    }
    trend_print(&t, stdout);
    if (a->json)
        CHECK(trend_write(&t, a->json));
    if (a->out)
        CHECK(draw(&t, a->out));
done:
    trend_free(&t);
    history_free(&h);
    return st;
}

int cmd_trend(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "DIR",
        .doc = "Tells when the speed of a configuration changed for good: where in the history in "
               "DIR, which 'ampscale compare --record' writes, by how much, and how likely that is "
               "by chance. Runs that were recorded together are one point.",
    };
    const struct compare_config defaults = compare_defaults();
    struct trend_args a = {.alpha = defaults.alpha, .threshold = defaults.threshold[0]};
    int exit_code;
    a.wanted[METRIC_IMAGES_PER_S] = a.wanted[METRIC_IMAGES_PER_S_MAX] = true;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = trend(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
