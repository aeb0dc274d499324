/* Statistics of repeated measurements. Values must be finite; n >= 1 unless said otherwise. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include "base/status.h"

#include <stdint.h>

/* What a sample of measurements comes to. */
struct stats {
    int64_t n;
    double min, p5, p25, median, p75, p95, max;
    double mean;
    double stddev; /* with n - 1; 0 when n is 1 */
    double mad;    /* median absolute deviation from the median; 1.4826 mad ~ a normal's sigma */
    double spread; /* (p95 - p5) / median; 0 when the median is 0 */
};

/* Sums up x[0..n), which is left as it is. STATUS_INVALID when n < 1 or a value is not finite. */
MUST_CHECK enum status stats_of(const double *x, int64_t n, struct stats *out);

double stats_mean(const double *x, int64_t n);
double stats_stddev(const double *x, int64_t n);

/* Sorts in place, ascending. */
void stats_sort(double *x, int64_t n);

/* The q-quantile (0 <= q <= 1) of ascending values, linear between order statistics: type 7 of
 * Hyndman and Fan, "Sample quantiles in statistical packages", 1996; what R and NumPy do. */
double stats_quantile(const double *sorted, int64_t n, double q);

/* Percentile bootstrap interval of the median (Efron and Tibshirani, "An introduction to the
 * bootstrap", 1993, chapter 13): the quantiles (1 -+ level) / 2 of the medians of `resamples` draws
 * with replacement. A pure function of values and seed. Takes n * resamples draws: for up to some
 * ten thousand values. STATUS_INVALID as stats_of, or when level is not inside (0, 1). */
MUST_CHECK enum status stats_median_interval(const double *x, int64_t n, double level,
                                             int resamples, uint64_t seed, double *low,
                                             double *high);

/* The Clopper-Pearson interval of a proportion of which k of n >= 1 trials were seen: Clopper and
 * Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
 * 1934. It never covers less than `level`. STATUS_INVALID for k outside 0..n. */
MUST_CHECK enum status stats_proportion_interval(int64_t k, int64_t n, double level, double *low,
                                                 double *high);

/* How many of the first steps to leave out as warm-up: `wanted`, but never more than leaves half
 * of the n steps, so that a short run still says something. n >= 0. */
int64_t stats_warmup(int64_t n, int64_t wanted);
#endif
