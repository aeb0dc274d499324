/* A second look at nodes that failed: each meets good ones, and what happens with whom tells the
 * node from the network. Pure functions; pair_run.h measures.
 *
 * A node's own step is held against the median of the good nodes' own; a meeting, a collective
 * between two nodes of a few bytes and of many, against the medians of meetings in which both are
 * good: a link may be slow to begin, or slow to carry. */
#ifndef ACCEPT_PAIR_H
#define ACCEPT_PAIR_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAIR_REASON_SIZE = 400, PAIR_REFERENCES_MAX = 32 };

/* Two ranks of one round, each of which is in no other meeting of it. */
struct pair_meeting {
    int round;
    bool reference; /* both are good */
    int a, b;       /* the suspect and its partner; or two good ones */
};

struct pair_plan {
    int ranks, rounds, n;
    struct pair_meeting *meeting; /* (n) by round */
};

/* Who meets whom among `ranks`, of which `suspect` (ranks) have failed: in the first round good
 * ones meet each other, then each suspect meets `partners` different good ones, or all there are. A
 * pure function of its arguments: good ones are dealt out by the seed. STATUS_DATA where all have
 * failed, or none has. On success the caller frees. */
MUST_CHECK enum status pair_plan_make(const bool *suspect, int ranks, int partners, uint64_t seed,
                                      struct pair_plan *plan);
void pair_plan_free(struct pair_plan *plan); /* fine on a zeroed struct */

/* The meeting of a rank in a round; -1: it rests. */
int pair_plan_meeting(const struct pair_plan *plan, int round, int rank);

/* What a meeting measured. */
struct pair_link {
    double busbw;   /* of many bytes: 1e9 a second; NAN: not measured */
    double latency; /* seconds of a few bytes; NAN: not measured */
    int64_t wrong;  /* elements that arrived wrong */
};

enum pair_verdict {
    PAIR_GONE,    /* as good as the good ones, alone and with each partner */
    PAIR_NODE,    /* fails alone as well */
    PAIR_PORT,    /* fails with every partner, of which there were several */
    PAIR_LINK,    /* fails with some partners, and not with others */
    PAIR_EITHER,  /* fails with its only partner: its port or the link */
    PAIR_UNKNOWN, /* something was not measured, or has nothing to be held against */
};

/* "gone", "node", "connection", "link", "link or connection", "not known" */
const char *pair_verdict_str(enum pair_verdict v);

struct pair_finding {
    int rank; /* the suspect; of two good ones whose meeting failed the first */
    enum pair_verdict verdict;
    char reason[PAIR_REASON_SIZE]; /* in words, with numbers */
};

struct pair_judging {
    const struct pair_plan *plan;
    const bool *suspect;          /* (ranks) */
    const double *step;           /* (ranks) seconds of each one's own step; NAN: not measured */
    const struct pair_link *link; /* (plan->n) */
    const char *const *name;      /* (ranks) for words */
    double within;         /* share of the good ones' steps or bytes a second that may be lacking */
    double latency_within; /* share of the good ones' latency by which it may be longer */
};

/* A finding for each suspect, in the order of ranks, and then one for each meeting of good ones
 * that gave wrong values, or was slower than the others by more than may be (from three on). The
 * caller frees *finding. */
MUST_CHECK enum status pair_judge(const struct pair_judging *j, struct pair_finding **finding,
                                  int *n);

/* Exit code: 4 where anything fails again, else 5 where something is not known, else 0. */
int pair_exit_code(const struct pair_finding *finding, int n);
#endif
