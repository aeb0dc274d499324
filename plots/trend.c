/* Draws the series of a history, and the steps in each series: the points at which its level
 * changes. */
#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "plots/record.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* plots/templates/trend.gp, compiled in. */
extern const unsigned char plot_trend[];

enum { POINTS_MAX = 100000, MARKS_MAX = 8, COMMIT_MAX = 10, WHEN_MAX = 32 };

/* Sets `when` to the date and the commit of a point or a step, with `between` between them. Omits
 * the date or the commit if it is not known. Of the commit, only the first COMMIT_MAX letters and
 * digits are used. */
static void when_of(const json_t *point, const char *between, char when[WHEN_MAX])
{
    const char *commit = json_text_at(point, "commit");
    double seconds = json_number_at(point, "time_s");
    struct tm utc;
    size_t n = 0;
    when[0] = '\0';
    if (seconds > 0 && seconds < 1e11) {
        gmtime_r(&(time_t){(time_t)seconds}, &utc);
        n = strftime(when, WHEN_MAX, "%Y-%m-%d", &utc);
    }
    if (n > 0 && *commit)
        n += (size_t)snprintf(when + n, WHEN_MAX - n, "%s", between);
    for (int i = 0;
         i < COMMIT_MAX && strchr("0123456789abcdefghijklmnopqrstuvwxyz", commit[i]) && commit[i];
         i++)
        when[n++] = commit[i];
    when[n] = '\0';
}

/* Writes point_marks[i+1] = '"DATE\nCOMMIT" 1, ...': the ticks of a series. Ticks are at equal
 * distances from the first point to the last. If a point has neither date nor commit, its number is
 * the mark. */
static void marks_set(FILE *vars, int i, const json_t *points)
{
    int64_t n = (int64_t)json_array_size(points), marks = n < MARKS_MAX ? n : MARKS_MAX;
    fprintf(vars, "point_marks[%d] = '", i + 1);
    for (int64_t k = 0; k < marks; k++) {
        int64_t at = marks > 1 ? k * (n - 1) / (marks - 1) : 0;
        char when[WHEN_MAX];
        when_of(json_array_get(points, (size_t)at), "\\n", when);
        if (!when[0])
            snprintf(when, sizeof when, "%lld", (long long)at + 1);
        fprintf(vars, "%s\"%s\" %lld", k > 0 ? ", " : "", when, (long long)at + 1);
    }
    fputs("'\n", vars);
}

/* Reads a step. Sets *at to the index of the step's first point among n points. This index must
 * be above `before`, the index for the previous step. Sets *ratio to INFINITY if the level before
 * the step is 0. */
static enum status step_read(const json_t *step, int64_t before, int64_t n, int64_t *at,
                             double *ratio)
{
    const json_t *point = json_object_get(step, "point"), *change = json_object_get(step, "ratio");
    *at = json_integer_value(point);
    if (!json_is_integer(point) || *at <= before || *at >= n)
        return record_damaged("point");
    *ratio = INFINITY;
    return json_is_null(change) ? STATUS_OK
                                : record_number(step, "ratio", -DBL_MAX, DBL_MAX, ratio);
}

/* Writes the data that follow the points' rows "place value accepted": first a block for each
 * level, with the two ends of its line; then a row "place value change" for each step. */
static enum status write_levels(FILE *out, const json_t *steps, const double *x, double *sorted,
                                int64_t n)
{
    int64_t from = 0, to;
    double ratio = 1;
    for (size_t i = 0; i <= json_array_size(steps); i++) {
        to = n;
        if (i < json_array_size(steps))
            TRY(step_read(json_array_get(steps, i), from, n, &to, &ratio));
        for (int64_t k = from; k < to; k++)
            sorted[k - from] = x[k];
        double level = stats_median(sorted, to - from);
        fprintf(out, "%.1f %.9g\n%.1f %.9g\n\n", (double)from + 0.5, level, (double)to + 0.5,
                level);
        from = to;
    }
    fputs("\n", out);
    from = 0;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        TRY(step_read(json_array_get(steps, i), from, n, &from, &ratio));
        char when[WHEN_MAX];
        when_of(json_array_get(steps, i), " ", when);
        fprintf(out, "%.1f %.9g \"", (double)from + 0.5, x[from]);
        if (isfinite(ratio))
            fprintf(out, "%+.1f %%", 100 * (ratio - 1));
        else
            fputs("from 0", out);
        fprintf(out, "%s%s\"\n", when[0] ? " since " : "", when);
    }
    return STATUS_OK;
}

