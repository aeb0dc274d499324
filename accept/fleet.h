/* Nodes held against each other: which of a fleet is not like the rest. Pure functions.
 *
 * A fleet is the nodes of one hardware; another hardware's are a fleet of their own. A metric has
 * one value a node. The reference is the median m, and the spread s = 1.4826 median(|x - m|), which
 * for a normal distribution estimates its standard deviation (F. Hampel, "The influence curve and
 * its role in robust estimation", JASA 69, 1974). A value's loss is how much worse than m it is, as
 * a share of m.
 *
 *   FAIL  the loss is above `fail`, or above 3.5 s where the fleet scatters more than that, but
 *         never is more than 2 `fail` let pass: 3.5 is the bound for outliers of B. Iglewicz and
 *         D. Hoaglin, "How to detect and handle outliers", 1993
 *   WARN  the loss is above `warn`, or above 3.5 s and 1 %; or the value is better than m by more
 *         than what would fail, which then says something of m
 *
 * Of fewer than FLEET_SPREAD nodes the spread says too little, and moves no bound.
 *
 * Where the values fall into two groups, a gap of more than `fail` between them and at least a
 * quarter of the nodes (and two) in each, m and s are those of the better group: half of a fleet
 * that is slow is no measure for the rest. */
#ifndef ACCEPT_FLEET_H
#define ACCEPT_FLEET_H

#include "accept/result.h"
#include "results/nodes.h"

enum {
    FLEET_LEAST = 3,  /* nodes that can be held against each other */
    FLEET_SPREAD = 8, /* whose spread is known well enough to move a bound */
};

/* Shares of the reference. */
struct fleet_bounds {
    double warn, fail;
};

/* --- one metric --- */

struct fleet_sample {
    int64_t n;
    double median, spread; /* of all */
    bool split;            /* two groups: */
    double low, high;      /* their medians, */
    int64_t n_low, n_high;
    double reference, scatter;  /* m and s that values are held against */
    struct fleet_bounds bounds; /* that hold, after the spread has had its say */
};

/* Of finite values x[0..n), n >= 1, in the same unit. */
MUST_CHECK enum status fleet_sample_of(const double *x, int64_t n, enum accept_better better,
                                       struct fleet_bounds bounds, struct fleet_sample *out);

/* PASS, WARN or FAIL; *loss is below 0 for what is better than the reference. */
enum accept_verdict fleet_verdict(const struct fleet_sample *s, enum accept_better better,
                                  double value, double *loss);

/* Which way a metric is better, from its name alone: EVEN where the name does not tell. */
enum accept_better fleet_better(const char *metric);

/* --- all nodes --- */

struct fleet_config {
    struct fleet_bounds bounds;     /* of metrics without their own */
    const struct accept_spec *spec; /* not NULL: its fleet_within are the bounds, and metrics
                                     * "check/metric" without one are not held against others' */
    int level;                      /* up to which the spec's checks have to be there */
    const json_t
        *better; /* {metric: number of accept_better} where the name is not asked; or NULL */
    char *const *expected; /* (n_expected) names of nodes that have to be there */
    int n_expected;
};

/* What a node did not pass, or no more than passed. */
struct fleet_finding {
    char metric[NODE_METRIC_MAX]; /* "": the node as a whole */
    enum accept_verdict verdict;
    double value, reference; /* NAN: not known */
    char reason[ACCEPT_REASON_SIZE];
};

struct fleet_node {
    char name[NODE_NAME_MAX];
    int group; /* -1: nothing is there of it, or no value */
    enum accept_verdict verdict;
    int count[ACCEPT_VERDICTS]; /* of metrics */
    int n, capacity;
    struct fleet_finding *finding; /* (n) */
};

/* One metric of one group. */
struct fleet_metric {
    char name[NODE_METRIC_MAX];
    int group;
    enum accept_better better;
    int missing;                /* nodes of the group without a value */
    struct fleet_sample sample; /* .n below FLEET_LEAST: nobody was held against it */
};

struct fleet_group {
    char hardware[NODE_HARDWARE_MAX];
    int n; /* nodes */
};

struct fleet {
    int n_groups; /* the largest first */
    struct fleet_group *group;
    int n_nodes; /* as they came, and those that are not there */
    struct fleet_node *node;
    int n_metrics, capacity; /* by group and name */
    struct fleet_metric *metric;
    int count[ACCEPT_VERDICTS]; /* nodes */
};

/* Judges the nodes. A metric that any node of a group has, or the spec bounds, is MISSING where a
 * node has no value; "<check>/return_code" (nodes_of_report in jsonl.h) must be 0: 5 is MISSING,
 * all else FAIL. A node without a single PASS is MISSING. On success the caller frees. */
MUST_CHECK enum status fleet_judge(const struct nodes *nodes, const struct fleet_config *config,
                                   struct fleet *fleet);
void fleet_free(struct fleet *fleet); /* fine on a zeroed struct */

/* Exit code: 4 where a node failed, else 5 where one is missing or there is none, else 0; `strict`
 * makes a warning a failure. */
int fleet_exit_code(const struct fleet *fleet, bool strict);
#endif
