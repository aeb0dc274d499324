/* Signed ranks and the estimate that belongs to them. */
#include "compare/paired.h"

#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS_MAX = 4096 }; /* whose means of pairs still fit into memory with ease */

/* A difference without its sign. */
struct magnitude {
    double size;
    bool positive;
    int64_t twice; /* its rank, doubled: a mean of ranks is a whole number then */
};

static int by_size(const void *a, const void *b)
{
    double x = ((const struct magnitude *)a)->size, y = ((const struct magnitude *)b)->size;
    return (x > y) - (x < y);
}

/* The number of sets of the ranks that add up to each s, twice that of all ranks, to their sum
 * n (n + 1); the caller frees. Whole numbers up to 2^n, exact for n <= SIGNED_RANK_EXACT. `twice`:
 * each rank doubled; NULL: they are 1..n. NULL without memory. */
static double *count_sums(const int64_t *twice, int64_t n)
{
    int64_t most = n * (n + 1);
    double *ways = calloc((size_t)most + 1, sizeof *ways);
    if (!ways)
        return NULL;
    ways[0] = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = twice ? twice[i] : 2 * (i + 1);
        for (int64_t s = most; s >= rank; s--)
            ways[s] += ways[s - rank];
    }
    return ways;
}

/* P(W <= w) where every sign is as likely as the other. */
static enum status exact_tail(const int64_t *twice, int64_t n, double w, double *tail)
{
    double *ways = count_sums(twice, n), below = 0;
    if (!ways)
        return status_fail(STATUS_OOM, "no memory for the distribution of signed ranks");
    for (int64_t s = 0; (double)s <= 2 * w; s++)
        below += ways[s];
    free(ways);
    *tail = ldexp(below, -(int)n);
    return STATUS_OK;
}

/* `ties`: the sum of t^3 - t over the groups of t equal sizes. */
static double normal_p(int64_t n, double w, double ties)
{
    double k = (double)n;
    double variance = k * (k + 1) * (2 * k + 1) / 24 - ties / 48;
    double z = (fabs(w - k * (k + 1) / 4) - 0.5) / sqrt(variance);
    return fmin(1, erfc(z / sqrt(2)));
}

/* Ranks m[0..n), ascending by size, and adds up the ranks of the positive ones. */
static double add_ranks(struct magnitude *m, int64_t n, double *ties)
{
    double w = 0;
    *ties = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && m[end].size == m[i].size; end++)
            ;
        for (int64_t k = i; k < end; k++) {
            m[k].twice = i + 1 + end;
            w += m[k].positive ? (double)m[k].twice / 2 : 0;
        }
        double t = (double)(end - i);
        *ties += t * t * t - t;
    }
    return w;
}

enum status signed_rank(const double *d, int64_t n, struct signed_rank *out)
{
    double ties, tail = 0;
    int64_t twice[SIGNED_RANK_EXACT] = {0}, kept = 0;
    if (n < 1 || n > PAIRS_MAX)
        return status_fail(STATUS_INVALID, "a signed-rank test of %lld values", (long long)n);
    struct magnitude *m = malloc((size_t)n * sizeof *m);
    if (!m)
        return status_fail(STATUS_OOM, "no memory for %lld differences", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (d[i] != 0)
            m[kept++] = (struct magnitude){.size = fabs(d[i]), .positive = d[i] > 0};
    qsort(m, (size_t)kept, sizeof *m, by_size);
    *out = (struct signed_rank){.w = add_ranks(m, kept, &ties), .exact = kept <= SIGNED_RANK_EXACT};
    for (int64_t i = 0; out->exact && i < kept; i++)
        twice[i] = m[i].twice;
    free(m);
    if (!out->exact) {
        out->p = normal_p(kept, out->w, ties);
        return STATUS_OK;
    }
    TRY(exact_tail(twice, kept, fmin(out->w, (double)(kept * (kept + 1) / 2) - out->w), &tail));
    out->p = fmin(1, 2 * tail);
    return STATUS_OK;
}

double signed_rank_least(int64_t n)
{
    return n < 1000 ? ldexp(2, -(int)n) : 0;
}

/* How many of the means, from the smallest, lie below an interval of that level, and the first
 * that does not; 0: there is none. */
static enum status rank_of_low(int64_t n, double level, int64_t *rank)
{
    double outside = (1 - level) / 2, k = (double)n;
    *rank = 0;
    if (n > SIGNED_RANK_EXACT) {
        /* Hollander and Wolfe (3.28), with the normal's quantile 1.96 generalised by bisection. */
        double low = 0, high = 40;
        for (int i = 0; i < 100; i++) {
            double z = (low + high) / 2;
            *(erfc(z / sqrt(2)) / 2 > outside ? &low : &high) = z;
        }
        *rank = (int64_t)fmax(1, k * (k + 1) / 4 - low * sqrt(k * (k + 1) * (2 * k + 1) / 24));
        return STATUS_OK;
    }
    double *ways = count_sums(NULL, n), below = 0;
    if (!ways)
        return status_fail(STATUS_OOM, "no memory for the distribution of signed ranks");
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
        return status_fail(STATUS_INVALID, "an estimate of level %g from %lld values", level,
                           (long long)n);
    TRY(rank_of_low(n, level, &rank));
    double *mean = malloc((size_t)count * sizeof *mean);
    if (!mean)
        return status_fail(STATUS_OOM, "no memory for the means of %lld values", (long long)n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++)
            mean[k++] = (d[i] + d[j]) / 2;
    stats_sort(mean, count);
    *center = stats_quantile(mean, count, 0.5);
    *low = rank > 0 ? mean[rank - 1] : NAN;
    *high = rank > 0 ? mean[count - rank] : NAN;
    free(mean);
    return STATUS_OK;
}
