/* Which rank holds the others up.
 *
 * Ranks that average gradients leave every step together: the fast ones spend in communication what
 * the slow one needs for its work. So what tells them apart is each rank's own time per step, the
 * parts that it need not share with anybody: data, h2d, forward, backward, optimizer. (With
 * --sync-bn ranks also meet inside forward and backward, and differ less than their work does.)
 *
 * The slowest is held against the median of the others, so that of two ranks one that needs 20 %
 * more is 20 % behind. Chance makes some rank the slowest in every run: one is called slow where it
 * is behind by RANKS_BEHIND, and by four standard errors of the two medians of steps that are
 * compared (each 1.2533 sigma / sqrt(steps), with 1.4826 times the median absolute deviation for
 * sigma), so that a machine on which steps differ much names nobody after a few. */
#ifndef RESULTS_RANKS_H
#define RESULTS_RANKS_H

#include "results/run.h"

#include <stdbool.h>

enum rank_part {
    RANK_DATA,
    RANK_H2D,
    RANK_FORWARD,
    RANK_BACKWARD,
    RANK_OPTIMIZER,
    RANK_OWN_PARTS,             /* how many those are */
    RANK_COMM = RANK_OWN_PARTS, /* that nothing hid */
    RANK_OTHER,                 /* what no part explains */
    RANK_PARTS
};

/* A rank's mean step. */
struct rank_step {
    const char *host; /* the run's; as recorded */
    double part[RANK_PARTS];
    /* The median over the steps of an epoch of each part, their mean over the epochs, so that a few
     * steps that waited for long do not count; where records have no medians, the means. */
    double typical[RANK_OWN_PARTS];
    double own_s;        /* without communication: the median over the steps of an epoch, their mean
                          * over the epochs; where records have no medians, the sum of the first
                          * RANK_OWN_PARTS */
    double error_s;      /* the standard error of own_s; 0 where records have no medians */
    double images_per_s; /* its images by its own time: what it would do if it never waited */
};

/* The latest attempt in which several ranks finished an epoch together, over all such epochs of
 * it. Earlier attempts may have had other ranks on other hosts. */
struct ranks {
    int64_t n;              /* 0: there is no such attempt, and the rest is zero */
    struct rank_step *rank; /* (n) */
    int64_t slowest;        /* the rank whose own time is the longest */
    double median_own_s;    /* over the others */
    double behind;          /* the slowest rank's own time over that median, minus 1 */
    double noise;           /* by which share it may be behind by chance */
    bool slow;              /* it is behind by more than that, and by RANKS_BEHIND */
    enum rank_part part;    /* whose typical time exceeds the median over the others the most */
    double part_s;          /* by how much */
};

#define RANKS_BEHIND 0.10

/* STATUS_DATA for times beyond all measure. The caller frees with ranks_free; `run` stays in use
 * until then. */
MUST_CHECK enum status ranks_of(const struct run *run, struct ranks *ranks);
void ranks_free(struct ranks *ranks);

/* "data", "h2d" ... as the columns of records are called. */
const char *rank_part_str(enum rank_part part);
#endif
