/* Compares two samples by a rank test. */
#include "compare/significance.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* Returns the rank test's U of x, by counting over all pairs. */
static double count_pairs(const double *x, int64_t n, const double *y, int64_t m)
{
    double u = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            u += x[i] > y[j] ? 1 : x[i] == y[j] ? 0.5 : 0;
    return u;
}

double rank_twice(const double *v, int64_t all, int64_t *twice)
{
    double ties = 0;
    for (int64_t i = 0, end; i < all; i = end) {
        for (end = i; end < all && v[end] == v[i]; end++)
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

/* Returns p of U = u by the normal approximation. `ties` is the result of rank_twice. */
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
    int64_t all = n + m, *twice = NULL;
    double ties, *v = NULL;
    enum status st;
    if (n < 1 || m < 1)
        return status_fail(STATUS_INVALID, "cannot compute a rank test if a sample has no values");
    CHECK(array_new(&v, all));
    CHECK(array_new(&twice, all));
    for (int64_t i = 0; i < all; i++)
        v[i] = i < n ? x[i] : y[i - n];
    stats_sort(v, all);
    ties = rank_twice(v, all, twice);
    *out = (struct mann_whitney){.u = count_pairs(x, n, y, m),
                                 .exact = n <= MANN_WHITNEY_EXACT && m <= MANN_WHITNEY_EXACT};
    if (out->exact)
        st = exact_p(twice, n, m, fabs(out->u - (double)(n * m) / 2), &out->p);
    else
        out->p = normal_p(n, m, out->u, ties);
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

double ratio_of(double x, double y)
{
    if (x == 0)
        return y == 0 ? 1 : INFINITY;
    return y / x;
}