static enum status write_series(FILE *out, const json_t *series, double *x, double *sorted)
{
    const json_t *points = json_object_get(series, "points");
    int64_t n = (int64_t)json_array_size(points);
    for (int64_t i = 0; i < n; i++) {
        const json_t *p = json_array_get(points, (size_t)i);
        TRY(record_number(p, "value", -DBL_MAX, DBL_MAX, &x[i]));
        fprintf(out, "%lld %.9g %d\n", (long long)i + 1, x[i],
                json_is_true(json_object_get(p, "accepted")));
    }
    fputs("\n\n", out);
    return write_levels(out, json_object_get(series, "steps"), x, sorted, n);
}

static enum status table_of(const struct drawing *d, const struct figure *f, int i)
{
    const json_t *series = json_array_get(json_object_get(d->report, "series"), (size_t)i);
    size_t n = json_array_size(json_object_get(series, "points"));
    struct atomic_file table = {0};
    enum status st;
    if (n == 0 || n > POINTS_MAX)
        return record_damaged("points");
    double *x;
    TRY(array_new(&x, 2 * n));
    CHECK(figure_table(d, f, i, &table));
    CHECK(write_series(table.stream, series, x, x + n));
done:
    free(x);
    return atomic_file_end(&table, st);
}

static enum status figure_trend(const struct drawing *d, const struct figure *f, FILE *vars,
                                bool has[FIGURE_BARS_MAX])
{
    bool stepped[RECORD_CURVES_MAX];
    const json_t *series = json_object_get(d->report, "series");
    fprintf(vars, "array point_marks[%d]\narray units[%d]\n", d->n, d->n);
    for (int i = 0; i < d->n; i++) {
        char name[32], unit[40];
        has[i] = true;
        snprintf(name, sizeof name, "units[%d]", i + 1);
        text_clean(unit, sizeof unit, json_text_at(json_array_get(series, (size_t)i), "unit"));
        figure_set_text(vars, name, unit);
        marks_set(vars, i, json_object_get(json_array_get(series, (size_t)i), "points"));
        stepped[i] =
            json_array_size(json_object_get(json_array_get(series, (size_t)i), "steps")) > 0;
        TRY(table_of(d, f, i));
    }
    figure_set_runs(vars, "stepped", stepped, d->n);
    return STATUS_OK;
}

/* Makes the label of a series, such as "resnet50 bf16 ddp, images_per_s (images/s)". */
static enum status describe_series(const json_t *series, char label[FIGURE_LABEL_MAX])
{
    char text[2 * FIGURE_LABEL_MAX], metric[40];
    const char *name = json_text_at(series, "name");
    snprintf(metric, sizeof metric, ", %.20s (%.10s)", json_text_at(series, "metric"),
             json_text_at(series, "unit"));
    if (!json_is_string(json_object_get(series, "unit")) || !*name)
        return record_damaged("series");
    snprintf(text, sizeof text, "%.*s%s", FIGURE_LABEL_MAX - 1 - (int)strlen(metric), name, metric);
    text_clean(label, FIGURE_LABEL_MAX, text);
    return STATUS_OK;
}

static enum status describe_trend(struct drawing *d)
{
    const json_t *series = json_object_get(d->report, "series");
    for (; d->n < RECORD_CURVES_MAX && (size_t)d->n < json_array_size(series); d->n++)
        TRY(describe_series(json_array_get(series, (size_t)d->n), d->label[d->n]));
    return STATUS_OK;
}

const struct record_figure trend_figure =
    RECORD_FIGURE(trend, "Results over time", "record", "trend");
