/* Measuring a second look (pair.h) between the ranks of an MPI job, a rank a node. */
#ifndef ACCEPT_PAIR_RUN_H
#define ACCEPT_PAIR_RUN_H

#include "accept/pair.h"
#include "bench/noise_step.h"
#include "comm/comm.h"

#include <jansson.h>
#include <stdio.h>

/* Grows when a reader of the previous version of the JSON would misunderstand. */
enum { PAIR_SCHEMA = 1 };

/* Of the short allreduce of a meeting, which takes what the link and its ends need for any. */
enum { PAIR_LATENCY_BYTES = 8 };

struct pair_config {
    const bool *suspect;         /* (ranks) */
    const char *const *name;     /* (ranks) */
    int partners;                /* that each suspect meets */
    uint64_t seed;               /* of the plan */
    double within;               /* see pair_judging */
    double latency_within;       /* likewise */
    int64_t bytes;               /* of a meeting's long allreduce */
    int samples;                 /* of each size, timed; medians count */
    struct bench_net_config net; /* the node's own step; its `rounds` are timed */
    double drag;                 /* share by which this rank's own step is made longer: a fault */
    FILE *progress;              /* rank 0's; NULL: none */
};

/* Same on every rank. */
struct pair_result {
    struct pair_plan plan;
    double *step;           /* (ranks) seconds, the median */
    struct pair_link *link; /* (plan.n) */
    int n;
    struct pair_finding *finding; /* (n) */
};

/* Every rank calls it with the same configuration, drag and progress apart. Each times its own
 * step; then pairs meet, round by round. A rank that is lost, or a link that stands still, ends the
 * job under the communicator's time limit, and the round that it was is the last line of
 * `progress`. STATUS_UNSUPPORTED on a communicator that cannot be divided. The caller frees
 * `result`. */
MUST_CHECK enum status pair_run(const struct pair_config *c, struct comm *comm,
                                struct pair_result *result);
void pair_result_free(struct pair_result *result); /* fine on a zeroed struct */

/* A table of what was measured and the findings in words. */
void pair_print(const struct pair_config *c, const struct pair_result *r, FILE *out);

/* {"record": "pair", "schema": 1, "passed", "seed", "within", "latency_within", "bytes",
 * "steps": [{"node", "suspect", "step_s"}], "meetings": [{"round", "reference", "nodes": [a, b],
 * "busbw", "latency_s", "wrong"}], "findings": [{"node", "verdict", "reason"}]}. The caller owns
 * it; NULL when memory is short. */
json_t *pair_json(const struct pair_config *c, const struct pair_result *r);
#endif
