/* ampscale trend: reports when the speed of a configuration in a history changed permanently. */
#include "compare/trend.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "plots/plot.h"

#include <stdio.h>

struct trend_args {
    const char *dir, *out; /* NULL: not given */
    bool json;
    bool wanted[METRICS];
    bool chosen;             /* whether --metric was given */
    double alpha, threshold; /* threshold: percent */
    struct plot_size pictures;
};

static enum status take_metric(const struct setting *setting, const char *name, void *config)
{
    struct trend_args *a = config;
    enum metric_id id;
    (void)setting;
    TRY(metric_find("--metric", name, &id));
    a->wanted[id] = true;
    return STATUS_OK;
}

#define SETTINGS_OF struct trend_args
static const struct setting trend_settings[] = {
    {"metric", 0, "NAME", NULL,
     "Metric to examine, instead of images_per_s_mean, images_per_s and images_per_s_max; may be "
     "given several times",
     TAKEN_BY(take_metric), GIVEN(chosen)},
    {"threshold", 0, "PERCENT", "3", "Report only changes larger than this, in percent",
     AS_REAL(threshold, 0, 100)},
    {"alpha", 0, "P", "0.01", "Significance level", AS_REAL(alpha, 1.0 / TREND_SHUFFLES, 0.5)},
    JSON_ROW(json),
    {"out", 0, "DIR", NULL,
     "Folder for figures of the series and their changes, as PNG, SVG and PDF", AS_TEXT(out)},
    {NULL, 0, "DIR", NULL, NULL, AS_TEXT(dir)},
    {0},
};

/* Writes the record, and draws the figure from the record. */
static enum status draw(const struct trend *t, const struct trend_args *a)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/trend.json", a->out));
    TRY(dir_make(a->out));
    TRY(trend_write(t, path));
    return picture_draw(path, a->out, &a->pictures, a->json);
}

static enum status trend(void *args)
{
    struct trend_args *a = args;
    enum status st;
    struct history h = {0};
    struct trend t = {0};
    if (!a->dir)
        return status_fail(STATUS_USAGE, "no history: give the folder of 'compare --record'");
    if (!a->chosen)
        a->wanted[METRIC_IMAGES_PER_S_MEAN] = a->wanted[METRIC_IMAGES_PER_S] =
            a->wanted[METRIC_IMAGES_PER_S_MAX] = true;
    TRY(plot_size_check(&a->pictures));
    CHECK(history_load(a->dir, &h));
    CHECK(trend_of(&h, a->wanted, a->alpha, a->threshold / 100, &t));
    if (t.n == 0)
        CHECK(status_fail(STATUS_DATA, "'%s' has none of the requested metrics", a->dir));
    if (a->json)
        CHECK(trend_print_json(&t, stdout));
    else
        trend_print(&t, stdout);
    if (a->out)
        CHECK(draw(&t, a));
done:
    trend_free(&t);
    history_free(&h);
    return st;
}

const struct cli_command cmd_trend = {
    .name = "trend",
    .summary = "report when results in a history changed permanently",
    .arguments = "DIR",
    .doc = "Reports when the speed of a configuration changed permanently: the point in the "
           "history in DIR, the size of the change, and its significance. 'ampscale compare "
           "--record' writes the history. Runs that were recorded together form one point.",
    .example = {{"Changes of speed in a history of 'ampscale compare --record'",
                 "ampscale trend history"},
                {"The same with figures, for changes from 1 % on",
                 "ampscale trend history --threshold 1 --out plots/trend"}},
    .part = {{trend_settings}, {picture_settings, offsetof(struct trend_args, pictures)}},
    .prints = true,
    .config = &(struct trend_args){0},
    .work = trend};
