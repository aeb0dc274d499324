/* Draws the accuracy of validation against time, and marks the time at which it reached
 * --desired-acc. */
#include "plots/figure.h"

#include <math.h>

struct reach {
    bool wanted; /* a run has --desired-acc */
    double x_max, y_max;
};

/* Writes rows "time top-1 reached target", one for each validation. In the row of the epoch that
 * reached the target, `reached` is equal to top-1; in all other rows it is NaN. */
static enum status reach_table(const struct drawing *d, const struct figure *f, int i, double unit,
                               bool *has, struct reach *r)
{
    const struct run *run = d->run[i];
    const struct epoch_record *reached = run_reached(run);
    double target = json_number_value(run_config(run, "desired_acc"));
    struct atomic_file table;
    TRY(figure_table(d, f, i, &table));
    for (int64_t k = 0; k < run->n_epochs; k++) {
        const struct epoch_record *e = &run->epoch[k];
        if (e->val_images == 0 || !isfinite(e->val_top1) || !isfinite(e->elapsed))
            continue;
        fprintf(table.stream, "%.9g %.9g", e->elapsed / unit, e->val_top1);
        figure_number(table.stream, e == reached ? e->val_top1 : NAN);
        figure_number(table.stream, target > 0 ? target : NAN);
        fputc('\n', table.stream);
        *has = true;
        r->wanted = r->wanted || target > 0;
        r->x_max = fmax(r->x_max, e->elapsed / unit);
        r->y_max = fmax(r->y_max, fmax(e->val_top1, target));
    }
    return atomic_file_commit(&table);
}

enum status figure_time_to_accuracy(const struct drawing *d, const struct figure *f, FILE *vars,
                                    bool has[FIGURE_BARS_MAX])
{
    struct reach r = {0};
    double unit = figure_set_time(vars, d);
    for (int i = 0; i < d->n; i++) {
        const struct epoch_record *reached = run_reached(d->run[i]);
        TRY(reach_table(d, f, i, unit, &has[i], &r));
        if (reached)
            fprintf(vars, "legend[%d] = legend[%d].': %.4g %% after %.*f s'\n", i + 1, i + 1,
                    json_number_value(run_config(d->run[i], "desired_acc")),
                    reached->elapsed < 100 ? 1 : 0, reached->elapsed);
    }
    figure_set(vars, "wanted", r.wanted);
    figure_set(vars, "x_max", r.x_max > 0 ? r.x_max : 1);
    figure_set(vars, "y_max", r.y_max > 0 ? 1.08 * r.y_max : 1);
    return STATUS_OK;
}
