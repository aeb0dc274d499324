/* From the values of two sides to verdicts. */
#include "compare/verdict.h"

#include "compare/paired.h"
#include "compare/significance.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_LEVEL 0.95

void cell_lacks(struct compare_cell *c, const char *fmt, ...)
{
    size_t at = strlen(c->missing);
    va_list args;
    if (at > 0)
        at += (size_t)snprintf(c->missing + at, sizeof c->missing - at, "; ");
    if (at >= sizeof c->missing)
        return;
    va_start(args, fmt);
    vsnprintf(c->missing + at, sizeof c->missing - at, fmt, args);
    va_end(args);
}

/* Those of the repeats that have the metric; returns how many. */
static int64_t values_of(const struct repeats *r, enum metric_id id, double *x)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (isfinite(r->repeat[i].value[id]))
            x[n++] = r->repeat[i].value[id];
    return n;
}

/* log(new / base) of each pair; false where a run lacks the metric, or it is not above 0. */
static bool differences_of(const struct repeats *base, const struct repeats *new, enum metric_id id,
                           double *d)
{
    for (int64_t i = 0; i < base->n; i++) {
        double x = base->repeat[i].value[id], y = new->repeat[i].value[id];
        if (!(x > 0 && y > 0 && isfinite(x) && isfinite(y)))
            return false;
        d[i] = log(y / x);
    }
    return true;
}

/* Of x[0..n) of the base and y[0..m) of the new side, one at least on either. */
static enum status estimate_sides(const double *x, int64_t n, const double *y, int64_t m,
                                  struct compare_estimate *e)
{
    struct mann_whitney test;
    struct stats base, new;
    TRY(stats_of(x, n, &base));
    TRY(stats_of(y, m, &new));
    TRY(mann_whitney(x, n, y, m, &test));
    TRY(ratio_interval(x, n, y, m, INTERVAL_LEVEL, COMPARE_RESAMPLES, COMPARE_SEED, &e->low,
                       &e->high));
    e->ratio = ratio_of(base.median, new.median);
    e->p = test.p;
    e->exact = test.exact;
    e->least_p = mann_whitney_least(n, m);
    return STATUS_OK;
}

/* Of the logarithms d[0..n) of the ratios of pairs. */
static enum status estimate_pairs(const double *d, int64_t n, struct compare_estimate *e)
{
    struct signed_rank test;
    double center, low, high;
    TRY(signed_rank(d, n, &test));
    TRY(hodges_lehmann(d, n, INTERVAL_LEVEL, &center, &low, &high));
    *e = (struct compare_estimate){.paired = true,
                                   .ratio = exp(center),
                                   .low = exp(low),
                                   .high = exp(high),
                                   .p = test.p,
                                   .exact = test.exact,
                                   .least_p = signed_rank_least(n)};
    return STATUS_OK;
}

/* A part of a step that these runs do not have. Parts come after the step that they belong to. */
static bool is_absent(const struct compare_result *r)
{
    return metrics[r->metric].part && r->base.max == 0 && r->new.n > 0 && r->new.max == 0;
}

static bool is_small(const struct compare_cell *c, const struct compare_result *r)
{
    const struct compare_result *step = NULL;
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].metric == METRIC_STEP)
            step = &c->result[i];
    return step && metrics[r->metric].part &&
           r->base.median < COMPARE_LEAST_SHARE * step->base.median &&
           r->new.median < COMPARE_LEAST_SHARE * step->new.median;
}

/* What can be said of one metric, the verdict aside; *some is false where the base has nothing to
 * hold against. */
static enum status measure(const struct repeats *base, const struct repeats *new, enum metric_id id,
                           const struct compare_config *config, bool pairs,
                           struct compare_result *r, bool *some)
{
    double x[REPEATS_MAX], y[REPEATS_MAX];
    const struct stats nothing = {.median = NAN};
    *r = (struct compare_result){.metric = id,
                                 .base = nothing,
                                 .new = nothing,
                                 .sides = {false, NAN, NAN, NAN, NAN, false, 1},
                                 .threshold = config->threshold[id]};
    int64_t n = values_of(base, id, x), m = values_of(new, id, y);
    *some = n > 0;
    if (n > 0)
        TRY(stats_of(x, n, &r->base));
    if (m > 0)
        TRY(stats_of(y, m, &r->new));
    if (n > 0 && m > 0) {
        *some = !is_absent(r);
        TRY(estimate_sides(x, n, y, m, &r->sides));
    }
    r->is = r->sides;
    if (pairs && n > 0 && m > 0 && differences_of(base, new, id, x))
        TRY(estimate_pairs(x, n, &r->is));
    return STATUS_OK;
}

