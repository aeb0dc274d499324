/* The measurements of a retest (pair.h) between the ranks of an MPI job, one rank per node. */
#pragma once

#include "accept/pair.h"
#include "bench/options.h"
#include "comm/comm.h"

#include <jansson.h>
#include <stdio.h>

/* Version of the JSON; increases when a program that reads the previous version would misunderstand
 * the new one. */
enum { PAIR_SCHEMA = 1 };

/* Bytes of the short allreduce of a pair test. The time of this allreduce measures the latency of
 * the link and of the two nodes. */
enum { PAIR_LATENCY_BYTES = 8 };

struct pair_config {
    const bool *suspect;       /* (ranks) */
    const char *const *name;   /* (ranks) */
    bool alone;                /* no other rank is on this rank's host */
    int partners;              /* number of good ranks that each suspect is paired with */
    uint64_t seed;             /* of the plan */
    double within;             /* see pair_judging */
    double latency_within;     /* likewise */
    int64_t bytes;             /* bytes of a pair test's long allreduce */
    int samples;               /* number of timings of each size; their median is used */
    struct bench_options step; /* the node's own step; step.rounds: number of timings */
    double delay;              /* injected delay of this rank's own step, as a fraction of the step
                                * time */
    FILE *progress;            /* gets rank 0's progress lines; NULL: none */
};

/* The result, which is the same on every rank. */
struct pair_result {
    struct pair_plan plan;
    double *step;             /* (ranks) seconds, the median */
    struct pair_link *link;   /* (plan.n) */
    struct host_noise *noise; /* (ranks) from the first step to the last pair test */
    int n;
    struct pair_finding *finding; /* (n) */
};

/* Every rank calls it with the same configuration, except for delay and progress. Each rank times
 * its own step; then the pairs are tested, round by round. A lost rank or a hanging link ends the
 * job after the communicator's time limit; the last line of `progress` then names the round.
 * STATUS_UNSUPPORTED for a communicator that cannot be divided. The caller frees `result`. */
MUST_CHECK enum status pair_run(const struct pair_config *c, struct comm *comm,
                                struct pair_result *result);
void pair_result_free(struct pair_result *result); /* no-op on a zeroed struct */

/* Prints a table of the measurements, and the findings as text. */
void pair_print(const struct pair_config *c, const struct pair_result *r, FILE *out);

/* {"record": "pair", "schema": 1, "passed", "seed", "within", "latency_within", "bytes",
 * "steps": [{"node", "suspect", "step_s", "noise"}], "meetings": [{"round", "reference", "nodes":
 * [a, b], "busbw", "latency_s", "wrong"}], "findings": [{"node", "verdict", "reason"}]}. The caller
 * owns it; NULL when memory is short. */
json_t *pair_json(const struct pair_config *c, const struct pair_result *r);
