/* Draws learning curves against the epoch: loss and accuracy, of training and of validation. */
#include "base/array.h"
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* If the runs have fewer epochs than this, the x axis counts steps. */
enum { FEW_EPOCHS = 4 };

/* A loss axis ends at no more than this multiple of the largest training loss. Otherwise a very
 * large validation loss, as in early epochs, would flatten all other curves. */
#define LOSS_REACH 1.5

/* Returns the member at `offset`; NaN if `offset` is 0, which means that the figure has no such
 * curve. */
static double real_at(const void *record, size_t offset)
{
    double v;
    if (offset == 0)
        return NAN;
    memcpy(&v, (const char *)record + offset, sizeof v);
    return v;
}

static int64_t most_epochs(const struct drawing *d)
{
    int64_t most = 0;
    for (int i = 0; i < d->n; i++)
        if (d->run[i]->n_epochs > most)
            most = d->run[i]->n_epochs;
    return most;
}

/* What a figure's tables contain: which curves have values, and the maxima of the values. */
struct seen {
    bool train[PLOT_MAX_RUNS], val[PLOT_MAX_RUNS], *any;
    double x_max, y_max, train_max;
};

/* If `y` is finite, records in has[] that curve i has a value, and raises `max` and the end of the
 * y axis to `y` if they are lower. */
static void see(struct seen *s, bool has[], double *max, int i, double y)
{
    if (!isfinite(y))
        return;
    has[i] = s->any[i] = true;
    *max = fmax(*max, y);
    s->y_max = fmax(s->y_max, y);
}

static void see_train(struct seen *s, int i, double y)
{
    see(s, s->train, &s->train_max, i, y);
}

/* Writes rows "x train val", one for each epoch; x is the number of completed epochs or, if
 * `by_step`, of completed steps. */
static enum status epochs_table(const struct drawing *d, const struct figure *f, int i,
                                bool by_step, struct seen *s)
{
    const struct run *run = d->run[i];
    enum status st;
    struct atomic_file table = {0};
    double *y;
    TRY(array_new(&y, 2 * run->n_epochs));
    double *train = y, *val = y + run->n_epochs;
    for (int64_t e = 0; e < run->n_epochs; e++) {
        train[e] = real_at(&run->epoch[e], f->train);
        val[e] = real_at(&run->epoch[e], f->val);
    }
    series_ema(train, run->n_epochs, d->options->ema);
    series_ema(val, run->n_epochs, d->options->ema);
    CHECK(figure_table(d, f, i, &table));
    for (int64_t e = 0; e < run->n_epochs; e++) {
        double x = (double)(by_step ? run->epoch[e].steps : run->epoch[e].epoch + 1);
        fprintf(table.stream, "%.9g %.9g %.9g\n", x, train[e], val[e]);
        if (!by_step)
            see_train(s, i, train[e]);
        see(s, s->val, &s->y_max, i, val[e]);
        s->x_max = fmax(s->x_max, x);
    }
done:
    free(y);
    return atomic_file_end(&table, st);
}

/* Writes rows "step value mean"; the mean is over neighbouring steps. */
static enum status steps_table(const struct drawing *d, const struct figure *f, int i,
                               struct seen *s)
{
    const struct run *run = d->run[i];
    enum status st;
    struct atomic_file table = {0};
    char path[4096];
    int64_t n = run->n_steps;
    double *y;
    TRY(array_new(&y, n));
    for (int64_t k = 0; k < n; k++)
        y[k] = real_at(&run->step[k], f->train ? f->step : 0);
    CHECK(path_format(path, sizeof path, "%s/%s-steps-%02d.dat", d->data, f->name, i + 1));
    CHECK(atomic_file_open(&table, path));
    int64_t stride = series_stride(n, FIGURE_MAX_ROWS);
    for (int64_t k = 0; k < n; k += stride) {
        double x = (double)(run->step[k].step + 1);
        double smooth = isfinite(y[k]) ? series_mean_around(y, n, k, n / 50) : NAN;
        fprintf(table.stream, "%.9g %.9g %.9g\n", x, y[k], smooth);
        see_train(s, i, smooth);
        s->x_max = fmax(s->x_max, x);
    }
    /* The axis reaches the 99.5 % quantile of the steps' values. A few steps may be above its end.
     */
    double high;
    CHECK(series_quantile(y, n, 0.995, &high));
    see_train(s, i, high);
done:
    free(y);
    return atomic_file_end(&table, st);
}

/* Returns the upper end of the y axis. */
static double y_end(const struct seen *s, bool percent)
{
    if (percent)
        return fmin(100, series_ceiling(s->y_max));
    double end = s->y_max > 0 ? 1.05 * s->y_max : 1;
    return s->train_max > 0 ? fmin(end, LOSS_REACH * s->train_max) : end;
}

enum status figure_curves(const struct drawing *d, const struct figure *f, FILE *vars,
                          bool has[FIGURE_BARS_MAX])
{
    bool by_step = most_epochs(d) < FEW_EPOCHS;
    struct seen s = {.any = has};
    for (int i = 0; i < d->n; i++) {
        TRY(epochs_table(d, f, i, by_step, &s));
        if (by_step)
            TRY(steps_table(d, f, i, &s));
    }
    bool percent = strcmp(f->unit, "%") == 0;
    figure_set(vars, "by_step", by_step);
    figure_set(vars, "x_max", s.x_max > 0 ? s.x_max : 1); /* 0: the run was validated before its
                                                           * first step, and has no other value */
    figure_set(vars, "y_max", y_end(&s, percent));
    figure_set(vars, "cut_off", s.y_max > y_end(&s, percent));
    figure_set_runs(vars, "train_runs", s.train, d->n);
    figure_set_runs(vars, "val_runs", s.val, d->n);
    return STATUS_OK;
}
