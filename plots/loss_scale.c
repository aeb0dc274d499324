/* Draws the loss scale against the step, and the steps that were skipped. */
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>

/* Number of point symbols on a run's curve. */
enum { MARKS = 10 };

struct scale_range {
    double low, high, x_max;
    bool skipped;
    int64_t rows; /* number of rows of the longest table */
};

static bool changes_after(const struct run *run, int64_t k)
{
    return k + 1 < run->n_steps && run->step[k].loss_scale != run->step[k + 1].loss_scale;
}

static bool is_scaled(const struct step_record *s)
{
    return isfinite(s->loss_scale) && s->loss_scale > 0;
}

static bool has_scale(const struct run *run)
{
    for (int64_t k = 0; k < run->n_steps; k++)
        if (is_scaled(&run->step[k]))
            return true;
    return false;
}

/* Writes rows "step scale skipped"; `skipped` is the scale if the step was skipped, else NaN.
 * Writes all skipped steps, and the steps before and after each change of the scale; if these are
 * more than a figure can show, only some of them. Also writes some of the remaining steps. */
static enum status scale_table(const struct drawing *d, const struct figure *f, int i,
                               struct scale_range *range)
{
    const struct run *run = d->run[i];
    struct atomic_file table;
    int64_t special = 0, met = 0, rows = 0, stride = series_stride(run->n_steps, FIGURE_MAX_ROWS);
    for (int64_t k = 0; k < run->n_steps; k++)
        special += changes_after(run, k) || run->step[k].skipped;
    int64_t special_stride = series_stride(special, FIGURE_MAX_ROWS);
    TRY(figure_table(d, f, i, &table));
    for (int64_t k = 0; k < run->n_steps; k++) {
        const struct step_record *s = &run->step[k];
        bool at_change = changes_after(run, k) || s->skipped;
        bool keep = at_change && met++ % special_stride == 0;
        keep = keep || (k > 0 && changes_after(run, k - 1) && special_stride == 1);
        if (!is_scaled(s) || !(keep || k % stride == 0 || k + 1 == run->n_steps))
            continue;
        double x = (double)s->step + 1;
        fprintf(table.stream, "%.9g %.9g %.9g\n", x, s->loss_scale,
                s->skipped ? s->loss_scale : NAN);
        rows++;
        range->low = fmin(range->low, s->loss_scale);
        range->high = fmax(range->high, s->loss_scale);
        range->x_max = fmax(range->x_max, x);
        range->skipped = range->skipped || s->skipped;
    }
    range->rows = rows > range->rows ? rows : range->rows;
    return atomic_file_commit(&table);
}

enum status figure_loss_scale(const struct drawing *d, const struct figure *f, FILE *vars,
                              bool has[FIGURE_BARS_MAX])
{
    struct scale_range range = {.low = INFINITY};
    for (int i = 0; i < d->n; i++) {
        has[i] = has_scale(d->run[i]);
        if (has[i])
            TRY(scale_table(d, f, i, &range));
    }
    figure_set(vars, "x_max", range.x_max);
    figure_set(vars, "y_min", isfinite(range.low) ? range.low : 1);
    figure_set(vars, "y_max", range.high > 0 ? range.high : 1);
    figure_set(vars, "mark_every", (double)series_stride(range.rows, MARKS));
    figure_set(vars, "some_skipped", range.skipped);
    return STATUS_OK;
}
