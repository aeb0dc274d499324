/* Nodes, and the numbers measured on each: SuperBench's results-summary.jsonl.
 *
 * A line is a flat object for one node. The node's name has the key "node". A metric's number has
 * the key "{benchmark}/[{run}/]{metric}[:rank]" (SuperBench's user manual, "Benchmark results");
 * null means that the metric was not measured. "hardware", which SuperBench ignores, may name the
 * node's hardware: nodes of different hardware are not compared. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    NODES_MAX = 65536,
    NODE_METRICS_MAX = 16384,
    NODE_NAME_MAX = 256, /* the sizes of texts include the NUL */
    NODE_METRIC_MAX = 512,
    NODE_HARDWARE_MAX = 256,
};

struct node_value {
    char *metric;
    double value; /* NAN: not measured */
};

struct node_row {
    char name[NODE_NAME_MAX];
    char hardware[NODE_HARDWARE_MAX]; /* cleaned; "": not given */
    int n;
    struct node_value *value; /* (n) sorted by metric, without duplicates */
};

struct nodes {
    int n;
    struct node_row *node;
};

/* Returns whether a node's name has only letters, digits, '.', '-' and '_', and begins with a
 * letter or a digit. Such a name can be a part of a path and of a scheduler's list. */
bool node_name_ok(const char *name);

/* Adds the nodes of a file. STATUS_DATA, with the line's number in the message, if the file is not
 * valid: a value is not a number, a name is invalid, `nodes` already has the node, the last line is
 * partial, there is no node, or a limit above is exceeded. */
MUST_CHECK enum status nodes_read(const char *path, struct nodes *nodes);

/* Adds one node from its JSON object. STATUS_DATA as for nodes_read, without a line's number. */
MUST_CHECK enum status nodes_add(struct nodes *nodes, const json_t *object);

/* Returns the value of a node's metric, or NULL if the node has no metric of that name. */
const struct node_value *node_find(const struct node_row *node, const char *metric);

void nodes_free(struct nodes *nodes); /* zeroed: no effect */

/* Writes one line for each member {name: {"node": name, ...}} of `nodes`: the object of that node.
 * The file is written atomically. */
MUST_CHECK enum status nodes_write(const json_t *nodes, const char *path);
