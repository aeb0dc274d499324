/* Computes the results of cells, the series of cells, and speed-ups. */
#include "study/study_analyse.h"

#include "base/array.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/stats.h"
#include "results/ranks.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };

const struct study_thresholds study_thresholds = {.loader_loss = 0.10,
                                                  .data_share = 0.10,
                                                  .comm_loss = 0.10,
                                                  .behind = RANKS_BEHIND,
                                                  .compute_share = 0.50,
                                                  .noise = 0.20};

/* Reads the member at `offset` of each sample, and copies the finite numbers to `values`. Returns
 * how many it copied. */
static int64_t collect(const struct study_result *r, size_t offset,
                       double values[ANALYSIS_MAX_REPEATS])
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double x = *(const double *)(const void *)((const char *)&r->sample[i] + offset);
        if (isfinite(x))
            values[n++] = x;
    }
    return n;
}

static enum status measure(const struct study_result *r, size_t offset, const char *cell,
                           struct analysis_measure *m)
{
    struct stats s;
    m->n = collect(r, offset, m->values);
    if (m->n == 0)
        return STATUS_OK;
    TRY(stats_of(m->values, m->n, &s));
    m->median = s.median;
    if (m->n < 2)
        return STATUS_OK;
    return stats_median_interval(m->values, m->n, 0.95, RESAMPLES, hash_fnv1a64(cell), &m->low,
                                 &m->high);
}

/* The median of the finite numbers at `offset` in the samples; NAN if no sample has one. */
static double median(const struct study_result *r, size_t offset)
{
    double values[ANALYSIS_MAX_REPEATS];
    int64_t n = collect(r, offset, values);
    return n > 0 ? stats_median(values, n) : NAN;
}

/* Sets the mean time of each part of a step. Means of the parts add up to the mean time of a step;
 * medians would not. */
static void split(const struct study_result *r, struct analysis_cell *c)
{
    for (int p = 0; p < ANALYSIS_PARTS; p++) {
        c->split[p] = 0;
        for (int64_t i = 0; i < r->n; i++)
            c->split[p] += r->sample[i].split[p] / (double)r->n;
    }
}

static void describe(const struct study_cell *from, struct analysis_cell *c)
{
    *c = analysis_cell_unknown();
    snprintf(c->name, sizeof c->name, "%s", from->name);
    snprintf(c->mode, sizeof c->mode, "%s", study_mode_str(from->mode));
    snprintf(c->precision, sizeof c->precision, "%s", from->precision);
    snprintf(c->arch, sizeof c->arch, "%s", from->arch);
    snprintf(c->data, sizeof c->data, "%s", from->data->name);
    c->real = from->data->generated || *from->data->folder;
    c->scaling = from->scaling;
    c->devices = from->devices;
    c->ranks = from->ranks;
    c->batch = from->batch;
}

