/* A spec derived from the results of good hardware.
 *
 * Each number that has a limit in the spec of the results gets a new limit: a baseline, which is
 * the median of the nodes' medians (for a single node, the median of its repeats), and a tolerance.
 * A GPU that ran a check alone counts as a node. Outliers are removed first. The values x have the
 * median m and the spread
 *
 *     s = 1.4826 median(|x - m|)
 *
 * A value is dropped if it is worse than m by more than 3.5 s and by more than 2 % of m. Then m and
 * s are computed again from the remaining values, until no value is dropped. If fewer than half of
 * the values are left, the metric gets no new limit. SuperBench drops nodes in a similar way, by
 * their distance from the mean. The bound of 3.5 spreads is from B. Iglewicz and D. Hoaglin, "How
 * to detect and handle outliers", 1993.
 *
 * By the new limit, a value fails if it is worse than m by more than a bound, which is the larger
 * of 5 s and 3 % of m. It warns if it is worse than m by more than half of this bound. With fewer
 * than 5 values the bound is twice as wide. A text that had to be the same in all repeats (the bits
 * of a loss curve), and is the same on all nodes, becomes the required text. All other texts, and
 * numbers whose median is not above 0, keep their old limit. */
#pragma once

#include "accept/accept_spec.h"

enum { MAKE_ENOUGH = 5 };

struct accept_made {
    int n, dropped;  /* numbers of values kept and dropped */
    double baseline; /* median of the values kept; NAN: too few were kept, or their median is not
                      * above 0 */
    double spread;   /* the spread s defined at the top of this file */
    double within;   /* tolerance as a fraction of the baseline */
};

/* Computes a limit from values x[0..n), n >= 1. Moves the values that are not outliers to the front
 * of x. */
MUST_CHECK enum status accept_make_limit(double *x, int n, enum accept_better better,
                                         struct accept_made *out);

/* Makes the spec from folders of results, all measured with the same spec; *out is a new object
 * that the caller owns. Writes notes for the user to `said`, one per line, or none if `said` is
 * NULL. STATUS_DATA if a folder has no results, or if other work
 * disturbed one of its checks; STATUS_USAGE if the results were measured with
 * different specs. */
MUST_CHECK enum status accept_make_spec(const char *const *dir, int n, FILE *said, json_t **out);
