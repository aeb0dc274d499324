/* A spec from what good hardware has done.
 *
 * Each number that the spec of the results has a limit for gets its own: a baseline, the median of
 * the nodes' medians (of one node: of its repeats), and how far below it, or above, is too far.
 * GPUs that ran a check alone count as nodes. Values that do not belong to the rest are left out
 * first: with median m and spread s = 1.4826 median(|x - m|), a value that is worse than m by more
 * than 3.5 s and 2 % of m is dropped, m and s are found again, until none is dropped; where fewer
 * than half are left nothing is made of the metric. SuperBench drops nodes by their distance from
 * the mean in this manner; 3.5 is the bound for outliers of B. Iglewicz and D. Hoaglin, "How to
 * detect and handle outliers", 1993.
 *
 * What fails is worse than m by more than 5 s, and at least 3 %; half of that warns. Of fewer than
 * 5 values the bounds are twice as wide. A text that had to be the same in all repeats, as bits of
 * a loss curve, and is on all nodes, has to be that text. Other texts, and numbers whose median is
 * not above 0, keep the limit that they had. */
#ifndef ACCEPT_MAKE_H
#define ACCEPT_MAKE_H

#include "accept/result.h"

enum { MAKE_ENOUGH = 5 };

struct accept_made {
    int n, dropped;  /* values that were left, and that were dropped */
    double baseline; /* their median; NAN: they do not agree, or there is none */
    double spread;   /* s */
    double within;   /* share */
};

/* Of values x[0..n), n >= 1, which are sorted. */
MUST_CHECK enum status accept_make_limit(double *x, int n, enum accept_better better,
                                         struct accept_made *out);

/* The spec, from folders of results that were all measured by one and the same; a new object that
 * the caller owns. `said` gets a line for each thing that people should know: NULL: none.
 * STATUS_DATA for a folder without results, STATUS_USAGE for those of another spec. */
MUST_CHECK enum status accept_make_spec(char *const *dir, int n, FILE *said, json_t **out);
#endif
