/* Where a step's time goes. */
#include "base/stats.h"
#include "plots/figure.h"

#include <math.h>
#include <stdlib.h>

enum { PARTS = 7, WARMUP_STEPS = 10 };

/* The parts of a step in seconds, in the order of the bar; the last is what no part explains. */
static void parts_of(const struct step_record *s, double part[PARTS])
{
    const double named[PARTS - 1] = {s->data_s,     s->h2d_s,  s->forward_s,
                                     s->backward_s, s->comm_s, s->optimizer_s};
    double sum = 0;
    for (int p = 0; p < PARTS - 1; p++) {
        part[p] = named[p];
        sum += named[p];
    }
    part[PARTS - 1] = fmax(0, s->total_s - sum);
}

static bool is_whole(const struct step_record *s)
{
    return isfinite(s->data_s + s->h2d_s + s->forward_s + s->backward_s + s->comm_s +
                    s->optimizer_s) &&
           s->total_s > 0;
}

/* The parts of the median step: each is its mean over the steps between the quartiles of the
 * total, so that the parts add up, and stalls and lucky steps stay out. False without any step. */
static enum status median_step(const struct run *run, double part[PARTS], bool *some)
{
    int64_t skip = stats_warmup(run->n_steps, WARMUP_STEPS), n = 0, used = 0;
    double *total = malloc((size_t)(run->n_steps + 1) * sizeof *total);
    if (!total)
        return status_fail(STATUS_OOM, "no memory for the steps of '%s'", run->dir);
    for (int64_t k = skip; k < run->n_steps; k++)
        if (is_whole(&run->step[k]))
            total[n++] = run->step[k].total_s;
    *some = n > 0;
    if (n > 0) {
        stats_sort(total, n);
        double low = total[(n - 1) / 4], high = total[n - 1 - (n - 1) / 4];
        for (int64_t k = skip; k < run->n_steps; k++) {
            const struct step_record *s = &run->step[k];
            if (!is_whole(s) || s->total_s < low || s->total_s > high)
                continue;
            double one[PARTS];
            parts_of(s, one);
            for (int p = 0; p < PARTS; p++)
                part[p] += one[p];
            used++;
        }
        for (int p = 0; p < PARTS; p++)
            part[p] /= (double)used;
    }
    free(total);
    return STATUS_OK;
}

/* part, left end, right end in ms, left end, right end in percent: a row a part. */
static enum status split_table(const struct drawing *d, const struct figure *f, int i,
                               const double part[PARTS], double *sum_ms)
{
    struct atomic_file table;
    double sum = 0, left = 0;
    for (int p = 0; p < PARTS; p++)
        sum += part[p];
    TRY(figure_table(d, f, i, &table));
    for (int p = 0; p < PARTS; p++) {
        double right = left + part[p];
        fprintf(table.stream, "%d %.9g %.9g %.9g %.9g\n", p + 1, 1e3 * left, 1e3 * right,
                100 * left / sum, 100 * right / sum);
        left = right;
    }
    *sum_ms = 1e3 * sum;
    return atomic_file_commit(&table);
}

enum status figure_split(const struct drawing *d, const struct figure *f, FILE *vars, bool *some)
{
    bool has[PLOT_MAX_RUNS], used[PARTS] = {false};
    double longest = 0;
    fprintf(vars, "array total_ms[%d]\n", d->n);
    for (int i = 0; i < d->n; i++) {
        double part[PARTS] = {0}, sum_ms = 0;
        TRY(median_step(d->run[i], part, &has[i]));
        if (has[i])
            TRY(split_table(d, f, i, part, &sum_ms));
        for (int p = 0; p < PARTS; p++)
            used[p] = used[p] || 1e3 * part[p] > FIGURE_VISIBLE_SHARE * sum_ms;
        fprintf(vars, "total_ms[%d] = %.9g\n", i + 1, sum_ms);
        longest = fmax(longest, sum_ms);
        *some = *some || has[i];
    }
    figure_set(vars, "x_max", longest);
    figure_set_text(vars, "time_label", "Time of the median step (ms)");
    figure_set_runs(vars, "all_runs", has, d->n);
    figure_set_runs(vars, "used_parts", used, PARTS);
    return STATUS_OK;
}
