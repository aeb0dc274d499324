/* Finds steps in a series. */
#include "compare/trend.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "compare/compare_verdict.h"
#include "compare/significance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct search {
    const double *x;
    double alpha;
    double inflation;           /* of the statistic, because neighbouring points are correlated */
    double *score, *room, *sum; /* (n), (n), (n + 1) */
    struct trend_step *step;
    int64_t n_steps;
};

static double median_of(const struct search *s, int64_t from, int64_t to)
{
    memcpy(s->room, s->x + from, (size_t)(to - from) * sizeof *s->room);
    return stats_median(s->room, to - from);
}

/* Returns the standard deviation of the normal noise whose differences of neighbours have the
 * median of those of [from, to). A few steps and outliers hardly affect it. */
static double noise_of(const struct search *s, int64_t from, int64_t to)
{
    for (int64_t i = from; i + 1 < to; i++)
        s->room[i - from] = fabs(s->x[i + 1] - s->x[i]);
    return 1.4826 / sqrt(2) * stats_median(s->room, to - from - 1);
}

/* Returns the factor by which the correlation of neighbours increases the variance of a mean:
 * (1 + r) / (1 - r) for first-order autoregression. 1 + r is the mean square of differences over
 * two points, divided by that over one; large differences, as at steps, are limited. From r, twice
 * its standard error is subtracted, because too large an r hides steps. */
static double inflation_of(const struct search *s, int64_t n)
{
    double limit = 2 * sqrt(2) * noise_of(s, 0, n), one = 0, two = 0;
    for (int64_t i = 0; i + 2 < n; i++) {
        one += pow(fmin(fabs(s->x[i + 1] - s->x[i]), limit), 2);
        two += pow(fmin(fabs(s->x[i + 2] - s->x[i]), limit), 2);
    }
    double r = one > 0 ? fmin(fmax(two / one - 1 - 2 / sqrt((double)n), 0), 0.9) : 0;
    return (1 + r) / (1 - r);
}

/* Sets the scores of [from, to): distances from the median, limited to three times the noise so
 * that an outlier has little weight; their signs if there is no noise. Makes their mean 0. */
static void score_points(const struct search *s, int64_t from, int64_t to)
{
    double noise = noise_of(s, from, to), median = median_of(s, from, to), sum = 0;
    for (int64_t i = from; i < to; i++) {
        double d = s->x[i] - median;
        d = noise > 0 ? fmin(fmax(d / noise, -3), 3) : (d > 0) - (d < 0);
        s->score[i - from] = d;
        sum += d;
    }
    for (int64_t i = 0; i < to - from; i++)
        s->score[i] -= sum / (double)(to - from);
}

/* Finds the part [*from, *to) of n scores whose mean differs most from the mean of the others, and
 * returns the square of the standardised difference, up to a factor that shuffling does not change.
 * The part ends at n (one cut) or lies inside (two cuts). Of parts inside there are many more, so
 * that chance makes their statistic larger: the factor 0.6 balances this. Their lengths and places
 * are on a grid, which is coarser for longer parts. */
static double best_part(const struct search *s, int64_t n, int64_t *from, int64_t *to)
{
    double best = 0, *sum = s->sum;
    int64_t grid = TREND_LEAST;
    sum[0] = 0;
    for (int64_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + s->score[i];
    for (int64_t k = TREND_LEAST; k <= n - TREND_LEAST; k++) {
        double most = fabs(sum[n - k]), inside = 0, weight = 1 / ((double)k * (double)(n - k));
        int64_t at = 0;
        for (int64_t i = TREND_LEAST; k == grid && i <= n - k - TREND_LEAST; i += 1 + k / 16) {
            double d = fabs(sum[i + k] - sum[i]);
            at = d > inside ? i : at;
            inside = fmax(d, inside);
        }
        grid += k == grid ? 1 + k / 8 : 0;
        bool single = most * most >= 0.6 * inside * inside;
        double z = weight * (single ? most * most : 0.6 * inside * inside);
        if (z > best) {
            best = z;
            *from = single ? n - k : at;
            *to = *from + k;
        }
    }
    return best;
}

static void shuffle(double *v, int64_t n, struct rng *rng)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = rng_below(rng, (uint32_t)i + 1);
        double other = v[k];
        v[k] = v[i];
        v[i] = other;
    }
}