/* Joins the values of row `i` of the runs. */
static void join(const struct study_result *r, int64_t i, enum analysis_accuracy k,
                 struct analysis_epoch *e)
{
    double values[ANALYSIS_MAX_REPEATS], low = NAN, high = NAN;
    int64_t known = 0;
    for (const struct study_sample *s = r->sample; s < r->sample + r->n; s++) {
        bool same = i < s->n_epochs && s->epoch[i].epoch == e->epoch;
        double x = same ? s->epoch[i].accuracy[k].median : NAN;
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

/* Sets the curves of a cell: the epochs of the first run, each with the median, the lowest and the
 * highest accuracy of the runs that have the epoch. */
static enum status join_curves(const struct study_result *r, struct analysis_cell *cell)
{
    const struct study_sample *first = &r->sample[0];
    if (first->n_epochs == 0)
        return STATUS_OK;
    TRY(array_new(&cell->epoch, first->n_epochs));
    for (; cell->n_epochs < first->n_epochs; cell->n_epochs++) {
        struct analysis_epoch *e = &cell->epoch[cell->n_epochs];
        e->epoch = first->epoch[cell->n_epochs].epoch;
        for (enum analysis_accuracy k = 0; k < ANALYSIS_ACCURACIES; k++)
            join(r, cell->n_epochs, k, e);
    }
    return STATUS_OK;
}

static enum status cell_numbers(const struct study_result *r, struct analysis_cell *c)
{
    if (r->n == 0) {
        snprintf(c->missing, sizeof c->missing, "%s", r->failed ? r->reason : "not run yet");
        return STATUS_OK;
    }
    TRY(measure(r, offsetof(struct study_sample, images_per_s), c->name, &c->images_per_s));
    TRY(measure(r, offsetof(struct study_sample, wall), c->name, &c->wall));
    TRY(measure(r, offsetof(struct study_sample, seconds), c->name, &c->seconds));
    TRY(measure(r, offsetof(struct study_sample, top1), c->name, &c->top1_runs));
    c->top1 = c->top1_runs.median;
    c->top5 = median(r, offsetof(struct study_sample, top5));
    c->comm_busy_s = median(r, offsetof(struct study_sample, comm_busy_s));
    c->behind = median(r, offsetof(struct study_sample, behind));
    c->io.bytes_per_s = median(r, offsetof(struct study_sample, io.bytes_per_s));
    c->io.files_per_s = median(r, offsetof(struct study_sample, io.files_per_s));
    c->io.storage_bytes_per_s = median(r, offsetof(struct study_sample, io.storage_bytes_per_s));
    c->io.device_bytes_per_s = median(r, offsetof(struct study_sample, io.device_bytes_per_s));
    c->io.cached_percent = median(r, offsetof(struct study_sample, io.cached_percent));
    split(r, c);
    /* Finds the rank that is the slowest in most repeats. */
    int64_t most = 0;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t times = 0;
        for (int64_t j = 0; j < r->n; j++)
            times += r->sample[j].slowest_rank == r->sample[i].slowest_rank;
        if (times > most)
            c->slowest_rank = r->sample[i].slowest_rank;
        most = times > most ? times : most;
    }
    c->system = r->sample[0].system; /* these are the same in all repeats */
    if (c->system.accumulate > 1 && c->system.accumulate <= INT32_MAX)
        c->batch *= c->system.accumulate;
    c->emulated = r->sample[0].emulated;
    for (int64_t i = 0; i < r->n; i++)
        conditions_add(&c->conditions, &r->sample[i].conditions);
    c->conditions.from[0] = c->conditions.to[0] = '\0';
    c->conditions.others = median(r, offsetof(struct study_sample, conditions.others));
    return join_curves(r, c);
}

/* ---- series ---- */

/* The batch that all cells of a series share: per device (weak scaling) or over all devices (strong
 * scaling). */
static int64_t kept_batch(const struct study_cell *c, enum analysis_scaling s)
{
    return s == ANALYSIS_WEAK ? c->batch / c->devices : c->batch;
}

/* Whether the series of scaling `s` whose last cell is `last` has the cell `c`. */
static bool in_series(const struct study_cell *last, enum analysis_scaling s,
                      const struct study_cell *c)
{
    return (c->mode == STUDY_ND || (c->mode == last->mode && c->in[s])) &&
           strcmp(c->precision, last->precision) == 0 && strcmp(c->arch, last->arch) == 0 &&
           c->data == last->data && kept_batch(c, s) == kept_batch(last, s);
}

/* Adds the series of scaling `s` whose last cell is cell `last`, if no other cell of such a series
 * has more devices. In the plan, cells of one device come first, and the cells of a mode are sorted
 * by number of devices. A cell alone is one series, not one for each scaling. */
static enum status add_series(const struct study_plan *plan, int64_t last, enum analysis_scaling s,
                              struct analysis *a)
{
    const struct study_cell *l = &plan->cell[last];
    struct analysis_series *series = &a->series[a->n_series];
    if (l->devices == 1 || !l->in[s])
        return STATUS_OK;
    for (int64_t i = last + 1; i < plan->n_cells; i++)
        if (plan->cell[i].devices > l->devices && in_series(l, s, &plan->cell[i]))
            return STATUS_OK;
    TRY(array_new(&series->cell, a->n_cells));
    a->n_series++;
    for (int64_t i = 0; i < plan->n_cells; i++)
        if (in_series(l, s, &plan->cell[i]))
            series->cell[series->n++] = i;
    if (series->n == 1 && l->scaling != s) {
        free(series->cell);
        *series = (struct analysis_series){0};
        a->n_series--;
    }
    return STATUS_OK;
}

static void speed_up(const struct analysis_cell *base, struct analysis_cell *c)
{
    double factor = (double)c->devices / (double)base->devices;
    c->speedup = c->images_per_s.median / base->images_per_s.median;
    c->speedup_wall = c->wall.median / base->wall.median;
    c->efficiency = c->speedup / factor;
    c->efficiency_wall = c->speedup_wall / factor;
}

static enum status make_series(const struct study_plan *plan, struct analysis *a)
{
    TRY(array_new(&a->series, 2 * a->n_cells));
    for (int64_t i = 0; i < a->n_cells; i++) {
        TRY(add_series(plan, i, ANALYSIS_WEAK, a));
        TRY(add_series(plan, i, ANALYSIS_STRONG, a));
    }
    for (int64_t k = a->n_series - 1; k >= 0; k--) /* the first series of a cell counts */
        for (int64_t i = 0; i < a->series[k].n; i++)
            speed_up(&a->cell[a->series[k].cell[0]], &a->cell[a->series[k].cell[i]]);
    return STATUS_OK;
}

enum status study_analyse(const struct study_plan *plan, const struct study_result *result,
                          struct analysis *a)
{
    enum status st;
    *a = (struct analysis){
        .machine = json_object(), .conditions = conditions_none, .n_cells = plan->n_cells};
    snprintf(a->study, sizeof a->study, "%s", plan->spec->name);
    snprintf(a->about, sizeof a->about, "%s", plan->spec->about);
    const struct study_thresholds *t = &study_thresholds;
    a->thresholds = json_new("{s:f, s:f, s:f, s:f, s:f, s:f}", "loader_loss", t->loader_loss,
                             "data_share", t->data_share, "comm_loss", t->comm_loss, "behind",
                             t->behind, "compute_share", t->compute_share, "noise", t->noise);
    CHECK(array_new(&a->cell, plan->n_cells));
    for (int64_t i = 0; i < plan->n_cells; i++) {
        describe(&plan->cell[i], &a->cell[i]);
        CHECK(cell_numbers(&result[i], &a->cell[i]));
        for (int64_t k = 0; k < result[i].n; k++)
            conditions_add(&a->conditions, &result[i].sample[k].conditions);
    }
    CHECK(make_series(plan, a));
    CHECK(study_judge(result, &study_thresholds, a));
done:
    if (st != STATUS_OK)
        analysis_free(a);
    return st;
}
