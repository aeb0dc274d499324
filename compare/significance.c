/* Compares samples and pairs by ranks, and estimates the difference of pairs. */
#include "compare/significance.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS_MAX = 4096 }; /* limits the memory: n pairs give n (n + 1) / 2 means */

/* Returns the rank test's U of x, by counting over all pairs. */
static double count_pairs(const double *x, int64_t n, const double *y, int64_t m)
{
    double u = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            u += x[i] > y[j] ? 1 : x[i] == y[j] ? 0.5 : 0;
    return u;
}

/* Sets `twice` to the ranks of the ascending v[0..n), doubled so that the mean rank of equal values
 * is a whole number. Returns the sum of t^3 - t over the groups of t equal values. */
static double rank_twice(const double *v, int64_t n, int64_t *twice)
{
    double ties = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && v[end] == v[i]; end++)
            ;
        for (int64_t k = i; k < end; k++)
            twice[k] = i + 1 + end;
        double t = (double)(end - i);
        ties += t * t * t - t;
    }
    return ties;
}

/* Sets *p to P(|U - n m / 2| >= off), where every choice of n ranks for x is equally likely. Goes
 * through the ranks, and counts for each k and s the ways to choose k ranks whose sum is s / 2. For
 * k = n, 2 U = s - n (n + 1). */
static enum status exact_p(const int64_t *twice, int64_t n, int64_t m, double off, double *p)
{
    int64_t all = n + m, sums = n * (n + 1) + 2 * n * m + 1, middle = n * (all + 1);
    double *ways; /* (n + 1, sums) */
    TRY(array_new(&ways, (n + 1) * sums));
    ways[0] = 1;
    for (int64_t i = 0; i < all; i++)
        for (int64_t k = i + 1 < n ? i + 1 : n; k >= 1; k--)
            for (int64_t s = twice[i]; s < sums; s++)
                ways[k * sums + s] += ways[(k - 1) * sums + s - twice[i]];
    double beyond = 0, total = 0;
    for (int64_t s = 0; s < sums; s++) {
        total += ways[n * sums + s];
        beyond += fabs((double)(s - middle)) >= 2 * off ? ways[n * sums + s] : 0;
    }
    free(ways);
    *p = beyond / total;
    return STATUS_OK;
}

/* Returns p of a statistic that is `off` away from its mean, by the normal approximation with a
 * continuity correction. */
static double normal_p(double off, double variance)
{
    return variance > 0 ? fmin(1, erfc((off - 0.5) / sqrt(2 * variance))) : 1;
}

enum status mann_whitney(const double *x, int64_t n, const double *y, int64_t m,
                         struct rank_test *out)
{
    int64_t all = n + m, *twice = NULL;
    double total = (double)all, nm = (double)n * (double)m, ties, off, *v = NULL;
    enum status st;
    if (n < 1 || m < 1)
        return status_fail(STATUS_INVALID, "cannot compute a rank test if a sample has no values");
    CHECK(array_new(&v, all));
    CHECK(array_new(&twice, all));
    for (int64_t i = 0; i < all; i++)
        v[i] = i < n ? x[i] : y[i - n];
    stats_sort(v, all);
    ties = rank_twice(v, all, twice);
    *out = (struct rank_test){.statistic = count_pairs(x, n, y, m),
                              .exact = n <= MANN_WHITNEY_EXACT && m <= MANN_WHITNEY_EXACT};
    off = fabs(out->statistic - nm / 2);
    if (out->exact)
        st = exact_p(twice, n, m, off, &out->p);
    else
        out->p = normal_p(off, nm / 12 * (total + 1 - ties / (total * (total - 1))));
done:
    free(twice);
    free(v);
    return st;
}

double mann_whitney_least(int64_t n, int64_t m)
{
    double choices = 1;
    for (int64_t i = 1; i <= n; i++)
        choices *= (double)(m + i) / (double)i;
    return fmin(1, 2 / choices);
}

/* --- pairs --- */

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

/* For each s in 0..n (n + 1), counts the sets of ranks whose doubled sum is s; the caller frees
 * *out. The counts are whole numbers up to 2^n, exact for n <= SIGNED_RANK_EXACT. `twice` has the
 * doubled ranks; if it is NULL, the ranks are 1..n. */