enum status judge_measure(const struct repeats *base, const struct repeats *new,
                          const struct compare_config *config, struct compare_cell *c)
{
    for (int id = 0; id < METRICS; id++) {
        struct compare_result r;
        bool some;
        if (id == METRIC_VAL_TOP1 && !c->ended_alike) {
            if (config->role[id] == COMPARE_DECIDES)
                cell_lacks(c, "%s of runs that did not end alike cannot be judged",
                           metrics[id].name);
            continue;
        }
        TRY(measure(base, new, (enum metric_id)id, config, c->turns, &r, &some));
        if (!some && config->role[id] == COMPARE_DECIDES)
            cell_lacks(c, "nothing to judge %s by", metrics[id].name);
        if (!some)
            continue;
        bool small = is_small(c, &r) && config->role[id] != COMPARE_DECIDES;
        r.verdict = small ? COMPARE_SMALL : COMPARE_SAME;
        r.decides = config->role[id] != COMPARE_TOLD && !small;
        c->result[c->n_results++] = r;
    }
    return STATUS_OK;
}

static int by_p(const void *a, const void *b)
{
    double x = (*(struct compare_result *const *)a)->is.p,
           y = (*(struct compare_result *const *)b)->is.p;
    return (x > y) - (x < y);
}

/* Holm's correction of what decides: the i-th smallest of m (from 0) times m - i, and none below
 * one before it. What has no p counts among the m, for nobody knows what it would have been. */
static void correct(struct compare_result **decides, int n, int m)
{
    double least = 0;
    qsort(decides, (size_t)n, sizeof(struct compare_result *), by_p);
    for (int i = 0; i < n; i++) {
        least = fmax(least, fmin(1, (m - i) * decides[i]->is.p));
        decides[i]->corrected_p = least;
    }
}

/* The smallest p that a result can have, once it is corrected. */
static double least_of(const struct compare_estimate *e, const struct compare_result *r,
                       const struct compare_report *report)
{
    return e->least_p * (r->decides ? report->family : 1);
}

static enum compare_verdict verdict_of(const struct compare_result *r,
                                       const struct compare_report *report)
{
    double worse = metrics[r->metric].more_is_better ? 1 - r->is.ratio : r->is.ratio - 1;
    if (r->verdict == COMPARE_SMALL)
        return COMPARE_SMALL;
    if (r->base.n < COMPARE_LEAST_REPEATS || r->new.n < COMPARE_LEAST_REPEATS ||
        least_of(&r->is, r, report) >= report->alpha)
        return COMPARE_FEW;
    if (r->corrected_p >= report->alpha || fabs(worse) <= r->threshold)
        return COMPARE_SAME;
    if (worse < 0)
        return COMPARE_BETTER;
    return r->decides ? COMPARE_REGRESSION : COMPARE_WORSE;
}

int64_t compare_enough_repeats(const struct compare_report *report)
{
    int family = report->family > 0 ? report->family : 1;
    int64_t n = COMPARE_LEAST_REPEATS;
    while ((report->pairs_only ? signed_rank_least(n) : mann_whitney_least(n, n)) * family >=
           report->alpha)
        n++;
    return n;
}

/* Lists what decides and has a p. Where too few pairs could come below alpha, as many runs a side
 * without pairs may: there are more ways to deal them out than signs to draw. */
static int choose(struct compare_report *report, struct compare_result **decides)
{
    int n = 0;
    for (int64_t i = 0; i < report->n_cells; i++)
        for (int k = 0; k < report->cell[i].n_results; k++) {
            struct compare_result *r = &report->cell[i].result[k];
            if (!report->pairs_only && least_of(&r->is, r, report) >= report->alpha)
                r->is = r->sides;
            r->corrected_p = r->is.p;
            if (r->decides && isfinite(r->is.p))
                decides[n++] = r;
        }
    return n;
}

enum status judge_report(struct compare_report *report)
{
    struct compare_result **decides =
        calloc((size_t)report->n_cells * METRICS + 1, sizeof *decides);
    if (!decides)
        return status_fail(STATUS_OOM, "no memory for verdicts");
    for (int64_t i = 0; i < report->n_cells; i++)
        for (int k = 0; k < report->cell[i].n_results; k++)
            report->family += report->cell[i].result[k].decides;
    int n = choose(report, decides);
    correct(decides, n, report->family);
    free(decides);
    for (int64_t i = 0; i < report->n_cells; i++)
        for (int k = 0; k < report->cell[i].n_results; k++) {
            struct compare_result *r = &report->cell[i].result[k];
            r->verdict = verdict_of(r, report);
            report->verdicts[r->verdict]++;
            report->undecided += r->decides && r->verdict == COMPARE_FEW;
        }
    return STATUS_OK;
}
