/* Draws the histogram of an AMP report. */
#include "plots/record.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* plots/templates/amp.gp, compiled in. */
extern const unsigned char plot_amp[];

enum { CURVES = 2, ROWS_MAX = 512, EXPONENT_MAX = 512 };

/* The x axis begins and ends at the first and the last exponent at which a curve has at least this
 * percentage of its sum. */
#define SHARE_SEEN 0.005

struct histogram {
    int n;
    int exponent[ROWS_MAX]; /* ascending, without gaps */
    double share[CURVES][ROWS_MAX];
};

static bool count_of(const json_t *value, double *out)
{
    *out = json_number_value(value);
    return json_is_integer(value) && *out >= 0;
}

/* Reads the counts of the rows, and converts them to percent of each curve's sum. */
static enum status histogram_read(const json_t *report, struct histogram *h)
{
    const json_t *rows = json_object_get(report, "histogram"), *row;
    size_t i;
    double sum[CURVES] = {0};
    *h = (struct histogram){.n = (int)json_array_size(rows)};
    if (!json_is_array(rows) || json_array_size(rows) > ROWS_MAX)
        return record_damaged("histogram");
    json_array_foreach(rows, i, row)
    {
        const json_t *exponent = json_array_get(row, 0);
        json_int_t e = json_integer_value(exponent);
        if (!json_is_integer(exponent) || e < -EXPONENT_MAX || e > EXPONENT_MAX ||
            (i > 0 && e != h->exponent[i - 1] + 1))
            return record_damaged("histogram");
        h->exponent[i] = (int)e;
        for (int c = 0; c < CURVES; c++) {
            if (!count_of(json_array_get(row, (size_t)c + 1), &h->share[c][i]))
                return record_damaged("histogram");
            sum[c] += h->share[c][i];
        }
    }
    for (int c = 0; c < CURVES; c++)
        for (int k = 0; k < h->n && sum[c] > 0; k++)
            h->share[c][k] *= 100 / sum[c];
    return STATUS_OK;
}

static enum status curve_table(const struct drawing *d, const struct figure *f, int c,
                               const struct histogram *h)
{
    struct atomic_file table;
    TRY(figure_table(d, f, c, &table));
    fprintf(table.stream, "%d 0\n", h->exponent[0] - 1);
    for (int k = 0; k < h->n; k++)
        fprintf(table.stream, "%d %.9g\n", h->exponent[k], h->share[c][k]);
    fprintf(table.stream, "%d 0\n", h->exponent[h->n - 1] + 1);
    return atomic_file_commit(&table);
}

/* Sets *out to the percentage of the nonzero gradients that underflow. `at` is "at_one" for loss
 * scale 1, or "at_scale" for the current loss scale. */
static enum status lost_percent(const json_t *report, const char *at, double *out)
{
    const json_t *all = json_object_get(json_object_get(report, "total"), "all");
    double lost, nonzero;
    if (!count_of(json_object_get(all, "nonzero"), &nonzero) ||
        !count_of(json_object_get(json_object_get(all, at), "underflow"), &lost))
        return record_damaged("total");
    *out = nonzero > 0 ? 100 * lost / nonzero : 0;
    return STATUS_OK;
}

static enum status set_scale(const json_t *report, FILE *vars)
{
    double one, now, scale;
    TRY(record_number(report, "loss_scale", DBL_MIN, DBL_MAX, &scale));
    TRY(lost_percent(report, "at_one", &one));
    TRY(lost_percent(report, "at_scale", &now));
    figure_set(vars, "loss_scale", scale);
    figure_set(vars, "shift", log2(scale));
    figure_set(vars, "lost_at_one", one);
    figure_set(vars, "lost_at_scale", now);
    return STATUS_OK;
}

static enum status figure_amp(const struct drawing *d, const struct figure *f, FILE *vars,
                              bool has[FIGURE_BARS_MAX])
{
    struct histogram h;
    double x_min = INFINITY, x_max = -INFINITY, y_max = 0;
    TRY(set_scale(d->report, vars));
    TRY(histogram_read(d->report, &h));
    for (int c = 0; c < CURVES && h.n > 0; c++) {
        for (int k = 0; k < h.n; k++) {
            if (h.share[c][k] < SHARE_SEEN)
                continue;
            has[c] = true;
            x_min = fmin(x_min, h.exponent[k]);
            x_max = fmax(x_max, h.exponent[k] + 1);
            y_max = fmax(y_max, h.share[c][k]);
        }
        TRY(curve_table(d, f, c, &h));
    }
    figure_set(vars, "x_min", x_min);
    figure_set(vars, "x_max", x_max);
    figure_set(vars, "y_max", y_max);
    return STATUS_OK;
}

static enum status describe_amp(struct drawing *d)
{
    strcpy(d->label[0], "gradients of activations");
    strcpy(d->label[1], "gradients of weights");
    d->n = CURVES;
    if (!d->title)
        d->title = json_string_value(json_object_get(d->report, "arch"));
    return STATUS_OK;
}

const struct record_figure amp_figure =
    RECORD_FIGURE(amp, "Distribution of gradients and the range of fp16", "report", "amp");
