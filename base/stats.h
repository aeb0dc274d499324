/* Statistics of repeated measurements. Values must be finite; n >= 1 unless said otherwise. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* The statistics of a sample of measurements. */
struct stats {
    int64_t n;
    double min, p5, median, p95, max;
    double mean;
    double stddev; /* the sum of squares is divided by n - 1; 0 when n is 1 */
    double mad;    /* median absolute deviation; the stddev of a normal distribution is 1.4826 times
                      its mad */
};

/* Statistics of x[0..n), which stays unchanged. STATUS_INVALID: n < 1, or a value is not finite. */
MUST_CHECK enum status stats_of(const double *x, int64_t n, struct stats *out);

double stats_mean(const double *x, int64_t n);
double stats_stddev(const double *x, int64_t n);

/* The mean of the values that are finite; NAN if none is. n >= 0. */
double stats_mean_finite(const double *x, int64_t n);

/* Sorts in place, ascending. */
void stats_sort(double *x, int64_t n);

/* The q-quantile (0 <= q <= 1) of ascending values, interpolated linearly between neighbours: type
 * 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996; R's and NumPy's
 * default. */
double stats_quantile(const double *sorted, int64_t n, double q);

/* Sorts n >= 1 values and returns their median. */
double stats_median(double *x, int64_t n);

/* Percentile bootstrap interval of the median (Efron and Tibshirani, "An introduction to the
 * bootstrap", 1993, chapter 13). Draws `resamples` samples of n values each, with replacement, and
 * computes their medians. *low is the quantile (1 - level) / 2 of these medians, and *high the
 * quantile (1 + level) / 2. A pure function of the values and the seed. n should be at most some
 * ten thousand, because the function draws n * resamples values. STATUS_INVALID in the same cases
 * as stats_of, for a level outside (0, 1), and for resamples < 1. */
MUST_CHECK enum status stats_median_interval(const double *x, int64_t n, double level,
                                             int resamples, uint64_t seed, double *low,
                                             double *high);

/* Computes the percentile bootstrap interval of median(y) / median(x). Both samples are drawn
 * independently (Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapters 8 and
 * 13). The result depends only on the arguments. The interval is NAN if a value of x is not above
 * 0. */
MUST_CHECK enum status stats_ratio_interval(const double *x, int64_t n, const double *y, int64_t m,
                                            double level, int resamples, uint64_t seed, double *low,
                                            double *high);

/* The Clopper-Pearson interval of the probability of an event seen in k of n >= 1 trials: Clopper
 * and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
 * 1934. Its coverage is at least `level`. STATUS_INVALID for n < 1, for k outside 0..n, and for a
 * level outside (0, 1). */
MUST_CHECK enum status stats_proportion_interval(int64_t k, int64_t n, double level, double *low,
                                                 double *high);

/* The z that a standard normal variable exceeds with probability p. */
double stats_normal_above(double p);

/* The number of first steps to exclude as warm-up: `wanted`, but at most half of the n steps. A
 * short run thus still has a result. n >= 0. */
int64_t stats_warmup(int64_t n, int64_t wanted);
