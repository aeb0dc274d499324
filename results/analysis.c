/* Names the enum constants of an analysis, makes a cell without results, and frees an analysis. */
#include "results/analysis.h"

#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const part_names[ANALYSIS_PARTS] = {
    [ANALYSIS_DATA] = "data_s",       [ANALYSIS_H2D] = "h2d_s",
    [ANALYSIS_FORWARD] = "forward_s", [ANALYSIS_BACKWARD] = "backward_s",
    [ANALYSIS_COMM] = "comm_s",       [ANALYSIS_OPTIMIZER] = "optimizer_s",
    [ANALYSIS_OTHER] = "other_s",
};

const char *analysis_part_str(enum analysis_part p)
{
    return part_names[p];
}

const char *analysis_scaling_str(enum analysis_scaling s)
{
    return s == ANALYSIS_WEAK ? "weak" : "strong";
}

struct analysis_cell analysis_cell_unknown(void)
{
    struct analysis_measure none = {.median = NAN, .low = NAN, .high = NAN};
    struct analysis_cell c = {.images_per_s = none,
                              .wall = none,
                              .seconds = none,
                              .top1_runs = none,
                              .top1 = NAN,
                              .top5 = NAN,
                              .speedup = NAN,
                              .speedup_wall = NAN,
                              .efficiency = NAN,
                              .efficiency_wall = NAN,
                              .comm_busy_s = NAN,
                              .slowest_rank = -1,
                              .behind = NAN,
                              .io = {NAN, NAN, NAN, NAN, NAN},
                              .conditions = conditions_none};
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        c.split[p] = NAN;
    return c;
}

enum status analysis_ratio_interval(const struct analysis_measure *of,
                                    const struct analysis_measure *to, double *low, double *high)
{
    enum { RESAMPLES = 2000, SEED = 1 };
    *low = *high = NAN;
    if (of->n < 2 || to->n < 2)
        return STATUS_OK;
    return stats_ratio_interval(to->values, to->n, of->values, of->n, 0.95, RESAMPLES, SEED, low,
                                high);
}

enum analysis_scaling analysis_series_scaling(const struct analysis *a, int64_t i)
{
    const struct analysis_series *s = &a->series[i];
    const struct analysis_cell *first = &a->cell[s->cell[0]], *last = &a->cell[s->cell[s->n - 1]];
    if (first == last)
        return last->scaling;
    return first->batch == last->batch ? ANALYSIS_STRONG : ANALYSIS_WEAK;
}

const struct analysis_cell *analysis_base(const struct analysis *a,
                                          const struct analysis_cell *cell)
{
    for (int64_t i = 0; i < a->n_series; i++)
        for (int64_t k = 1; k < a->series[i].n; k++)
            if (&a->cell[a->series[i].cell[k]] == cell)
                return &a->cell[a->series[i].cell[0]];
    return NULL;
}

const struct analysis_cell *analysis_synthetic(const struct analysis *a,
                                               const struct analysis_cell *cell)
{
    for (const struct analysis_cell *p = a->cell; p < a->cell + a->n_cells; p++)
        if (!p->real && !*p->missing && strcmp(p->mode, cell->mode) == 0 &&
            strcmp(p->precision, cell->precision) == 0 && strcmp(p->arch, cell->arch) == 0 &&
            p->devices == cell->devices && p->batch == cell->batch)
            return p;
    return NULL;
}

double analysis_step_s(const struct analysis_cell *c)
{
    double step_s = 0;
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        step_s += c->split[p];
    return step_s;
}

enum status analysis_scaling(const struct analysis *a, const struct analysis_cell *cell, bool wall,
                             struct scaling *s)
{
    const struct analysis_cell *base = analysis_base(a, cell);
    double speedup = wall ? cell->speedup_wall : cell->speedup;
    double efficiency = wall ? cell->efficiency_wall : cell->efficiency;
    *s = (struct scaling){speedup, NAN, NAN, 100 * efficiency, NAN, NAN};
    if (!base)
        return STATUS_OK;
    TRY(analysis_ratio_interval(wall ? &cell->wall : &cell->images_per_s,
                                wall ? &base->wall : &base->images_per_s, &s->low, &s->high));
    double per_device = 100 * (double)base->devices / (double)cell->devices;
    s->efficiency_low = s->low * per_device;
    s->efficiency_high = s->high * per_device;
    return STATUS_OK;
}

bool analysis_disturbed(const struct analysis_cell *c)
{
    return c->conditions.disturbed > 0 && 2 * c->conditions.disturbed >= c->conditions.runs;
}

const char *analysis_precision_label(const struct analysis_cell *c, char out[ANALYSIS_TEXT_SIZE])
{
    snprintf(out, ANALYSIS_TEXT_SIZE, "%s%s", c->precision, c->emulated ? " (emulated)" : "");
    return out;
}

const char *analysis_name_label(const struct analysis_cell *c, char out[ANALYSIS_TEXT_SIZE])
{
    static const char *const marks[2][2] = {{"", " (disturbed)"},
                                            {" (emulated)", " (emulated, disturbed)"}};
    snprintf(out, ANALYSIS_TEXT_SIZE, "%s%s", c->name,
             marks[c->emulated][c->conditions.disturbed > 0]);
    return out;
}

const char *analysis_verdict_label(const struct analysis *a, const struct analysis_cell *c,
                                   char out[ANALYSIS_TEXT_SIZE])
{
    snprintf(out, ANALYSIS_TEXT_SIZE, "%s", *c->missing ? "missing" : c->verdict);
    /* Earlier versions did not compare all cells with one device. */
    if (strcmp(c->verdict, "compute-bound") == 0 &&
        1 - c->efficiency >= json_number_at(a->thresholds, "comm_loss"))
        text_append(out, ANALYSIS_TEXT_SIZE, ", %.0f %% lost", 100 * (1 - c->efficiency));
    if (c->conditions.disturbed > 0 && strcmp(c->verdict, "disturbed") != 0)
        text_append(out, ANALYSIS_TEXT_SIZE, ", %" PRId64 " of %" PRId64 " runs disturbed",
                    c->conditions.disturbed, c->conditions.runs);
    return out;
}

void analysis_free(struct analysis *a)
{
    for (int64_t i = 0; a->series && i < a->n_series; i++)
        free(a->series[i].cell);
    free(a->series);
    for (int64_t i = 0; a->cell && i < a->n_cells; i++)
        free(a->cell[i].epoch);
    free(a->cell);
    json_decref(a->machine);
    json_decref(a->thresholds);
    *a = (struct analysis){0};
}
