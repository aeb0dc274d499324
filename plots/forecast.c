/* Draws forecasts and measured points against ranks. */
#include "base/json.h"
#include "base/text.h"
#include "plots/record.h"
#include "plots/study_axis.h"

#include <float.h>
#include <math.h>

/* plots/templates/forecast.gp, compiled in. */
extern const unsigned char plot_forecast[];

enum { POINTS_MAX = 512, PARTS = 4 };

#define NUMBER_MAX 1e15

/* Table 1 has the forecasts, table 2 the calibration points, table 3 the held-out points. */
enum { TABLE_FORECAST, TABLE_FITTED, TABLE_HELD_OUT, TABLES };

struct axes {
    double x_low, x_high, rate_low, rate_high;
    double checked_low, checked_high; /* smallest and largest number of ranks measured */
    double spread;                    /* the largest ratio of the ends of an interval */
    bool has_part[PARTS];
    bool has_table[TABLES];
};

static enum status number_read(const json_t *o, const char *key, double *out)
{
    return record_number(o, key, 0, NUMBER_MAX, out);
}

static enum status positive_read(const json_t *o, const char *key, double *out)
{
    return record_number(o, key, DBL_MIN, NUMBER_MAX, out);
}

/* Reads a point: ranks, images/s, efficiency. */
static enum status point_read(const json_t *o, double *ranks, double *rate, double *efficiency)
{
    TRY(positive_read(o, "ranks", ranks));
    TRY(positive_read(o, "images_per_s", rate));
    return number_read(o, "efficiency", efficiency);
}

static enum status list_of(const json_t *report, const char *key, const json_t **list)
{
    *list = json_object_get(report, key);
    if (!json_is_array(*list) || json_array_size(*list) > POINTS_MAX)
        return record_damaged(key);
    return STATUS_OK;
}

static void axes_take(struct axes *a, double ranks, double rate)
{
    a->x_low = fmin(a->x_low, ranks);
    a->x_high = fmax(a->x_high, ranks);
    a->rate_low = fmin(a->rate_low, rate);
    a->rate_high = fmax(a->rate_high, rate);
}

/* Writes a row: ranks, images/s, efficiency, the ends of the interval of images/s (records of
 * earlier versions have no interval), and for each part of a step the upper end of its bar in
 * percent. */
static enum status forecast_row(const json_t *o, FILE *table, struct axes *axes)
{
    static const char *const parts[PARTS] = {"compute_s", "straggler_s", "exposed_s", "input_s"};
    double ranks, rate, efficiency, step, low, high, part, end = 0;
    TRY(point_read(o, &ranks, &rate, &efficiency));
    TRY(positive_read(o, "step_s", &step));
    low = high = rate;
    if (json_object_get(o, "low")) {
        TRY(positive_read(o, "low", &low));
        TRY(positive_read(o, "high", &high));
    }
    fprintf(table, "%.9g %.9g %.9g %.9g %.9g", ranks, rate, efficiency, low, high);
    for (int i = 0; i < PARTS; i++) {
        TRY(number_read(o, parts[i], &part));
        end += part;
        axes->has_part[i] = axes->has_part[i] || i == 0 || part > FIGURE_VISIBLE_SHARE * step;
        fprintf(table, " %.9g", 100 * end / step);
    }
    fputc('\n', table);
    axes->spread = fmax(axes->spread, high / low);
    axes_take(axes, ranks, low);
    axes_take(axes, ranks, high);
    return STATUS_OK;
}

/* Writes a row "ranks images/s efficiency" if the point belongs to the table. */
static enum status measured_row(const json_t *o, int number, FILE *table, struct axes *axes)
{
    double ranks, rate, efficiency;
    TRY(point_read(o, &ranks, &rate, &efficiency));
    axes->checked_low = fmin(axes->checked_low, ranks);
    axes->checked_high = fmax(axes->checked_high, ranks);
    if (json_is_true(json_object_get(o, "held_out")) != (number == TABLE_HELD_OUT))
        return STATUS_OK;
    fprintf(table, "%.9g %.9g %.9g\n", ranks, rate, efficiency);
    axes_take(axes, ranks, rate);
    axes->has_table[number] = true;
    return STATUS_OK;
}

static enum status write_table(const struct drawing *d, const struct figure *f, int number,
                               const json_t *list, struct axes *axes)
{
    enum status st = STATUS_OK;
    struct atomic_file table;
    size_t i;
    json_t *o;
    TRY(figure_table(d, f, number, &table));
    json_array_foreach(list, i, o)
    {
        CHECK(number == TABLE_FORECAST ? forecast_row(o, table.stream, axes)
                                       : measured_row(o, number, table.stream, axes));
    }
done:
    return atomic_file_end(&table, st);
}

static enum status figure_forecast(const struct drawing *d, const struct figure *f, FILE *vars,
                                   bool has[FIGURE_BARS_MAX])
{
    const json_t *forecasts, *measured;
    char assumed[512];
    double ranks, rate, efficiency;
    struct axes axes = {
        .spread = 1, .x_low = INFINITY, .rate_low = INFINITY, .checked_low = INFINITY};
    TRY(list_of(d->report, "forecast", &forecasts));
    TRY(list_of(d->report, "measured", &measured));
    if (json_array_size(forecasts) == 0)
        return STATUS_OK;
    TRY(point_read(json_array_get(measured, 0), &ranks, &rate, &efficiency));
    for (int i = 0; i < TABLES; i++)
        TRY(write_table(d, f, i, i == TABLE_FORECAST ? forecasts : measured, &axes));
    figure_set(vars, "ideal", rate / ranks); /* the throughput per rank of the first point */
    figure_set(vars, "x_low", axes.x_low / 1.25);
    figure_set(vars, "x_high", axes.x_high * 1.25);
    axis_set(vars, &(struct axis){.scale = AXIS_LOG}, 0,
             (struct range){axes.rate_low, axes.rate_high});
    text_clean(assumed, sizeof assumed,
               json_text_at(json_object_get(d->report, "system"), "assumed"));
    figure_set_text(vars, "assumed", assumed);
    figure_set(vars, "is_predicted",
               json_is_true(json_object_get(json_array_get(measured, 0), "predicted")));
    figure_set(vars, "has_fitted", axes.has_table[TABLE_FITTED]);
    figure_set(vars, "has_held_out", axes.has_table[TABLE_HELD_OUT]);
    figure_set(vars, "has_spread", axes.spread > 1);
    figure_set(vars, "checked_low", axes.checked_low);
    figure_set(vars, "checked_high", axes.checked_high);
    figure_set_runs(vars, "has_parts", axes.has_part, PARTS);
    has[TABLE_FORECAST] = true;
    return STATUS_OK;
}

static enum status describe_forecast(struct drawing *d)
{
    d->n = 1;
    text_clean(d->label[0], FIGURE_LABEL_MAX, json_text_at(d->report, "label"));
    return STATUS_OK;
}

const struct record_figure forecast_figure =
    RECORD_FIGURE(forecast, "Forecast of training on more ranks", "record", "predict");
