/* Tests whether two samples differ, and estimates by how much. Values must be finite. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* With at most this number of values per side, p is computed from the exact distribution of U. */
enum { MANN_WHITNEY_EXACT = 30 };

struct mann_whitney {
    double u;   /* number of pairs in which x is larger than y; a tie counts 1/2 */
    double p;   /* if x and y do not differ, the probability of a U at least as far from n m / 2 as
                 * `u`, on either side */
    bool exact; /* p is computed from the exact distribution */
};

/* Two-sided test of x[0..n) against y[0..m), n, m >= 1: Mann and Whitney, "On a test of whether one
 * of two random variables is stochastically larger than the other", 1947. Equal values share their
 * mean rank, and the exact p accounts for these ties. For larger samples, p is computed from the
 * normal approximation, with the variance corrected for ties and a continuity correction of 1/2.
 * Both methods: Lehmann, "Nonparametrics", 1975, section 1.4. If all values are equal, p = 1. */
MUST_CHECK enum status mann_whitney(const double *x, int64_t n, const double *y, int64_t m,
                                    struct mann_whitney *out);

/* Sets `twice` to the ranks of the ascending v[0..n), doubled so that the mean rank of equal values
 * is a whole number. Returns the sum of t^3 - t over the groups of t equal values. */
double rank_twice(const double *v, int64_t n, int64_t *twice);

/* Returns the smallest p that samples of these sizes can have: 2 / C(n + m, n). */
double mann_whitney_least(int64_t n, int64_t m);

/* Returns y / x for x, y >= 0. The result is 1 if both are 0, and infinite if only x is 0. */
double ratio_of(double x, double y);
