/* Retesting nodes that failed: each suspect is paired with good nodes, and the pairs that fail show
 * whether the node or the network is at fault. Pure functions; pair_run.h measures.
 *
 * A node's own step is compared with the median of the good nodes' own steps. In a pair test, two
 * nodes run a short and a long allreduce. Their latency and bandwidth are compared with the medians
 * of the pair tests of two good nodes. */
#pragma once

#include "base/status.h"
#include "results/noise.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAIR_REASON_SIZE = 400, PAIR_REFERENCES_MAX = 32 };

/* A pair test: two ranks that are paired in one round. Each rank is in at most one pair test of a
 * round. */
struct pair_meeting {
    int round;
    bool reference; /* both ranks are good */
    int a, b;       /* the suspect and its partner, or two good ranks */
};

struct pair_plan {
    int ranks, rounds, n;
    struct pair_meeting *meeting; /* (n) sorted by round */
};

/* Plans the pair tests of `ranks` ranks, of which `suspect` (ranks) marks the failed ones. In the
 * first round good ranks are paired with each other. Then each suspect is paired with `partners`
 * different good ranks, or with all good ranks if there are fewer. A pure function of its
 * arguments: the seed shuffles the good ranks. STATUS_DATA if all ranks have failed, or if no rank
 * has failed. On success the caller frees the plan. */
MUST_CHECK enum status pair_plan_make(const bool *suspect, int ranks, int partners, uint64_t seed,
                                      struct pair_plan *plan);
void pair_plan_free(struct pair_plan *plan); /* no-op on a zeroed struct */

/* The index of a rank's pair test in a round; -1: it has none. */
int pair_plan_meeting(const struct pair_plan *plan, int round, int rank);

/* The measurements of a pair test. */
struct pair_link {
    double busbw;   /* bus bandwidth of the long allreduce, GB/s; NAN: not measured */
    double latency; /* time of the short allreduce, seconds; NAN: not measured */
    int64_t wrong;  /* elements with a wrong value */
};

enum pair_verdict {
    PAIR_GONE,    /* the fault is gone: the node passes alone and with each partner */
    PAIR_NODE,    /* the node's own step is too slow, whether its pair tests fail or not */
    PAIR_PORT,    /* the node fails with all of several partners */
    PAIR_LINK,    /* the node fails with some partners, and not with others */
    PAIR_EITHER,  /* the node fails; too few partners to distinguish its port from the link */
    PAIR_UNKNOWN, /* a value was not measured, or there is no reference for it */
};

/* "gone", "node", "connection", "link", "link or connection", "not known" */
const char *pair_verdict_str(enum pair_verdict v);

struct pair_finding {
    int rank; /* the suspect, or the first of two good ranks whose pair test failed */
    enum pair_verdict verdict;
    char reason[PAIR_REASON_SIZE]; /* text with the measured numbers */
};

struct pair_judging {
    const struct pair_plan *plan;
    const bool *suspect;            /* (ranks) */
    const double *step;             /* (ranks) seconds of each rank's own step; NAN: not measured */
    const struct pair_link *link;   /* (plan->n) */
    const struct host_noise *noise; /* (ranks) during all of a rank's measurements; NULL: not known.
                                     * The times of a disturbed rank count as not measured */
    const char *const *name;        /* (ranks) for the reasons */
    double within;         /* largest loss of step rate or bandwidth that passes, as a fraction of
                            * the good ranks' median */
    double latency_within; /* largest increase of latency that passes, as a fraction of the good
                            * ranks' median */
};

/* Makes a finding for each suspect, in the order of ranks. Then makes a finding for each failed
 * pair test of two good ranks: a test with wrong values, or a test that was slower than the limits
 * allow. Slowness counts only if at least three pair tests of two good ranks were measured. The
 * caller frees *finding. */
MUST_CHECK enum status pair_judge(const struct pair_judging *j, struct pair_finding **finding,
                                  int *n);

/* Exit code: 4 if a verdict is neither PAIR_GONE nor PAIR_UNKNOWN; else 5 if a verdict is
 * PAIR_UNKNOWN; else 0. */
int pair_exit_code(const struct pair_finding *finding, int n);
