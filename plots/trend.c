/* Series of a history and their steps. */
#include "plots/trend.h"

#include "base/stats.h"
#include "plots/report.h"
#include "results/text.h"

#include <math.h>
#include <stdlib.h>

/* plots/templates/trend.gp, compiled in. */
extern const unsigned char plot_trend_script[];

enum { SCHEMA = 1, POINTS_MAX = 100000 };

static enum status damaged(const char *what)
{
    return status_fail(STATUS_DATA, "damaged trend record: '%s' is missing or makes no sense",
                       what);
}

static bool number_read(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out);
}

/* The step's place among n points, after the one before it, and its ratio, which is infinite where
 * the level before it is 0. */
static enum status step_read(const json_t *step, int64_t before, int64_t n, int64_t *at,
                             double *ratio)
{
    const json_t *point = json_object_get(step, "point"), *change = json_object_get(step, "ratio");
    *at = json_integer_value(point);
    if (!json_is_integer(point) || *at <= before || *at >= n)
        return damaged("point");
    *ratio = INFINITY;
    return json_is_null(change) || number_read(step, "ratio", ratio) ? STATUS_OK : damaged("ratio");
}

/* Rows "place value accepted" for the points; a blank block; a line for each level, from its first
 * point to its last; a blank block; rows "place level change" for the steps. */
static enum status write_levels(FILE *out, const json_t *steps, const double *x, double *room,
                                int64_t n)
{
    int64_t from = 0, to;
    double ratio = 1;
    for (size_t i = 0; i <= json_array_size(steps); i++) {
        to = n;
        if (i < json_array_size(steps))
            TRY(step_read(json_array_get(steps, i), from, n, &to, &ratio));
        for (int64_t k = from; k < to; k++)
            room[k - from] = x[k];
        stats_sort(room, to - from);
        double level = stats_quantile(room, to - from, 0.5);
        fprintf(out, "%.1f %.9g\n%.1f %.9g\n\n", (double)from + 0.5, level, (double)to + 0.5,
                level);
        from = to;
    }
    fputs("\n", out);
    from = 0;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        TRY(step_read(json_array_get(steps, i), from, n, &from, &ratio));
        fprintf(out, "%.1f %.9g \"", (double)from + 0.5, x[from]);
        if (isfinite(ratio))
            fprintf(out, "%+.1f %%\"\n", 100 * (ratio - 1));
        else
            fputs("from 0\"\n", out);
    }
    return STATUS_OK;
}

static enum status write_series(FILE *out, const json_t *series, double *x, double *room)
{
    const json_t *points = json_object_get(series, "points");
    int64_t n = (int64_t)json_array_size(points);
    for (int64_t i = 0; i < n; i++) {
        const json_t *p = json_array_get(points, (size_t)i);
        if (!number_read(p, "value", &x[i]))
            return damaged("value");
        fprintf(out, "%lld %.9g %d\n", (long long)i + 1, x[i],
                json_is_true(json_object_get(p, "accepted")));
    }
    fputs("\n\n", out);
    return write_levels(out, json_object_get(series, "steps"), x, room, n);
}

static enum status table_of(const struct drawing *d, const struct figure *f, int i)
{
    const json_t *series = json_array_get(json_object_get(d->report, "series"), (size_t)i);
    size_t n = json_array_size(json_object_get(series, "points"));
    struct atomic_file table = {0};
    enum status st;
    if (n == 0 || n > POINTS_MAX)
        return damaged("points");
    double *x = malloc(2 * n * sizeof *x);
    if (!x)
        return status_fail(STATUS_OOM, "no memory to draw a series");
    CHECK(figure_table(d, f, i, &table));
    CHECK(write_series(table.stream, series, x, x + n));
    CHECK(atomic_file_commit(&table));
done:
    atomic_file_abandon(&table);
    free(x);
    return st;
}

static enum status figure_trend(const struct drawing *d, const struct figure *f, FILE *vars,
                                bool *some)
{
    bool has[PLOT_TREND_SERIES_MAX], stepped[PLOT_TREND_SERIES_MAX];
    const json_t *series = json_object_get(d->report, "series");
    for (int i = 0; i < d->n; i++) {
        has[i] = true;
        stepped[i] =
            json_array_size(json_object_get(json_array_get(series, (size_t)i), "steps")) > 0;
        TRY(table_of(d, f, i));
    }
    figure_set_runs(vars, "all_runs", has, d->n);
    figure_set_runs(vars, "stepped", stepped, d->n);
    *some = d->n > 0;
    return STATUS_OK;
}

/* "resnet50 bf16 ddp, images_per_s (images/s)" */
static enum status describe(const json_t *series, char label[FIGURE_LABEL_MAX])
{
    char text[2 * FIGURE_LABEL_MAX], what[40];
    const char *name = json_string_value(json_object_get(series, "name"));
    const char *metric = json_string_value(json_object_get(series, "metric"));
    const char *unit = json_string_value(json_object_get(series, "unit"));
    if (!name || !metric || !unit)
        return damaged("series");
    int room = FIGURE_LABEL_MAX - 1 - snprintf(what, sizeof what, ", %.20s (%.10s)", metric, unit);
    snprintf(text, sizeof text, "%.*s%s", room, name, what);
    text_clean(label, FIGURE_LABEL_MAX, text);
    return STATUS_OK;
}

enum status plot_trend(const char *path, const char *out, const struct plot_options *options)
{
    static const struct figure figure = {.name = "trend",
                                         .title = "Results over time",
                                         .script = plot_trend_script,
                                         .prepare = figure_trend};
    char label[PLOT_TREND_SERIES_MAX][FIGURE_LABEL_MAX];
    json_t *report;
    enum status st = STATUS_OK;
    TRY(report_load(path, "record", "trend", SCHEMA, &report));
    const json_t *series = json_object_get(report, "series");
    struct drawing d = {.report = report, .options = options, .label = label};
    for (; d.n < PLOT_TREND_SERIES_MAX && (size_t)d.n < json_array_size(series); d.n++)
        CHECK(describe(json_array_get(series, (size_t)d.n), label[d.n]));
    st = report_draw(&d, &figure, path, out);
done:
    json_decref(report);
    return st;
}
