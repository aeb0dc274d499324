/* Computes estimates, tests and verdicts from the values of two sides. */
#include "compare/compare_verdict.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/text.h"
#include "compare/significance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define INTERVAL_LEVEL 0.95

const char *compare_verdict_str(enum compare_verdict v)
{
    static const char *const names[] = {
        [COMPARE_EQUIVALENT] = "equivalent",
        [COMPARE_NOT_WORSE] = "no regression",
        [COMPARE_INCONCLUSIVE] = "inconclusive",
        [COMPARE_BETTER] = "better",
        [COMPARE_WORSE] = "worse",
        [COMPARE_REGRESSION] = "REGRESSION",
        [COMPARE_SMALL] = "too small to judge",
        [COMPARE_FEW] = "not enough repeats",
    };
    return names[v];
}

bool compare_passed(const struct compare_report *r)
{
    return r->verdicts[COMPARE_REGRESSION] == 0 && r->undecided == 0 && r->inconclusive == 0 &&
           r->refused == 0 && r->incomplete == 0;
}

struct compare_config compare_defaults(void)
{
    struct compare_config c = {.alpha = 0.01};
    for (int i = 0; i < METRICS; i++)
        c.threshold[i] = 0.03;
    static const enum metric_id gating[] = {
        METRIC_IMAGES_PER_S_MEAN, METRIC_IMAGES_PER_S, METRIC_VAL_TOP1,
        METRIC_SAMPLES,           METRIC_TOKENS,       METRIC_LOSS};
    for (size_t i = 0; i < sizeof gating / sizeof *gating; i++)
        c.role[gating[i]] = COMPARE_OPTION;
    return c;
}

void compare_report_free(struct compare_report *r)
{
    for (int64_t i = 0; i < r->n_cells; i++)
        json_decref(r->cell[i].differences);
    free(r->cell);
    *r = (struct compare_report){0};
}

/* Copies the finite values of a metric to x, and returns their number. */
static int64_t values_of(const struct repeats *r, enum metric_id id, double *x)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (isfinite(r->repeat[i].value[id]))
            x[n++] = r->repeat[i].value[id];
    return n;
}

/* Sets `d` to log(new / base) of each pair. Returns false if a run lacks the metric, or if a value
 * is not above 0. */
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

/* Computes the estimate, except the ratio, from the values x[0..n) of the base and y[0..m) of the
 * new side, where n, m >= 1. */
static enum status estimate_sides(const double *x, int64_t n, const double *y, int64_t m,
                                  struct compare_estimate *e)
{
    struct rank_test test;
    TRY(mann_whitney(x, n, y, m, &test));
    TRY(stats_ratio_interval(x, n, y, m, INTERVAL_LEVEL, COMPARE_RESAMPLES, COMPARE_SEED, &e->low,
                             &e->high));
    e->p = test.p;
    e->exact = test.exact;
    e->least_p = mann_whitney_least(n, m);
    return STATUS_OK;
}

/* Computes the estimate from the logarithms d[0..n) of the ratios of pairs. */
static enum status estimate_pairs(const double *d, int64_t n, struct compare_estimate *e)
{
    struct rank_test test;
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

/* Computes the numbers of one metric, without its verdict. Sets *some to false if the base lacks
 * the metric, or if the metric belongs to a part of a step that the runs do not have. */
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
        /* If the metric belongs to a part of a step that these runs do not have, all values of the
         * metric are 0. */
        *some = !metrics[r->metric].part || r->base.max != 0 || r->new.max != 0;
        TRY(estimate_sides(x, n, y, m, &r->sides));
        r->sides.ratio = ratio_of(r->base.median, r->new.median);
    }
    r->is = r->sides;
    if (pairs && n > 0 && m > 0 && differences_of(base, new, id, x))
        TRY(estimate_pairs(x, n, &r->is));
    return STATUS_OK;
}

/* Adds to c->missing the runs that lack a gating metric, because such runs must not be ignored. For
 * example, a run that did not reach an accuracy has no time to accuracy; without this run, its side
 * would look faster. */
