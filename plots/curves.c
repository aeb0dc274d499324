/* Curves of learning: loss or accuracy of training and validation against the epoch. */
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With fewer epochs than this the steps between them tell more than the epochs do. */
enum { FEW_EPOCHS = 4 };

/* A loss axis ends at this many times the largest training loss at most: a wild validation, as
 * early epochs have, would otherwise flatten all the rest. */
#define LOSS_REACH 1.5

static double real_at(const void *record, size_t offset)
{
    double v;
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

/* What a figure of curves has seen while its tables were written. */
struct seen {
    bool train[PLOT_MAX_RUNS], val[PLOT_MAX_RUNS], any[PLOT_MAX_RUNS];
    double x_max, y_max, train_max;
    bool some;
};

static void see_train(struct seen *s, int i, double y)
{
    if (!isfinite(y))
        return;
    s->train[i] = s->any[i] = s->some = true;
    s->train_max = fmax(s->train_max, y);
    s->y_max = fmax(s->y_max, y);
}

static void see_val(struct seen *s, int i, double y)
{
    if (!isfinite(y))
        return;
    s->val[i] = s->any[i] = s->some = true;
    s->y_max = fmax(s->y_max, y);
}

/* x, train, val; one row an epoch, under the number of epochs (or steps) that are over by then. */
static enum status epochs_table(const struct drawing *d, const struct figure *f, int i,
                                bool by_step, struct seen *s)
{
    const struct run *run = d->run[i];
    enum status st;
    struct atomic_file table = {0};
    double *y = malloc((size_t)(2 * run->n_epochs + 1) * sizeof *y);
    if (!y)
        return status_fail(STATUS_OOM, "no memory for the curves of '%s'", run->dir);
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
        see_val(s, i, val[e]);
        s->x_max = fmax(s->x_max, x);
    }
    CHECK(atomic_file_commit(&table));
done:
    atomic_file_abandon(&table);
    free(y);
    return st;
}

/* step, value, mean over its neighbours. */
static enum status steps_table(const struct drawing *d, const struct figure *f, int i,
                               struct seen *s)
{
    const struct run *run = d->run[i];
    enum status st;
    struct atomic_file table = {0};
    char path[4096];
    int64_t n = run->n_steps;
    double *y = malloc((size_t)(n + 1) * sizeof *y);
    if (!y)
        return status_fail(STATUS_OOM, "no memory for the curves of '%s'", run->dir);
    for (int64_t k = 0; k < n; k++)
        y[k] = real_at(&run->step[k], f->step);
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
    CHECK(atomic_file_commit(&table));
    /* Single steps may shoot over the axis, but not by much. */
    double high;
    CHECK(series_quantile(y, n, 0.995, &high));
    see_train(s, i, high);
done:
    atomic_file_abandon(&table);
    free(y);
    return st;
}

/* Where the y axis ends. */
static double y_end(const struct seen *s, bool percent)
{
    if (percent)
        return fmin(100, series_ceiling(s->y_max));
    double end = s->y_max > 0 ? 1.05 * s->y_max : 1;
    return s->train_max > 0 ? fmin(end, LOSS_REACH * s->train_max) : end;
}

enum status figure_curves(const struct drawing *d, const struct figure *f, FILE *vars, bool *some)
{
    bool by_step = most_epochs(d) < FEW_EPOCHS;
    struct seen s = {.some = false};
    for (int i = 0; i < d->n; i++) {
        TRY(epochs_table(d, f, i, by_step, &s));
        if (by_step)
            TRY(steps_table(d, f, i, &s));
    }
    bool percent = strcmp(f->unit, "%") == 0;
    figure_set(vars, "by_step", by_step);
    figure_set(vars, "x_max", s.x_max);
    figure_set(vars, "y_max", y_end(&s, percent));
    figure_set(vars, "cut_off", s.y_max > y_end(&s, percent));
    figure_set_runs(vars, "train_runs", s.train, d->n);
    figure_set_runs(vars, "val_runs", s.val, d->n);
    figure_set_runs(vars, "all_runs", s.any, d->n);
    *some = s.some;
    return STATUS_OK;
}