/* Cuts [from, to) at the ends of its best part if that is significant, and searches all parts. */
static void search(struct search *s, int64_t from, int64_t to)
{
    int64_t n = to - from, begin, end, any[2];
    int as_large = 0;
    if (n < 2 * TREND_LEAST)
        return;
    score_points(s, from, to);
    double found = best_part(s, n, &begin, &end) / s->inflation;
    for (int i = 0; i < TREND_SHUFFLES && 1 + as_large < s->alpha * (1 + TREND_SHUFFLES); i++) {
        struct rng rng = rng_at(COMPARE_SEED, RNG_BOOTSTRAP, (uint64_t)i, (uint64_t)from);
        shuffle(s->score, n, &rng);
        as_large += best_part(s, n, &any[0], &any[1]) >= found;
    }
    double p = (1.0 + as_large) / (1 + TREND_SHUFFLES);
    if (p >= s->alpha || !(found > 0))
        return;
    search(s, from, from + begin);
    s->step[s->n_steps++] = (struct trend_step){.at = from + begin, .p = p};
    search(s, from + begin, from + end);
    if (end == n)
        return;
    s->step[s->n_steps++] = (struct trend_step){.at = from + end, .p = p};
    search(s, from + end, to);
}

/* The parts before and after step i: [*from, step[i].at) and [step[i].at, *to). */
static void sides(const struct search *s, int64_t i, int64_t n, int64_t *from, int64_t *to)
{
    *from = i > 0 ? s->step[i - 1].at : 0;
    *to = i + 1 < s->n_steps ? s->step[i + 1].at : n;
}

/* Moves step i, which is near its place, to the cut between its neighbours with the least sum of
 * distances of all points from the medians of the two parts. Returns whether it moved. */
static bool place(const struct search *s, int64_t i, int64_t n)
{
    int64_t from, to, at = s->step[i].at;
    double gain = 0, most = 0;
    sides(s, i, n, &from, &to);
    double before = median_of(s, from, at), behind = median_of(s, at, to);
    for (int64_t k = from; k < to - 1; k++) {
        gain += fabs(s->x[k] - behind) - fabs(s->x[k] - before);
        if (gain > most) {
            most = gain;
            s->step[i].at = k + 1;
        }
    }
    return s->step[i].at != at;
}

/* Whether [from, to) can be one side of a step: it has TREND_SURE points, or TREND_LEAST that all
 * differ by more than `far` from the level of the other side, in the same direction. */
static bool is_side(const struct search *s, int64_t from, int64_t to, double other, double far)
{
    int64_t n = to - from, above = 0, below = 0;
    for (int64_t i = from; i < to && n < TREND_SURE; i++) {
        above += s->x[i] - other > far;
        below += other - s->x[i] > far;
    }
    return n >= TREND_SURE || (n >= TREND_LEAST && (above == n || below == n));
}

/* Sets the ratio of step i. Returns whether the step can be reported: its change is above the
 * threshold, and both sides have enough points. */
static bool measure(const struct search *s, int64_t i, int64_t n, double threshold)
{
    int64_t from, to, at = s->step[i].at;
    sides(s, i, n, &from, &to);
    double before = median_of(s, from, at), behind = median_of(s, at, to);
    double far = 3 * noise_of(s, from, to);
    s->step[i].ratio = ratio_of(before, behind);
    return fabs(s->step[i].ratio - 1) > threshold && is_side(s, from, at, behind, far) &&
           is_side(s, at, to, before, far);
}

/* Places the steps. Returns the smallest step that cannot be reported, or -1. */
static int64_t smallest(struct search *s, int64_t n, double threshold)
{
    int64_t least = -1;
    bool moved = true;
    for (int round = 0; moved && round < 10; round++) {
        moved = false;
        for (int64_t i = 0; i < s->n_steps; i++)
            moved = place(s, i, n) || moved;
    }
    for (int64_t i = 0; i < s->n_steps; i++)
        if (!measure(s, i, n, threshold) &&
            (least < 0 || fabs(s->step[i].ratio - 1) < fabs(s->step[least].ratio - 1)))
            least = i;
    return least;
}

enum status trend_find(const double *x, int64_t n, double alpha, double threshold,
                       struct trend_step *step, int64_t *n_steps)
{
    struct search s = {.x = x, .alpha = alpha, .step = step};
    enum status st = STATUS_OK;
    *n_steps = 0;
    if (n < 2 * TREND_SURE)
        return STATUS_OK;
    TRY(array_new(&s.score, 3 * n + 1));
    s.room = s.score + n;
    s.sum = s.room + n;
    s.inflation = inflation_of(&s, n);
    search(&s, 0, n);
    /* After each removal the others are placed and measured again, because the parts before and
     * after the removed step have become one part. */
    for (int64_t i; (i = smallest(&s, n, threshold)) >= 0;)
        memmove(&step[i], &step[i + 1], (size_t)(--s.n_steps - i) * sizeof *step);
    for (int64_t i = 0, from, to; i < s.n_steps && st == STATUS_OK; i++) {
        sides(&s, i, n, &from, &to);
        st =
            stats_ratio_interval(x + from, step[i].at - from, x + step[i].at, to - step[i].at, 0.95,
                                 COMPARE_RESAMPLES, COMPARE_SEED, &step[i].low, &step[i].high);
    }
    *n_steps = s.n_steps;
    free(s.score);
    return st;
}
