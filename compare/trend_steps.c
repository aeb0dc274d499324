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
    double *rank, *room; /* (n) */
    struct trend_step *step;
    int64_t n_steps;
};

/* Computes the mean ranks of x[0..n), in quadratic time. */
static void rank_values(const double *x, int64_t n, double *rank)
{
    for (int64_t i = 0; i < n; i++) {
        double below = 0, equal = 0;
        for (int64_t j = 0; j < n; j++) {
            below += x[j] < x[i];
            equal += x[j] == x[i];
        }
        rank[i] = below + (equal + 1) / 2;
    }
}

/* Finds the cut *at of rank[0..n) with the largest statistic, and returns the statistic:
 *
 *     |sum - expected sum| / standard deviation of the sum
 *
 * The sum is the sum of the ranks before the cut. Its standard deviation is computed as if there
 * were no ties. */
static double best_cut(const double *rank, int64_t n, int64_t *at)
{
    double sum = 0, best = 0;
    *at = 0;
    for (int64_t k = 1; k <= n - TREND_LEAST; k++) {
        sum += rank[k - 1];
        if (k < TREND_LEAST)
            continue;
        double before = (double)k, all = (double)n;
        double z =
            fabs(sum - before * (all + 1) / 2) / sqrt(before * (all - before) * (all + 1) / 12);
        if (z > best) {
            best = z;
            *at = k;
        }
    }
    return best;
}

/* Returns the sum of |x[i] - median| over x[0..n). `room` is scratch memory for n values. */
static double deviation(const double *x, int64_t n, double *room)
{
    double sum = 0;
    memcpy(room, x, (size_t)n * sizeof *room);
    double median = stats_median(room, n);
    for (int64_t i = 0; i < n; i++)
        sum += fabs(room[i] - median);
    return sum;
}

/* Returns the exact place of a step that best_cut has found at `at`. best_cut prefers cuts near the
 * middle, so its cut may be a few values away from the step. The exact place is the cut near `at`
 * with the least sum of absolute deviations. A value's deviation is its distance from the median of
 * its part. */
static int64_t place(const double *x, int64_t n, int64_t at, double *room)
{
    enum { NEAR = 10 };
    double least = INFINITY;
    int64_t best = at;
    for (int64_t k = at - NEAR; k <= at + NEAR; k++) {
        if (k < TREND_LEAST || k > n - TREND_LEAST)
            continue;
        double sum = deviation(x, k, room) + deviation(x + k, n - k, room);
        if (sum < least) {
            least = sum;
            best = k;
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

/* Cuts [from, to) if the best cut is significant, and then searches both parts. */
static void search(struct search *s, int64_t from, int64_t to)
{
    int64_t n = to - from, at, anywhere;
    int as_large = 0;
    if (n < 2 * TREND_LEAST)
        return;
    rank_values(s->x + from, n, s->rank);
    double cut = best_cut(s->rank, n, &at);
    memcpy(s->room, s->rank, (size_t)n * sizeof *s->room);
    for (int i = 0; i < TREND_SHUFFLES; i++) {
        struct rng rng = rng_at(COMPARE_SEED, RNG_BOOTSTRAP, (uint64_t)i, (uint64_t)from);
        shuffle(s->room, n, &rng);
        as_large += best_cut(s->room, n, &anywhere) >= cut;
    }
    double p = (1.0 + as_large) / (1 + TREND_SHUFFLES);
    if (cut == 0 || p >= s->alpha)
        return;
    at = place(s->x + from, n, at, s->room);
    search(s, from, from + at);
    s->step[s->n_steps++] = (struct trend_step){.at = from + at, .p = p};
    search(s, from + at, to);
}

/* While there are steps that are not above the threshold, removes the smallest step. After each
 * removal, the remaining steps are measured again, because the parts before and after the removed
 * step have become one part. */
static enum status drop_small(struct search *s, int64_t n, double threshold)
{
    for (;;) {
        int64_t least = -1;
        double size = threshold;
        /* Sets the ratios and intervals of all steps. */
        for (int64_t i = 0; i < s->n_steps; i++) {
            struct trend_step *step = &s->step[i];
            int64_t from = i > 0 ? step[-1].at : 0, to = i + 1 < s->n_steps ? step[1].at : n;
            struct stats before, behind;
            TRY(stats_of(s->x + from, step->at - from, &before));
            TRY(stats_of(s->x + step->at, to - step->at, &behind));
            step->ratio = ratio_of(before.median, behind.median);
            TRY(stats_ratio_interval(s->x + from, step->at - from, s->x + step->at, to - step->at,
                                     0.95, COMPARE_RESAMPLES, COMPARE_SEED, &step->low,
                                     &step->high));
        }
        for (int64_t i = 0; i < s->n_steps; i++)
            if (fabs(s->step[i].ratio - 1) <= size) {
                size = fabs(s->step[i].ratio - 1);
                least = i;
            }
        if (least < 0)
            return STATUS_OK;
        s->n_steps--;
        memmove(&s->step[least], &s->step[least + 1],
                (size_t)(s->n_steps - least) * sizeof *s->step);
    }
}

enum status trend_find(const double *x, int64_t n, double alpha, double threshold,
                       struct trend_step *step, int64_t *n_steps)
{
    double *room;
    *n_steps = 0;
    TRY(array_new(&room, 2 * n));
    struct search s = {.x = x, .alpha = alpha, .rank = room, .room = room + n, .step = step};
    search(&s, 0, n);
    free(room);
    TRY(drop_small(&s, n, threshold));
    *n_steps = s.n_steps;
    return STATUS_OK;
}
