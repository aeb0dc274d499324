/* Tests pairs by signed ranks, and estimates their difference. */
#include "compare/paired.h"

#include "base/array.h"
#include "base/stats.h"
#include "compare/significance.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS_MAX = 4096 }; /* limits the memory: n pairs give n (n + 1) / 2 means */

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

/* Returns the p-value of W = w by the normal approximation. `ties` is the sum of t^3 - t over the
 * groups of t equal |d|. */
static double normal_p(int64_t n, double w, double ties)
{
    double k = (double)n;
    double variance = k * (k + 1) * (2 * k + 1) / 24 - ties / 48;
    double z = (fabs(w - k * (k + 1) / 4) - 0.5) / sqrt(variance);
    return fmin(1, erfc(z / sqrt(2)));
}

enum status signed_rank(const double *d, int64_t n, struct signed_rank *out)
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
    double ties = rank_twice(x + n, kept, twice), most = (double)(kept * (kept + 1) / 2);
    for (int64_t i = 0; i < kept; i++)
        w += x[i] > 0 ? (double)twice[i] / 2 : 0;
    *out = (struct signed_rank){.w = w, .exact = kept <= SIGNED_RANK_EXACT};
    if (out->exact)
        CHECK(exact_tail(twice, kept, fmin(w, most - w), &tail));
    out->p = out->exact ? fmin(1, 2 * tail) : normal_p(kept, w, ties);
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