static void add_lacking(struct compare_cell *c, const struct compare_result *r,
                        enum compare_role role)
{
    int64_t runs = c->side[0].runs, new_runs = c->side[1].runs;
    int64_t base = runs - r->base.n, new = new_runs - r->new.n;
    if (role != COMPARE_INFORMATIONAL && base + new > 0)
        text_join(c->missing, sizeof c->missing, "; ",
                  "%s is missing in %" PRId64 " of %" PRId64 " runs of the base and in %" PRId64
                  " of %" PRId64 " new runs",
                  metrics[r->metric].name, base, runs, new, new_runs);
}

enum status judge_measure(const struct repeats *base, const struct repeats *new,
                          const struct compare_config *config, struct compare_cell *c)
{
    bool decides = false;
    for (int id = 0; id < METRICS; id++) {
        struct compare_result r;
        bool some;
        if (metrics[id].accuracy && !c->ended_alike) {
            if (config->role[id] == COMPARE_DECIDES)
                text_join(c->missing, sizeof c->missing, "; ",
                          "%s cannot be judged: the runs ended for different reasons",
                          metrics[id].name);
            continue;
        }
        TRY(measure(base, new, (enum metric_id)id, config, c->turns, &r, &some));
        if (!some && config->role[id] == COMPARE_DECIDES)
            text_join(c->missing, sizeof c->missing, "; ", "no value of %s to compare",
                      metrics[id].name);
        if (!some)
            continue;
        enum compare_role role = config->role[id];
        if (id == METRIC_IMAGES_PER_S_MEAN && role == COMPARE_OPTION &&
            r.base.n + r.new.n < base->n + new->n) /* paused, or in an older history */
            role = COMPARE_INFORMATIONAL;
        add_lacking(c, &r, role);
        bool small = is_small(c, &r) && role != COMPARE_DECIDES;
        r.verdict = small ? COMPARE_SMALL : COMPARE_INCONCLUSIVE;
        r.decides = role != COMPARE_INFORMATIONAL && !small;
        c->result[c->n_results++] = r;
        decides = decides || r.decides;
    }
    if (!decides)
        text_join(c->missing, sizeof c->missing, "; ",
                  "no gating metric to compare; --metric NAME chooses one");
    return STATUS_OK;
}

/* The p of a gating result, which is corrected; INFINITY if there is none. */
static double gating_p(const struct compare_result *r)
{
    return r->decides && isfinite(r->is.p) ? r->is.p : INFINITY;
}

static int by_p(const void *a, const void *b)
{
    double x = gating_p(*(struct compare_result *const *)a),
           y = gating_p(*(struct compare_result *const *)b);
    return (x > y) - (x < y);
}

/* Corrects the p of the gating results by Hochberg's method. The i-th smallest p, counted from 0,
 * is multiplied by m - i, and limited to 1 and to the next larger result's corrected p. m includes
 * the results without a p, because their p might have been the largest. */
static void correct(struct compare_result **result, int64_t n, int m)
{
    double most = 1;
    qsort(result, (size_t)n, sizeof(struct compare_result *), by_p);
    for (int64_t i = n - 1; i >= 0; i--) {
        bool gating = isfinite(gating_p(result[i]));
        if (gating)
            most = fmin(most, (double)(m - i) * result[i]->is.p);
        result[i]->corrected_p = gating ? most : result[i]->is.p;
    }
}

/* Returns the verdict on a change that is not significant, or that is within the threshold. */
static enum compare_verdict verdict_of_interval(const struct compare_result *r)
{
    bool low_within = r->is.low >= 1 - r->threshold, /* false for NaN */
        high_within = r->is.high <= 1 + r->threshold;
    bool not_worse = metrics[r->metric].more_is_better ? low_within : high_within;
    /* If all runs of both sides have the same value, there is nothing to estimate. */
    bool constant =
        r->base.min == r->base.max && r->new.min == r->new.max && r->base.min == r->new.min;
    if (constant || (low_within && high_within))
        return COMPARE_EQUIVALENT;
    return not_worse ? COMPARE_NOT_WORSE : COMPARE_INCONCLUSIVE;
}

