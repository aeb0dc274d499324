/* ampscale trend: reports when the speed of a configuration in a history changed permanently. */
#include "compare/trend.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "plots/plot.h"

#include <stdio.h>

enum { ALLOWED_MAX = 64, EXIT_WORSE = 3 };

struct trend_args {
    const char *dir, *out; /* NULL: not given */
    bool json;
    bool chosen;      /* whether --metric was given */
    double threshold; /* percent */
    struct trend_config config;
    const char *allowed[ALLOWED_MAX];
    int fail_on;
    int exit_code;
    struct plot_size pictures;
};

static enum status take_metric(const struct setting *setting, const char *name, void *config)
{
    struct trend_args *a = config;
    enum metric_id id;
    (void)setting;
    TRY(metric_find("--metric", name, &id));
    a->config.wanted[id] = true;
    return STATUS_OK;
}

#define SETTINGS_OF struct trend_args
static const struct setting trend_settings[] = {
    {"metric", 0, "NAME", NULL,
     "Metric to examine, instead of the rates: images_per_s_mean, images_per_s, images_per_s_max, "
     "samples_per_s, tokens_per_s; may be given several times",
     TAKEN_BY(take_metric), GIVEN(chosen)},
    {"threshold", 0, "PERCENT", "3", "Report only changes larger than this, in percent",
     AS_REAL(threshold, 0, 100)},
    {"alpha", 0, "P", "0.01", "Significance level",
     AS_REAL(config.alpha, 1.0 / TREND_SHUFFLES, 0.5)},
    {"last", 0, "N", "5000", "Number of points of each series to examine, from the last one back",
     AS_INTEGER(config.last, 1, TREND_POINTS_MAX)},
    {"allow-different", 0, "NAME", NULL,
     "Make one series of runs that differ in this field of configuration or hardware, or in a "
     "field below it; may be given several times",
     AS_LIST(allowed, config.n_allowed)},
    {"fail-on", 0, "none|worse", "none",
     "worse: exit with 3 after a change for the worse that was not taken back", AS_CHOICE(fail_on)},
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
    TRY(json_write(trend_json(t), JSON_EXACT, "%s", path));
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
    static const enum metric_id rates[] = {METRIC_IMAGES_PER_S_MEAN, METRIC_IMAGES_PER_S,
                                           METRIC_IMAGES_PER_S_MAX, METRIC_SAMPLES, METRIC_TOKENS};
    for (size_t i = 0; !a->chosen && i < sizeof rates / sizeof *rates; i++)
        a->config.wanted[rates[i]] = true;
    a->config.threshold = a->threshold / 100;
    a->config.allowed = a->allowed;
    TRY(plot_size_check(&a->pictures));
    CHECK(history_load(a->dir, false, &h));
    CHECK(trend_of(&h, &a->config, &t));
    if (t.n == 0)
        CHECK(status_fail(STATUS_DATA, "'%s' has none of the requested metrics", a->dir));
    if (h.unordered || h.repeated > 0)
        text_print(stderr,
                   "ampscale: '%s': the lines are %sin order of time, and %lld repeat others: "
                   "sorted, and each run counts once",
                   a->dir, h.unordered ? "not " : "", (long long)h.repeated);
    if (a->json)
        json_print(trend_json(&t), stdout, JSON_EXACT);
    else
        trend_print(&t, stdout);
    if (a->out)
        CHECK(draw(&t, a));
    a->exit_code = a->fail_on && t.worse ? EXIT_WORSE : 0;
done:
    trend_free(&t);
    history_free(&h);
    return st;
}

const struct cli_command cmd_trend = {
    .name = "trend",
    .summary = "report when results in a history changed permanently",
    .arguments = "DIR",
    .doc =
        "Reports when the speed of a configuration changed permanently: the point in the "
        "history in DIR, the size of the change, and its significance. 'ampscale compare "
        "--record' writes the history. Runs that were recorded together form one point. A change "
        "is taken back if the last level is as good as, or as bad as, the level before the "
        "change.\vExit status: 0 if done, 1 on an error, 2 on wrong usage, 3 with --fail-on, 5 if "
        "there is no history, or it is damaged or lacks the metric.",
    .example = {{"Changes of speed in a history of 'ampscale compare --record'",
                 "ampscale trend history"},
                {"The same with figures, for changes from 1 % on",
                 "ampscale trend history --threshold 1 --out plots/trend"}},
    .part = {{trend_settings}, {picture_settings, offsetof(struct trend_args, pictures)}},
    .prints = true,
    .config = &(struct trend_args){0},
    .exit_code = offsetof(struct trend_args, exit_code),
    .work = trend};
