/* Computes statistics of repeated measurements. */
#include "base/stats.h"

#include "base/array.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stats_sort(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
}

double stats_quantile(const double *sorted, int64_t n, double q)
{
    double place = q * (double)(n - 1);
    int64_t below = (int64_t)place;
    if (below >= n - 1)
        return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

double stats_median(double *x, int64_t n)
{
    stats_sort(x, n);
    return stats_quantile(x, n, 0.5);
}

double stats_mean(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

double stats_mean_finite(const double *x, int64_t n)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            sum += x[i];
            count++;
        }
    return count ? sum / (double)count : NAN;
}

double stats_stddev(const double *x, int64_t n)
{
    if (n < 2)
        return 0;
    double mean = stats_mean(x, n), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (double)(n - 1));
}

/* Makes a sorted copy, which the caller frees. */
static enum status sorted_copy(const double *x, int64_t n, double **out)
{
    if (n < 1)
        return status_fail(STATUS_INVALID, "cannot compute statistics of no values");
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return status_fail(STATUS_INVALID, "cannot compute statistics: a value is not finite");
    if (array_new(out, n) != STATUS_OK) /* a caller takes a failure for no value */
        out_of_memory();
    memcpy(*out, x, (size_t)n * sizeof **out);
    stats_sort(*out, n);
    return STATUS_OK;
}

enum status stats_of(const double *x, int64_t n, struct stats *out)
{
    double *v;
    TRY(sorted_copy(x, n, &v));
    *out = (struct stats){
        .n = n,
        .min = v[0],
        .p5 = stats_quantile(v, n, 0.05),
        .median = stats_quantile(v, n, 0.5),
        .p95 = stats_quantile(v, n, 0.95),
        .max = v[n - 1],
        .mean = stats_mean(v, n),
        .stddev = stats_stddev(v, n),
    };
    for (int64_t i = 0; i < n; i++)
        v[i] = fabs(v[i] - out->median);
    out->mad = stats_median(v, n);
    free(v);
    return STATUS_OK;
}

/* The median of n values drawn from `sorted` with replacement. count[i] (n elements) becomes the
 * number of times that sorted[i] was drawn. The drawn values therefore need no sorting. */
static double resampled_median(const double *sorted, int64_t n, struct rng *rng, uint32_t *count)
{
    memset(count, 0, (size_t)n * sizeof *count);
    for (int64_t i = 0; i < n; i++)
        count[rng_below(rng, (uint32_t)n)]++;
    int64_t rank = 0, passed = count[0];
    while (passed <= (n - 1) / 2)
        passed += count[++rank];
    double low = sorted[rank];
    while (passed <= n / 2)
        passed += count[++rank];
    return (low + sorted[rank]) / 2;
}

enum status stats_median_interval(const double *x, int64_t n, double level, int resamples,
                                  uint64_t seed, double *low, double *high)
{
    if (!(level > 0 && level < 1) || resamples < 1 || n > UINT32_MAX)
        return status_fail(STATUS_INVALID,
                           "cannot bootstrap an interval of level %g with %d resamples", level,
                           resamples);
    enum status st;
    double *sorted = NULL, *median = NULL;
    uint32_t *count = NULL;
    CHECK(sorted_copy(x, n, &sorted));
    CHECK(array_new(&count, n));
    CHECK(array_new(&median, resamples));
    for (int i = 0; i < resamples; i++) {
        struct rng rng = rng_at(seed, RNG_BOOTSTRAP, (uint64_t)i, 0);
        median[i] = resampled_median(sorted, n, &rng, count);
    }
    stats_sort(median, resamples);
    *low = stats_quantile(median, resamples, (1 - level) / 2);
    *high = stats_quantile(median, resamples, (1 + level) / 2);
done:
    free(median);
    free(count);
    free(sorted);
    return st;
}

/* Returns the median of n draws from x with replacement. `room` is scratch memory for n values. */
static double drawn_median(const double *x, int64_t n, struct rng *rng, double *room)
{
    for (int64_t i = 0; i < n; i++)
        room[i] = x[rng_below(rng, (uint32_t)n)];
    return stats_median(room, n);
}

enum status stats_ratio_interval(const double *x, int64_t n, const double *y, int64_t m,
                                 double level, int resamples, uint64_t seed, double *low,
                                 double *high)
{
    if (n < 1 || m < 1 || n > UINT32_MAX || m > UINT32_MAX || resamples < 1 ||
        !(level > 0 && level < 1))
        return status_fail(STATUS_INVALID,
                           "cannot compute a bootstrap interval of level %g from %d resamples",
                           level, resamples);
    *low = *high = NAN;
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] > 0))
            return STATUS_OK;
    double *room = NULL, *ratio = NULL;
    enum status st;
    CHECK(array_new(&room, n > m ? n : m));
    CHECK(array_new(&ratio, resamples));
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

/* Bisection: the probability of exceeding z falls as z grows. */
double stats_normal_above(double p)
{
    double low = -10, high = 10;
    for (int i = 0; i < 60; i++) {
        double z = (low + high) / 2;
        *(erfc(z / sqrt(2)) / 2 > p ? &low : &high) = z;
    }
    return low;
}

int64_t stats_warmup(int64_t n, int64_t wanted)
{
    int64_t most = n / 2;
    return wanted < most ? wanted : most;
}

/* The probability of at most k successes in n trials with success probability p. */
static double binomial_below(int64_t k, int64_t n, double p)
{
    double sum = 0;
    for (int64_t i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) +
                   (i > 0 ? (double)i * log(p) : 0) + (i < n ? (double)(n - i) * log1p(-p) : 0));
    return sum;
}

/* Finds by bisection the p for which binomial_below(k, n, p) equals `tail`. binomial_below falls as
 * p grows. */
static double binomial_limit(int64_t k, int64_t n, double tail)
{
    double low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double p = (low + high) / 2;
        *(binomial_below(k, n, p) > tail ? &low : &high) = p;
    }
    return (low + high) / 2;
}

enum status stats_proportion_interval(int64_t k, int64_t n, double level, double *low, double *high)
{
    if (n < 1 || k < 0 || k > n || !(level > 0 && level < 1))
        return status_fail(STATUS_INVALID,
                           "cannot estimate a proportion from %lld successes in %lld trials",
                           (long long)k, (long long)n);
    *low = k > 0 ? binomial_limit(k - 1, n, (1 + level) / 2) : 0;
    *high = k < n ? binomial_limit(k, n, (1 - level) / 2) : 1;
    return STATUS_OK;
}
