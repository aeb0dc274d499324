/* Rank test and bootstrap of two samples. */
#include "gate/significance.h"

#include "base/rng.h"
#include "results/stats.h"

#include <math.h>
#include <stdlib.h>

/* U of x, by pairs. */
static double count_pairs(const double *x, int64_t n, const double *y, int64_t m)
{
    double u = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            u += x[i] > y[j] ? 1 : x[i] == y[j] ? 0.5 : 0;
    return u;
}

/* The sum of t^3 - t over the groups of t equal values in both samples together. */
static enum status tie_sum(const double *x, int64_t n, const double *y, int64_t m, double *sum)
{
    int64_t all = n + m;
    double *v = malloc((size_t)all * sizeof *v);
    if (!v)
        return status_fail(STATUS_OOM, "no memory for %lld values", (long long)all);
    for (int64_t i = 0; i < all; i++)
        v[i] = i < n ? x[i] : y[i - n];
    stats_sort(v, all);
    *sum = 0;
    for (int64_t i = 0, end; i < all; i = end) {
        for (end = i; end < all && v[end] == v[i]; end++)
            ;
        double t = (double)(end - i);
        *sum += t * t * t - t;
    }
    free(v);
    return STATUS_OK;
}

/* Ways to choose k of the ranks 1..n+m so that they add up to s are counted rank by rank; U is that
 * sum less n (n + 1) / 2. Returns P(U <= u) where all choices are equally likely. */
static enum status exact_tail(int64_t n, int64_t m, double u, double *tail)
{
    int64_t all = n + m, sums = n * (n + 1) / 2 + n * m + 1, least = n * (n + 1) / 2;
    double *ways = calloc((size_t)((n + 1) * sums), sizeof *ways); /* (n + 1, sums) */
    if (!ways)
        return status_fail(STATUS_OOM, "no memory for the distribution of U");
    ways[0] = 1;
    for (int64_t rank = 1; rank <= all; rank++)
        for (int64_t k = rank < n ? rank : n; k >= 1; k--)
            for (int64_t s = rank; s < sums; s++)
                ways[k * sums + s] += ways[(k - 1) * sums + s - rank];
    double below = 0, total = 0;
    for (int64_t s = least; s < sums; s++) {
        total += ways[n * sums + s];
        below += (double)(s - least) <= u ? ways[n * sums + s] : 0;
    }
    free(ways);
    *tail = below / total;
    return STATUS_OK;
}

/* `ties`: as tie_sum. */
static double normal_p(int64_t n, int64_t m, double u, double ties)
{
    double all = (double)(n + m), nm = (double)n * (double)m;
    double variance = nm / 12 * (all + 1 - ties / (all * (all - 1)));
    if (!(variance > 0))
        return 1;
    double z = (fabs(u - nm / 2) - 0.5) / sqrt(variance);
    return fmin(1, erfc(z / sqrt(2)));
}

enum status mann_whitney(const double *x, int64_t n, const double *y, int64_t m,
                         struct mann_whitney *out)
{
    double ties = 0, tail = 0;
    if (n < 1 || m < 1)
        return status_fail(STATUS_INVALID, "a rank test without values");
    TRY(tie_sum(x, n, y, m, &ties));
    *out = (struct mann_whitney){.u = count_pairs(x, n, y, m)};
    out->exact = ties == 0 && n <= MANN_WHITNEY_EXACT && m <= MANN_WHITNEY_EXACT;
    if (!out->exact) {
        out->p = normal_p(n, m, out->u, ties);
        return STATUS_OK;
    }
    TRY(exact_tail(n, m, fmin(out->u, (double)(n * m) - out->u), &tail));
    out->p = fmin(1, 2 * tail);
    return STATUS_OK;
}

double mann_whitney_least(int64_t n, int64_t m)
{
    double choices = 1;
    for (int64_t i = 1; i <= n; i++)
        choices *= (double)(m + i) / (double)i;
    return fmin(1, 2 / choices);
}

/* The median of n draws from x with replacement; `room` holds n. */
static double drawn_median(const double *x, int64_t n, struct rng *rng, double *room)
{
    for (int64_t i = 0; i < n; i++)
        room[i] = x[rng_below(rng, (uint32_t)n)];
    stats_sort(room, n);
    return stats_quantile(room, n, 0.5);
}

enum status ratio_interval(const double *x, int64_t n, const double *y, int64_t m, double level,
                           int resamples, uint64_t seed, double *low, double *high)
{
    if (n < 1 || m < 1 || n > UINT32_MAX || m > UINT32_MAX || resamples < 1 ||
        !(level > 0 && level < 1))
        return status_fail(STATUS_INVALID, "a bootstrap of level %g and %d resamples", level,
                           resamples);
    *low = *high = NAN;
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] > 0))
            return STATUS_OK;
    double *room = malloc((size_t)(n > m ? n : m) * sizeof *room);
    double *ratio = malloc((size_t)resamples * sizeof *ratio);
    enum status st = STATUS_OK;
    if (!room || !ratio) {
        st =
            status_fail(STATUS_OOM, "no memory for a bootstrap of %lld values", (long long)(n + m));
        goto done;
    }
    for (int i = 0; i < resamples; i++) {
        struct rng rng = rng_at(seed, RNG_BOOTSTRAP, (uint64_t)i, 0);
        double base = drawn_median(x, n, &rng, room);
        ratio[i] = drawn_median(y, m, &rng, room) / base;
    }
    stats_sort(ratio, resamples);
    *low = stats_quantile(ratio, resamples, (1 - level) / 2);
    *high = stats_quantile(ratio, resamples, (1 + level) / 2);
done:
    free(ratio);
    free(room);
    return st;
}
