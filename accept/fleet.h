/* Nodes compared with each other, to find those that differ from the rest: the rule with its bounds
 * is in docs/howto/accept.md. Pure functions, but for the reports.
 *
 * Nodes of the same hardware form a group. Only nodes of one group are compared with each other. A
 * metric has one value per node. The reference is the median m, and the spread s = 1.4826 median(|x
 * - m|) estimates the standard deviation (F. Hampel, "The influence curve and its role in robust
 * estimation", JASA 69, 1974). A value's loss is how much worse than m it is, as a share of m. The
 * bound of 3.5 s is from B. Iglewicz and D. Hoaglin, "How to detect and handle outliers", 1993. A
 * value better than m by more than the bound of FAIL warns, a sign that m itself is wrong.
 *
 * The values may fall into a low part and a high part ("groups" in messages), with a gap of more
 * than `fail` between them. Then m and s are of the better part: the slow half of a fleet is no
 * reference for the rest. If no part is better (ACCEPT_EVEN), they are of the larger part. */
#pragma once

#include "accept/accept_spec.h"
#include "base/words.h"
#include "results/nodes.h"

#include <stdio.h>

enum {
    FLEET_LEAST = 3,  /* a group with fewer nodes is not compared */
    FLEET_SPREAD = 8, /* with fewer nodes than this, the spread changes no bound */
};

/* Bounds of the loss, as shares of the reference. */
struct fleet_bounds {
    double warn, fail;
};

/* --- one metric --- */

struct fleet_sample {
    int64_t n;
    double median, spread;      /* of all values */
    bool split;                 /* the values fall into two parts: */
    double low, high;           /* medians of the parts, */
    int64_t n_low, n_high;      /* and their sizes */
    double reference, scatter;  /* m and s, as defined at the top of this file */
    struct fleet_bounds bounds; /* the given bounds, adapted to the spread */
};

/* Summarises finite values x[0..n), n >= 1. The summary has the unit of the values. */
MUST_CHECK enum status fleet_sample_of(const double *x, int64_t n, enum accept_better better,
                                       struct fleet_bounds bounds, struct fleet_sample *out);

/* Judges a value: PASS, WARN or FAIL. Sets *loss, which is below 0 for a value better than the
 * reference. */
enum verdict fleet_verdict(const struct fleet_sample *s, enum accept_better better, double value,
                           double *loss);

/* Which values of a metric are better, from its name alone; EVEN if the name does not say. */
enum accept_better fleet_better(const char *metric);

/* --- all nodes --- */

struct fleet_config {
    struct fleet_bounds bounds;     /* default bounds; if `spec` is NULL, the bounds of all
                                     * metrics */
    const struct accept_spec *spec; /* if not NULL, its fleet_within and fleet_warn_within are the
                                     * bounds, and a metric "check/metric" that has neither is not
                                     * compared */
    int level;                      /* highest level of the spec's checks that must have values */
    const json_t *better; /* {metric: accept_better}, or NULL; fleet_better() decides for metrics
                           * that are not in this object */
    const json_t *why;    /* {node or "node/check": why it has no values}, or NULL */
    const struct words *remarks; /* about the input, for the reports; NULL: none */
    char *const *expected;       /* (n_expected) names of nodes that must be in the input */
    int n_expected;
};

/* A verdict other than PASS: on one metric of a node, or on the whole node. */
struct fleet_finding {
    char metric[NODE_METRIC_MAX]; /* "": the finding is about the whole node */
    enum verdict verdict;
    double value, reference; /* NAN: not known */
    char reason[ACCEPT_REASON_SIZE];
};

struct fleet_node {
    char name[NODE_NAME_MAX];
    int group; /* -1: the node is absent from the input, or has no values */
    enum verdict verdict;
    int count[VERDICTS]; /* number of metrics with each verdict */
    int n;
    struct fleet_finding *finding; /* (n) */
};

/* One metric of one group. */
struct fleet_metric {
    char name[NODE_METRIC_MAX];
    int group;
    enum accept_better better;
    int missing;                /* number of nodes of the group that have no value */
    struct fleet_sample sample; /* if sample.n is below FLEET_LEAST, no node was compared with it */
};

struct fleet_group {
    char hardware[NODE_HARDWARE_MAX];
    int n; /* nodes */
};

struct fleet {
    int n_groups; /* the largest first */
    struct fleet_group *group;
    int n_nodes; /* first the nodes of the input, in the order of the input, then the absent
                  * nodes */
    struct fleet_node *node;
    int n_metrics; /* sorted by group and name */
    struct fleet_metric *metric;
    int count[VERDICTS];         /* nodes */
    const struct words *remarks; /* those of the configuration */
};

/* Judges the nodes. A metric that a node of the group has, or that the spec bounds, is MISSING on a
 * node without a value; a reason that many metrics of a check share is found once.
 * "<check>/return_code" (fleet_job.c) must be 0; the value 5 is MISSING, and any other value is
 * FAIL. A node without a single PASS is MISSING. On success the caller frees. */
MUST_CHECK enum status fleet_judge(const struct nodes *nodes, const struct fleet_config *config,
                                   struct fleet *fleet);
void fleet_free(struct fleet *fleet); /* no-op on a zeroed struct */

/* --- the results --- */

/* Prints a table for the terminal, which ends with a line such as "FAILED: 4 nodes: 2 passed, ...".
 */
void fleet_print(const struct fleet *fleet, bool strict, FILE *out);

/* Writes fleet.json, .md, .html and .xml (JUnit: each node is a case) into the folder, and makes
 * the folder if it is missing. Also writes good.txt, failed.txt and missing.txt, with one node's
 * name per line. Each node is in exactly one of these three files. */
MUST_CHECK enum status fleet_write(const struct fleet *fleet, bool strict, const char *dir);
