/* Tests whether the second values of pairs differ from the first values, and estimates by how much.
 * The values of a pair are measured close in time, so slow drift cancels in their difference.
 * Differences must be finite. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* With at most this number of nonzero differences, p is computed from the exact distribution of
 * W. */
enum { SIGNED_RANK_EXACT = 50 };

struct signed_rank {
    double w;   /* sum of the ranks of |d| over the differences above 0 */
    double p;   /* the probability, if signs are random, that W is at least as far from its mean as
                 * `w` is, on either side */
    bool exact; /* p is computed from the exact distribution */
};

/* Two-sided test of d[0..n), n >= 1: Wilcoxon, "Individual comparisons by ranking methods", 1945.
 * Zeros are left out, equal |d| share their mean rank, and the exact p accounts for these ties.
 * With more than SIGNED_RANK_EXACT differences, p is computed from the normal approximation with
 * the variance corrected for ties and a continuity correction of 1/2. Both methods: Hollander and
 * Wolfe, "Nonparametric statistical methods", 2nd ed., 1999, section 3.1. If all differences are
 * zero, p = 1. */
MUST_CHECK enum status signed_rank(const double *d, int64_t n, struct signed_rank *out);

/* Returns the smallest p that n differences can have: 2 / 2^n. */
double signed_rank_least(int64_t n);

/* Computes the median of the means of all pairs d[i], d[j], i <= j (Hodges and Lehmann, "Estimates
 * of location based on rank tests", 1963). Also computes the interval of the values that the
 * signed-rank test does not reject at 1 - level (Hollander and Wolfe, sections 3.2 and 3.3), as R's
 * wilcox.test does. The interval is NAN if there are too few values: fewer than 6 at a level
 * of 95 %. */
MUST_CHECK enum status hodges_lehmann(const double *d, int64_t n, double level, double *center,
                                      double *low, double *high);
