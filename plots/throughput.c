/* Draws images per second against time. */
#include "base/array.h"
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>
#include <stdlib.h>

/* Minimum and maximum number of steps on each side of a step in the running median. Between these
 * limits, the median spans a hundredth of the run. */
enum { HALF_MIN = 3, HALF_MAX = 250 };

struct rates {
    bool *has;
    double median[PLOT_MAX_RUNS];
    double x_max, y_max;
};

/* Writes rows "time images/s running-median"; a blank line interrupts the curve at a pause. */
static enum status rate_table(const struct drawing *d, const struct figure *f, int i, double unit,
                              struct rates *r)
{
    const struct run *run = d->run[i];
    enum status st;
    struct atomic_file table = {0};
    int64_t n = run->n_steps, stride = series_stride(n, FIGURE_MAX_ROWS);
    int64_t half = n / 200 < HALF_MIN ? HALF_MIN : n / 200 > HALF_MAX ? HALF_MAX : n / 200;
    double *rate;
    TRY(array_new(&rate, n + 2 * half + 1));
    double *scratch = rate + n;
    for (int64_t k = 0; k < n; k++)
        rate[k] =
            run->step[k].total_s > 0 ? (double)run->step[k].images / run->step[k].total_s : NAN;
    CHECK(figure_table(d, f, i, &table));
    bool lift = false;
    for (int64_t k = 0; k < n; k++) {
        const struct step_record *s = &run->step[k];
        lift = lift || (k > 0 && series_gap(s - 1, s, d->gap_s[i]));
        if (k % stride != 0 || !isfinite(rate[k]) || !isfinite(s->elapsed))
            continue;
        double median = series_median_around(rate, n, k, half, scratch);
        fprintf(table.stream, "%s%.9g %.9g %.9g\n", lift ? "\n" : "", s->elapsed / unit, rate[k],
                median);
        lift = false;
        r->has[i] = true;
        r->x_max = fmax(r->x_max, s->elapsed / unit);
        r->y_max = fmax(r->y_max, median);
    }
    double high;
    CHECK(series_quantile(rate, n, 0.98, &high));
    r->y_max = fmax(r->y_max, high);
    CHECK(series_quantile(rate, n, 0.5, &r->median[i]));
done:
    free(rate);
    return atomic_file_end(&table, st);
}

enum status figure_throughput(const struct drawing *d, const struct figure *f, FILE *vars,
                              bool has[FIGURE_BARS_MAX])
{
    struct rates r = {.has = has};
    double unit = figure_set_time(vars, d);
    for (int i = 0; i < d->n; i++) {
        TRY(rate_table(d, f, i, unit, &r));
        if (r.has[i])
            fprintf(vars, "legend[%d] = legend[%d].': %.*f img/s'\n", i + 1, i + 1,
                    r.median[i] < 100 ? 1 : 0, r.median[i]);
    }
    figure_set(vars, "x_max", r.x_max);
    figure_set(vars, "y_max", 1.15 * r.y_max);
    return STATUS_OK;
}
