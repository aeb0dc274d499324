/* The conditions of runs, and what follows from the cells of an analysis. */
#include "results/analysis.h"

#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "results/noise.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct conditions conditions_none = {.others = NAN};

bool conditions_is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    size_t n = strlen(text);
    if (n != sizeof form - 1)
        return false;
    for (size_t i = 0; i < n; i++)
        if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    return true;
}

static void take_time(char out[CONDITIONS_TIME_SIZE], const char *text)
{
    if (conditions_is_time(text))
        snprintf(out, CONDITIONS_TIME_SIZE, "%s", text);
}

struct conditions conditions_of(const struct run *run)
{
    struct conditions c = conditions_none;
    char reason[NOISE_TEXT_MAX];
    c.runs = 1;
    take_time(c.from, json_text_at(run->info, "started"));
    take_time(c.to, json_text_at(run->summary, "finished"));
    if (!json_object_get(run->summary, "noise"))
        return c;
    c.recorded = 1;
    c.disturbed = noise_recorded(run->summary, reason);
    c.others = host_noise_read(run->summary).others;
    return c;
}

void conditions_add(struct conditions *all, const struct conditions *other)
{
    if (*other->from && (!*all->from || strcmp(other->from, all->from) < 0))
        memcpy(all->from, other->from, sizeof all->from);
    if (*other->to && strcmp(other->to, all->to) > 0)
        memcpy(all->to, other->to, sizeof all->to);
    all->runs += other->runs;
    all->recorded += other->recorded;
    all->disturbed += other->disturbed;
    all->others = fmax(all->others, other->others); /* of a number and NAN, the number */
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