static enum status count_sums(const int64_t *twice, int64_t n, double **out)
{
    int64_t most = n * (n + 1);
    double *ways;
    TRY(array_new(&ways, most + 1));
    ways[0] = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = twice ? twice[i] : 2 * (i + 1);
        for (int64_t s = most; s >= rank; s--)
            ways[s] += ways[s - rank];
    }
    *out = ways;
    return STATUS_OK;
}

/* Sets *tail to P(W <= w) if both signs are equally likely. */
static enum status exact_tail(const int64_t *twice, int64_t n, double w, double *tail)
{
    double *ways, below = 0;
    TRY(count_sums(twice, n, &ways));
    for (int64_t s = 0; (double)s <= 2 * w; s++)
        below += ways[s];
    free(ways);
    *tail = ldexp(below, -(int)n);
    return STATUS_OK;
}

enum status signed_rank(const double *d, int64_t n, struct rank_test *out)
{
    double *x = NULL, w = 0, tail = 0; /* x: the differences, later their absolute values */
    int64_t *twice = NULL, kept = 0;
    enum status st;
    if (n < 1 || n > PAIRS_MAX)
        return status_fail(STATUS_INVALID, "cannot compute a signed-rank test of %lld values",
                           (long long)n);
    CHECK(array_new(&x, 2 * n));
    CHECK(array_new(&twice, n));
    for (int64_t i = 0; i < n; i++)
        if (d[i] != 0)
            x[kept++] = d[i];
    qsort(x, (size_t)kept, sizeof *x, by_size);
    for (int64_t i = 0; i < kept; i++)
        x[n + i] = fabs(x[i]);
    double ties = rank_twice(x + n, kept, twice), k = (double)kept, most = k * (k + 1) / 2;
    for (int64_t i = 0; i < kept; i++)
        w += x[i] > 0 ? (double)twice[i] / 2 : 0;
    *out = (struct rank_test){.statistic = w, .exact = kept <= SIGNED_RANK_EXACT};
    if (out->exact)
        CHECK(exact_tail(twice, kept, fmin(w, most - w), &tail));
    out->p = out->exact ? fmin(1, 2 * tail)
                        : normal_p(fabs(w - most / 2), most * (2 * k + 1) / 12 - ties / 48);
done:
    free(twice);
    free(x);
    return st;
}

double signed_rank_least(int64_t n)
{
    return n < 1000 ? ldexp(2, -(int)n) : 0;
}

/* The lower end of a confidence interval of level `level` is one of the means of hodges_lehmann.
 * Sets *rank to the rank of this mean, counted from 1, or to 0 if there are too few values for an
 * interval. */
static enum status rank_of_low(int64_t n, double level, int64_t *rank)
{
    double outside = (1 - level) / 2, k = (double)n;
    *rank = 0;
    if (n > SIGNED_RANK_EXACT) {
        /* Hollander and Wolfe (3.28), with the normal quantile of the requested level. */
        double z = stats_normal_above(outside);
        *rank = (int64_t)fmax(1, k * (k + 1) / 4 - z * sqrt(k * (k + 1) * (2 * k + 1) / 24));
        return STATUS_OK;
    }
    double *ways, below = 0;
    TRY(count_sums(NULL, n, &ways));
    while (below + ldexp(ways[2 * *rank], -(int)n) <= outside)
        below += ldexp(ways[2 * (*rank)++], -(int)n);
    free(ways);
    return STATUS_OK;
}

enum status hodges_lehmann(const double *d, int64_t n, double level, double *center, double *low,
                           double *high)
{
    int64_t rank, count = n * (n + 1) / 2, k = 0;
    if (n < 1 || n > PAIRS_MAX || !(level > 0 && level < 1))
        return status_fail(STATUS_INVALID,
                           "cannot estimate an interval of level %g from %lld values", level,
                           (long long)n);
    TRY(rank_of_low(n, level, &rank));
    double *mean;
    TRY(array_new(&mean, count));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++)
            mean[k++] = (d[i] + d[j]) / 2;
    *center = stats_median(mean, count);
    *low = rank > 0 ? mean[rank - 1] : NAN;
    *high = rank > 0 ? mean[count - rank] : NAN;
    free(mean);
    return STATUS_OK;
}

double ratio_of(double x, double y)
{
    if (x == 0)
        return y == 0 ? 1 : INFINITY;
    return y / x;
}
