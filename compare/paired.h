/* Whether the second of each pair differs from the first, and by how much. A pair is measured close
 * in time, so that what drifts slowly cancels out of its difference. Differences must be finite. */
#ifndef COMPARE_PAIRED_H
#define COMPARE_PAIRED_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* For up to so many differences that are not zero the distribution of W is counted out. */
enum { SIGNED_RANK_EXACT = 50 };

struct signed_rank {
    double w;   /* the ranks of |d| added up over the differences above 0 */
    double p;   /* of a W as far from its mean or farther, on either side, if signs are chance */
    bool exact; /* p is of the exact distribution */
};

/* Two-sided test of d[0..n), n >= 1: Wilcoxon, "Individual comparisons by ranking methods", 1945.
 * Zeros are left out, equal |d| share their mean rank, and p is of the distribution that the ranks
 * at hand have; for more differences it is of the normal approximation with the variance corrected
 * for ties and 1/2 for continuity: Hollander and Wolfe, "Nonparametric statistical methods", 2nd
 * ed., 1999, section 3.1, for both. Zeros only have p = 1. */
MUST_CHECK enum status signed_rank(const double *d, int64_t n, struct signed_rank *out);

/* The smallest p that n differences can have: 2 / 2^n. */
double signed_rank_least(int64_t n);

/* The median of the means of all pairs d[i], d[j], i <= j (Hodges and Lehmann, "Estimates of
 * location based on rank tests", 1963), and the interval of those values that the signed-rank test
 * does not refuse at 1 - level: Hollander and Wolfe, sections 3.2 and 3.3; what R's wilcox.test
 * gives. NAN for an interval that so few values have not: at 95 %, fewer than 6. */
MUST_CHECK enum status hodges_lehmann(const double *d, int64_t n, double level, double *center,
                                      double *low, double *high);
#endif
