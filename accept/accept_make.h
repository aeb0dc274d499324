/* A spec derived from the results of good hardware, by the rule in docs/reference/specs.md.
 *
 * The values of a metric are the nodes' medians; a GPU that ran a check alone counts as a node. A
 * single node's values are its repeats. Outliers are dropped, and median m and spread s = 1.4826
 * median(|x - m|) computed again, until no value is dropped. SuperBench drops nodes in a similar
 * way, by their distance from the mean. The bound of 3.5 spreads is from B. Iglewicz and D.
 * Hoaglin, "How to detect and handle outliers", 1993. With fewer than MAKE_ENOUGH values the bounds
 * are twice as wide. A text that had to be the same in all repeats is the bits of a loss curve, for
 * example. */
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
 * that the caller owns. Writes notes for the user to `said`, one per line. STATUS_DATA if a folder
 * has no results, or if other work disturbed one of its checks; STATUS_USAGE if the results were
 * measured with different specs. */
MUST_CHECK enum status accept_make_spec(const char *const *dir, int n, FILE *said, json_t **out);
