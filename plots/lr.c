/* Draws the learning rate against the epoch. */
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>

/* A schedule with more jumps than this is drawn like a smooth curve: the table need not contain
 * both sides of each jump. */
enum { MAX_JUMPS = 200 };

/* The axis is logarithmic if the ratio of the highest rate to the lowest is in this range. At a
 * smaller ratio, a linear axis shows the low rates too. At a larger ratio, the low rates would take
 * most of a logarithmic axis. */
#define LOG_RATIO_MIN 20.0
#define LOG_RATIO_MAX 1e4

static bool jumps_after(const struct run *run, int64_t k)
{
    return k + 1 < run->n_steps && run->step[k].lr != run->step[k + 1].lr;
}

static int64_t batches_per_epoch(const struct run *run)
{
    int64_t most = 0;
    for (int64_t k = 0; k < run->n_steps; k++)
        if (run->step[k].batch > most)
            most = run->step[k].batch;
    return most + 1;
}

struct range {
    double low, high, x_max;
};

/* Writes rows "x lr", for some of the steps. If there are at most MAX_JUMPS jumps, the steps on
 * both sides of each jump are among these steps, because a jump is drawn as a vertical line. */
static enum status lr_table(const struct drawing *d, const struct figure *f, int i, bool by_step,
                            struct range *range)
{
    const struct run *run = d->run[i];
    struct atomic_file table;
    int64_t jumps = 0, stride = series_stride(run->n_steps, FIGURE_MAX_ROWS);
    double batches = (double)batches_per_epoch(run);
    for (int64_t k = 0; k < run->n_steps; k++)
        jumps += jumps_after(run, k);
    TRY(figure_table(d, f, i, &table));
    for (int64_t k = 0; k < run->n_steps; k++) {
        const struct step_record *s = &run->step[k];
        bool at_jump = jumps_after(run, k) || (k > 0 && jumps_after(run, k - 1));
        if (k % stride != 0 && k + 1 < run->n_steps && !(at_jump && jumps <= MAX_JUMPS))
            continue;
        double x = by_step ? (double)s->step + 1 : (double)s->epoch + (double)s->batch / batches;
        fprintf(table.stream, "%.9g %.9g\n", x, s->lr);
        if (!isfinite(s->lr))
            continue;
        range->x_max = fmax(range->x_max, x);
        range->low = fmin(range->low, s->lr);
        range->high = fmax(range->high, s->lr);
    }
    return atomic_file_commit(&table);
}

enum status figure_lr(const struct drawing *d, const struct figure *f, FILE *vars,
                      bool has[FIGURE_BARS_MAX])
{
    bool by_step = true;
    struct range range = {.low = INFINITY};
    for (int i = 0; i < d->n; i++)
        by_step = by_step && d->run[i]->n_epochs == 0;
    for (int i = 0; i < d->n; i++) {
        has[i] = d->run[i]->n_steps > 0;
        TRY(lr_table(d, f, i, by_step, &range));
    }
    double ratio = range.high / range.low;
    figure_set(vars, "by_step", by_step);
    figure_set(vars, "logarithmic", ratio >= LOG_RATIO_MIN && ratio <= LOG_RATIO_MAX);
    figure_set(vars, "x_max", range.x_max);
    figure_set(vars, "y_min", range.low);
    figure_set(vars, "y_max", range.high > 0 ? range.high : 1);
    return STATUS_OK;
}
