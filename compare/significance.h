/* Tests whether two samples differ, and estimates by how much: for independent values, and for
 * pairs of values that were measured close in time, so that slow drift cancels in their difference.
 * Values must be finite. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* With at most this number of values per side, or of nonzero differences, p is computed from the
 * exact distribution. */
enum { MANN_WHITNEY_EXACT = 30, SIGNED_RANK_EXACT = 50 };

struct rank_test {
    double statistic; /* U: number of pairs in which x is larger than y; a tie counts 1/2.
                       * W: sum of the ranks of |d| over the differences above 0 */
    double p;         /* if there is no difference, the probability of a statistic at least as far
                       * from its mean, on either side */
    bool exact;       /* p is computed from the exact distribution */
};

/* Two-sided test of x[0..n) against y[0..m), n, m >= 1: Mann and Whitney, "On a test of whether one
 * of two random variables is stochastically larger than the other", 1947. Equal values share their
 * mean rank, and the exact p accounts for these ties. For larger samples, p is computed from the
 * normal approximation, with the variance corrected for ties and a continuity correction of 1/2.
 * Both methods: Lehmann, "Nonparametrics", 1975, section 1.4. If all values are equal, p = 1. */
MUST_CHECK enum status mann_whitney(const double *x, int64_t n, const double *y, int64_t m,
                                    struct rank_test *out);

/* Returns the smallest p that samples of these sizes can have: 2 / C(n + m, n). */
double mann_whitney_least(int64_t n, int64_t m);

/* Two-sided test of the differences d[0..n) of pairs, n >= 1: Wilcoxon, "Individual comparisons by
 * ranking methods", 1945. Zeros are left out; ties and larger samples are treated as above
 * (Hollander and Wolfe, "Nonparametric statistical methods", 2nd ed., 1999, section 3.1). If all
 * differences are zero, p = 1. */
MUST_CHECK enum status signed_rank(const double *d, int64_t n, struct rank_test *out);

/* Returns the smallest p that n differences can have: 2 / 2^n. */
double signed_rank_least(int64_t n);

/* Computes the median of the means of all pairs d[i], d[j], i <= j (Hodges and Lehmann, "Estimates
 * of location based on rank tests", 1963). Also computes the interval of the values that the
 * signed-rank test does not reject at 1 - level (Hollander and Wolfe, sections 3.2 and 3.3), as R's
 * wilcox.test does. The interval is NAN if there are too few values: fewer than 6 at a level
 * of 95 %. */
MUST_CHECK enum status hodges_lehmann(const double *d, int64_t n, double level, double *center,
                                      double *low, double *high);

/* Returns y / x for x, y >= 0. The result is 1 if both are 0, and infinite if only x is 0. */
double ratio_of(double x, double y);
