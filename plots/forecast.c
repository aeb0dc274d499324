/* Forecasts and measured points against ranks. */
#include "plots/forecast.h"

#include "plots/report.h"
#include "results/text.h"

#include <math.h>
#include <stdlib.h>

/* plots/templates/forecast.gp, compiled in. */
extern const unsigned char plot_forecast_script[];

enum { SCHEMA = 1, POINTS_MAX = 512, PARTS = 4 };

#define NUMBER_MAX 1e15

/* Table 1 holds the forecasts, table 2 what was fitted to, table 3 what was held out. */
enum { TABLE_FORECAST, TABLE_FITTED, TABLE_HELD_OUT, TABLES };

struct axes {
    double x_low, x_high, rate_low, rate_high;
};

static enum status damaged(const char *what)
{
    return status_fail(STATUS_DATA, "damaged prediction: '%s' is missing or makes no sense", what);
}

static enum status number_read(const json_t *o, const char *key, double *out)
{
    const json_t *v = json_object_get(o, key);
    *out = json_number_value(v);
    return json_is_number(v) && *out >= 0 && *out <= NUMBER_MAX ? STATUS_OK : damaged(key);
}

/* A number above 0. */
static enum status positive_read(const json_t *o, const char *key, double *out)
{
    TRY(number_read(o, key, out));
    return *out > 0 ? STATUS_OK : damaged(key);
}

static enum status list_of(const json_t *report, const char *key, const json_t **list)
{
    *list = json_object_get(report, key);
    if (!json_is_array(*list) || json_array_size(*list) > POINTS_MAX)
        return damaged(key);
    return STATUS_OK;
}

static void axes_take(struct axes *a, double ranks, double rate)
{
    a->x_low = fmin(a->x_low, ranks);
    a->x_high = fmax(a->x_high, ranks);
    a->rate_low = fmin(a->rate_low, rate);
    a->rate_high = fmax(a->rate_high, rate);
}

/* ranks, images/s, efficiency, images/s of slow and of quick steps, and the ends of the parts of a
 * step in percent: compute, stragglers, exposed, input. */
static enum status forecast_row(const json_t *o, FILE *table, struct axes *axes)
{
    static const char *const parts[PARTS] = {"compute_s", "straggler_s", "exposed_s", "input_s"};
    double ranks, rate, efficiency, step, p5, p95, part, end = 0;
    TRY(positive_read(o, "ranks", &ranks));
    TRY(positive_read(o, "images_per_s", &rate));
    TRY(number_read(o, "efficiency", &efficiency));
    TRY(positive_read(o, "step_s", &step));
    TRY(positive_read(o, "step_p5_s", &p5));
    TRY(positive_read(o, "step_p95_s", &p95));
    fprintf(table, "%.9g %.9g %.9g %.9g %.9g", ranks, rate, efficiency, rate * step / p95,
            rate * step / p5);
    for (int i = 0; i < PARTS; i++) {
        TRY(number_read(o, parts[i], &part));
        end += part;
        fprintf(table, " %.9g", 100 * end / step);
    }
    fputc('\n', table);
    axes_take(axes, ranks, rate);
    return STATUS_OK;
}

static enum status forecast_table(const struct drawing *d, const struct figure *f,
                                  const json_t *list, struct axes *axes)
{
    enum status st = STATUS_OK;
    struct atomic_file table;
    size_t i;
    json_t *o;
    TRY(figure_table(d, f, TABLE_FORECAST, &table));
    json_array_foreach(list, i, o) CHECK(forecast_row(o, table.stream, axes));
    CHECK(atomic_file_commit(&table));
done:
    atomic_file_abandon(&table);
    return st;
}

/* ranks, images/s, efficiency of the points that were held out, or of the others. */
static enum status measured_table(const struct drawing *d, const struct figure *f,
                                  const json_t *list, bool held_out, struct axes *axes, bool *some)
{
    enum status st = STATUS_OK;
    struct atomic_file table;
    size_t i;
    json_t *o;
    TRY(figure_table(d, f, held_out ? TABLE_HELD_OUT : TABLE_FITTED, &table));
    json_array_foreach(list, i, o)
    {
        double ranks, rate, efficiency;
        CHECK(positive_read(o, "ranks", &ranks));
        CHECK(positive_read(o, "images_per_s", &rate));
        CHECK(number_read(o, "efficiency", &efficiency));
        if (json_is_true(json_object_get(o, "held_out")) != held_out)
            continue;
        fprintf(table.stream, "%.9g %.9g %.9g\n", ranks, rate, efficiency);
        axes_take(axes, ranks, rate);
        *some = true;
    }
    CHECK(atomic_file_commit(&table));
done:
    atomic_file_abandon(&table);
    return st;
}

/* Ideal throughput is that of the first measured point, a rank. */
static enum status ideal_set(const json_t *measured, FILE *vars)
{
    double ranks, rate;
    const json_t *first = json_array_get(measured, 0);
    TRY(positive_read(first, "ranks", &ranks));
    TRY(positive_read(first, "images_per_s", &rate));
    figure_set(vars, "ideal", rate / ranks);
    return STATUS_OK;
}

static enum status figure_forecast(const struct drawing *d, const struct figure *f, FILE *vars,
                                   bool *some)
{
    const json_t *forecasts, *measured;
    bool has[TABLES] = {true, false, false};
    struct axes axes = {.x_low = INFINITY, .rate_low = INFINITY};
    TRY(list_of(d->report, "forecast", &forecasts));
    TRY(list_of(d->report, "measured", &measured));
    if (json_array_size(forecasts) == 0)
        return STATUS_OK;
    TRY(ideal_set(measured, vars));
    TRY(forecast_table(d, f, forecasts, &axes));
    TRY(measured_table(d, f, measured, false, &axes, &has[TABLE_FITTED]));
    TRY(measured_table(d, f, measured, true, &axes, &has[TABLE_HELD_OUT]));
    figure_set(vars, "x_low", axes.x_low / 1.25);
    figure_set(vars, "x_high", axes.x_high * 1.25);
    figure_set(vars, "rate_low", axes.rate_low / 1.5);
    figure_set(vars, "rate_high", axes.rate_high * 2);
    figure_set(vars, "has_fitted", has[TABLE_FITTED]);
    figure_set(vars, "has_held_out", has[TABLE_HELD_OUT]);
    figure_set_runs(vars, "all_runs", has, 1);
    *some = true;
    return STATUS_OK;
}

enum status plot_forecast(const char *path, const char *out, const struct plot_options *options)
{
    static const struct figure figure = {.name = "forecast",
                                         .title = "Forecast of training on more ranks",
                                         .script = plot_forecast_script,
                                         .prepare = figure_forecast};
    char label[1][FIGURE_LABEL_MAX];
    json_t *report;
    TRY(report_load(path, "record", "predict", SCHEMA, &report));
    const char *text = json_string_value(json_object_get(report, "label"));
    text_clean(label[0], sizeof label[0], text ? text : "");
    struct drawing d = {.n = 1, .report = report, .options = options, .label = label};
    enum status st = report_draw(&d, &figure, path, out);
    json_decref(report);
    return st;
}