static enum compare_verdict verdict_of(const struct compare_result *r,
                                       const struct compare_report *report)
{
    double worse = metrics[r->metric].more_is_better ? 1 - r->is.ratio : r->is.ratio - 1;
    if (r->verdict == COMPARE_SMALL)
        return COMPARE_SMALL;
    if (r->base.n < COMPARE_LEAST_REPEATS || r->new.n < COMPARE_LEAST_REPEATS ||
        r->is.least_p >= report->alpha)
        return COMPARE_FEW;
    if (r->corrected_p >= report->alpha || fabs(worse) <= r->threshold)
        return verdict_of_interval(r);
    if (worse < 0)
        return COMPARE_BETTER;
    return r->decides ? COMPARE_REGRESSION : COMPARE_WORSE;
}

/* The distance from the ratio to an end of the interval is 1.96 standard errors. If the ratio is
 * 1.96 + 0.84 standard errors away from the threshold, the interval of new runs excludes the
 * threshold with a chance of 80 %. */
int64_t compare_deciding_runs(const struct compare_report *report, const struct compare_result *r)
{
    const double errors = (1.96 + 0.84) / 1.96;
    bool more = metrics[r->metric].more_is_better;
    double ratio = log(r->is.ratio), bound = log(more ? r->is.low : r->is.high),
           limit = more ? log1p(-r->threshold) : log1p(r->threshold);
    double runs = (double)(r->base.n < r->new.n ? r->base.n : r->new.n);
    double needed = ceil(runs * pow(errors * (bound - ratio) / (limit - ratio), 2));
    if (!isfinite(bound))
        return 0;
    needed = fmax(fmax(needed, runs + 1), (double)compare_enough_repeats(report));
    return needed < COMPARE_RUNS_MANY ? (int64_t)needed : COMPARE_RUNS_MANY;
}

int64_t compare_enough_repeats(const struct compare_report *report)
{
    int family = report->family > 0 ? report->family : 1;
    int64_t n = COMPARE_LEAST_REPEATS;
    while (
        (report->pairing == COMPARE_PAIR_ALWAYS ? signed_rank_least(n) : mann_whitney_least(n, n)) *
            family >=
        report->alpha)
        n++;
    return n;
}

/* If there are too few pairs for a p below alpha, uses the estimate without pairs. The least p of
 * that estimate is smaller, because there are C(2n, n) ways to split the runs but only 2^n ways to
 * choose the signs of n pairs. `least_p` counts if no other result is significant. */
static void choose(struct compare_result *r, const struct compare_report *report)
{
    double least = r->is.least_p * (r->decides ? report->family : 1);
    if (report->pairing != COMPARE_PAIR_ALWAYS && least >= report->alpha)
        r->is = r->sides;
}

enum status judge_report(struct compare_report *report)
{
    struct compare_result **all;
    int64_t n = 0;
    TRY(array_new(&all, report->n_cells * METRICS));
    for (int64_t i = 0; i < report->n_cells; i++) {
        struct compare_cell *c = &report->cell[i];
        report->refused += json_object_size(c->differences) > 0;
        report->incomplete += *c->missing != '\0';
        for (int k = 0; k < c->n_results; k++) {
            report->family += c->result[k].decides;
            all[n++] = &c->result[k];
        }
    }
    for (int64_t i = 0; i < n; i++)
        choose(all[i], report);
    correct(all, n, report->family);
    for (int64_t i = 0; i < n; i++) {
        struct compare_result *r = all[i];
        r->verdict = verdict_of(r, report);
        if (r->verdict == COMPARE_INCONCLUSIVE)
            r->deciding_runs = compare_deciding_runs(report, r);
        report->verdicts[r->verdict]++;
        report->undecided += r->decides && r->verdict == COMPARE_FEW;
        report->inconclusive += r->decides && r->verdict == COMPARE_INCONCLUSIVE;
    }
    free(all);
    return STATUS_OK;
}
