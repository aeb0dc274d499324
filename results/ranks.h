/* Finds out whether a run has a straggler, and which rank it is.
 *
 * Ranks that average gradients end every step together: in communication, the fast ranks wait for
 * the slow one. So ranks are compared by their own time per step, without communication: data, h2d,
 * forward, backward, optimizer. (With --sync-bn, ranks also communicate in forward and backward.
 * Their own times then include waiting, so a straggler is less visible.)
 *
 * The slowest rank is compared with the median of the other ranks: if its own time
 * is 20 % longer, `behind` is 0.2. Some rank is always the slowest, if only by chance. The slowest
 * rank is a straggler if `behind` is at least RANKS_BEHIND and at least four standard errors of the
 * difference of the two medians. (A median over steps has the standard error 1.2533 sigma /
 * sqrt(steps); sigma is 1.4826 times the median absolute deviation.) Because of this limit, noise
 * in a few steps does not make a rank a straggler. */
#pragma once

#include "results/run.h"

#include <stdbool.h>

enum rank_part {
    RANK_DATA,
    RANK_H2D,
    RANK_FORWARD,
    RANK_BACKWARD,
    RANK_OPTIMIZER,
    RANK_OWN_PARTS,             /* the number of the parts above */
    RANK_COMM = RANK_OWN_PARTS, /* exposed communication */
    RANK_OTHER,                 /* the rest of the step */
    RANK_PARTS
};

/* The mean step and the typical step of a rank. */
struct rank_step {
    const char *host; /* the rank's host, as recorded, not cleaned for display */
    double part[RANK_PARTS];
    /* Typical time of each part: the median over an epoch's steps, averaged over the epochs, so
     * that a few long steps do not count; if records have no medians, the mean. */
    double typical[RANK_OWN_PARTS];
    double own_s;        /* time without communication: the median over an epoch's steps, averaged
                          * over the epochs; if records have no medians, the sum of the first
                          * RANK_OWN_PARTS parts */
    double error_s;      /* the standard error of own_s; 0 where records have no medians */
    double images_per_s; /* the rank's images divided by its own time: throughput without waiting */
};

/* The ranks of the latest attempt in which several ranks completed an epoch. Their times are means
 * over the epochs that all of these ranks completed. Earlier attempts may have had other ranks on
 * other hosts. */
struct ranks {
    int64_t n;              /* 0: there is no such attempt, and all other members are 0 */
    struct rank_step *rank; /* (n) */
    int64_t slowest;        /* the rank whose own time is the longest */
    double median_own_s;    /* median of the other ranks' own times */
    double behind; /* relative excess of the slowest rank's own time over that median: 0.2 means 20
                    * % longer */
    double noise;  /* four standard errors of `behind` */
    bool slow;     /* the slowest rank is a straggler: `behind` is at least `noise` and at
                    * least RANKS_BEHIND */
    enum rank_part part; /* the part of the step in which the slowest rank exceeds the median of
                          * the other ranks the most */
    double part_s; /* difference between the slowest rank and that median in this part, seconds per
                    * step */
};

#define RANKS_BEHIND 0.10

/* Evaluates the records of a run's ranks. STATUS_DATA for times out of range. The caller frees
 * *ranks with ranks_free, and must not free `run` before that. */
MUST_CHECK enum status ranks_of(const struct run *run, struct ranks *ranks);
void ranks_free(struct ranks *ranks);

/* Returns "data", "h2d" ..., which are in the names of the records' columns. */
const char *rank_part_str(enum rank_part part);
