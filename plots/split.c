/* Draws the parts of a step's time. */
#include "base/array.h"
#include "base/stats.h"
#include "plots/figure.h"

#include <math.h>
#include <stdlib.h>

enum { PARTS = FIGURE_PARTS };

/* Sets the parts of a step in seconds, in the order of the bar. The last part is the rest of the
 * total, which belongs to no other part. */
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

/* Sets the parts of a typical step: the mean of each part over the steps whose total time is
 * between the quartiles. These parts add up to the mean total time of the same steps; very slow and
 * very fast steps are excluded. If there are no steps, leaves the parts unchanged. */
static enum status median_step(const struct run *run, double part[PARTS])
{
    int64_t skip = run_warmup(run), n = 0, used = 0;
    double *total;
    TRY(array_new(&total, run->n_steps));
    for (int64_t k = skip; k < run->n_steps; k++)
        if (is_whole(&run->step[k]))
            total[n++] = run->step[k].total_s;
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

/* Writes rows "part left right left right": the left and the right end of each part of the bar, in
 * ms and then in percent. */
enum status bar_write(const struct drawing *d, const struct figure *f, int i,
                      const double part[FIGURE_PARTS], FILE *vars, bool *has, struct bars *b)
{
    struct atomic_file table;
    double sum = 0, left = 0;
    for (int p = 0; p < PARTS; p++)
        sum += part[p];
    fprintf(vars, "total_ms[%d] = %.9g\n", i + 1, 1e3 * sum);
    *has = sum > 0;
    if (!*has)
        return STATUS_OK;
    b->longest_ms = fmax(b->longest_ms, 1e3 * sum);
    TRY(figure_table(d, f, i, &table));
    for (int p = 0; p < PARTS; p++) {
        double right = left + part[p];
        fprintf(table.stream, "%d %.9g %.9g %.9g %.9g\n", p + 1, 1e3 * left, 1e3 * right,
                100 * left / sum, 100 * right / sum);
        b->used[p] = b->used[p] || part[p] > FIGURE_VISIBLE_SHARE * sum;
        left = right;
    }
    return atomic_file_commit(&table);
}

void bars_set(FILE *vars, const struct bars *b, const char *label)
{
    figure_set(vars, "x_max", b->longest_ms);
    figure_set_text(vars, "time_label", label);
    figure_set_runs(vars, "used_parts", b->used, PARTS);
}

enum status figure_split(const struct drawing *d, const struct figure *f, FILE *vars,
                         bool has[FIGURE_BARS_MAX])
{
    struct bars bars = {.longest_ms = 0};
    fprintf(vars, "array total_ms[%d]\n", d->n);
    for (int i = 0; i < d->n; i++) {
        double part[PARTS] = {0};
        TRY(median_step(d->run[i], part));
        TRY(bar_write(d, f, i, part, vars, &has[i], &bars));
    }
    bars_set(vars, &bars, "Time of the median step (ms)");
    return STATUS_OK;
}
