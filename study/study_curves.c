/* Makes learning curves. */
#include "study/study_curves.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>

enum status study_curves_of(const struct run *run, struct study_curves *c)
{
    int64_t stride = (run->n_epochs + ANALYSIS_MAX_EPOCHS - 1) / ANALYSIS_MAX_EPOCHS;
    *c = (struct study_curves){0};
    if (run->n_epochs == 0)
        return STATUS_OK;
    TRY(array_new(&c->epoch, (run->n_epochs + stride - 1) / stride));
    /* begins so that the last epoch is taken */
    for (int64_t i = (run->n_epochs - 1) % stride; i < run->n_epochs; i += stride) {
        const struct epoch_record *from = &run->epoch[i];
        struct analysis_epoch *to = &c->epoch[c->n++];
        to->epoch = from->epoch + 1;
        to->accuracy[ANALYSIS_TOP1_TRAIN].median = from->train_top1;
        to->accuracy[ANALYSIS_TOP5_TRAIN].median = from->train_top5;
        to->accuracy[ANALYSIS_TOP1_VAL].median = from->val_images > 0 ? from->val_top1 : NAN;
        to->accuracy[ANALYSIS_TOP5_VAL].median = from->val_images > 0 ? from->val_top5 : NAN;
    }
    return STATUS_OK;
}

/* Joins the values of row `i` of the runs. */
static void join(const struct study_curves *run, int64_t n, int64_t i, enum analysis_accuracy k,
                 struct analysis_epoch *e)
{
    double values[ANALYSIS_MAX_REPEATS], low = NAN, high = NAN;
    int64_t known = 0;
    for (int64_t r = 0; r < n; r++) {
        bool same = i < run[r].n && run[r].epoch[i].epoch == e->epoch;
        double x = same ? run[r].epoch[i].accuracy[k].median : NAN;
        if (!(x >= 0 && x <= 100))
            continue;
        values[known++] = x;
        low = fmin(low, x);
        high = fmax(high, x);
    }
    e->accuracy[k].median = known > 0 ? stats_median(values, known) : NAN;
    e->accuracy[k].low = low;
    e->accuracy[k].high = high;
}

enum status study_curves_join(const struct study_curves *run, int64_t n, struct analysis_cell *cell)
{
    if (n == 0 || run[0].n == 0)
        return STATUS_OK;
    TRY(array_new(&cell->epoch, run[0].n));
    for (; cell->n_epochs < run[0].n; cell->n_epochs++) {
        struct analysis_epoch *e = &cell->epoch[cell->n_epochs];
        e->epoch = run[0].epoch[cell->n_epochs].epoch;
        for (enum analysis_accuracy k = 0; k < ANALYSIS_ACCURACIES; k++)
            join(run, n, cell->n_epochs, k, e);
    }
    return STATUS_OK;
}
