/* Whether two samples differ, and by how much. Values must be finite. */
#ifndef COMPARE_SIGNIFICANCE_H
#define COMPARE_SIGNIFICANCE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Up to so many values a side the distribution of U is counted out. */
enum { MANN_WHITNEY_EXACT = 30 };

struct mann_whitney {
    double u;   /* of x: pairs in which x is the larger, a tie is half of one */
    double p;   /* of a U as far from n m / 2 or farther, on either side, if x and y are alike */
    bool exact; /* p is of the exact distribution */
};

/* Two-sided test of x[0..n) against y[0..m), n, m >= 1: Mann and Whitney, "On a test of whether one
 * of two random variables is stochastically larger than the other", 1947. Equal values have their
 * mean rank, and p is of the distribution that the ranks at hand have. Larger samples use the
 * normal approximation with the variance corrected for ties and 1/2 for continuity: Lehmann,
 * "Nonparametrics", 1975, section 1.4, for both. Samples of one value only have p = 1. */
MUST_CHECK enum status mann_whitney(const double *x, int64_t n, const double *y, int64_t m,
                                    struct mann_whitney *out);

/* The smallest p that samples of these sizes can have: 2 / C(n + m, n). */
double mann_whitney_least(int64_t n, int64_t m);

/* y / x, neither below 0: 1 where both are 0, and infinite where x alone is. */
double ratio_of(double x, double y);

/* Percentile bootstrap interval of median(y) / median(x), the samples drawn independently: Efron
 * and Tibshirani, "An introduction to the bootstrap", 1993, chapters 8 and 13. A pure function of
 * the values and the seed. NAN where a value of x is not above 0. */
MUST_CHECK enum status ratio_interval(const double *x, int64_t n, const double *y, int64_t m,
                                      double level, int resamples, uint64_t seed, double *low,
                                      double *high);
#endif
