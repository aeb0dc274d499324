/* Nodes, and the numbers that were measured on each: SuperBench's results-summary.jsonl.
 *
 * A line is a flat object for one node: its name under "node", a number for each metric under
 * "{benchmark}/[{run}/]{metric}[:rank]" (SuperBench's user manual, "Benchmark results"). null
 * says that a metric was not measured. "hardware", which SuperBench does not know and leaves alone,
 * may name what the node is made of: nodes of different hardware are not compared. */
#ifndef RESULTS_NODES_H
#define RESULTS_NODES_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    NODES_MAX = 65536,
    NODE_METRICS_MAX = 16384,
    NODE_NAME_MAX = 256, /* with their NULs */
    NODE_METRIC_MAX = 512,
    NODE_HARDWARE_MAX = 256,
};

struct node_value {
    char *metric;
    double value; /* NAN: not measured */
};

struct node_row {
    char name[NODE_NAME_MAX];
    char hardware[NODE_HARDWARE_MAX]; /* fit to be shown; "" where it is not told */
    int n;
    struct node_value *value; /* (n) ascending by metric, each once */
};

struct nodes {
    int n, capacity;
    struct node_row *node;
};

/* Whether a node may be called so: letters, digits, '.', '-' and '_', with a letter or a digit
 * first. Such a name is fit for a list of a scheduler's, and for a folder. */
bool node_name_ok(const char *name);

/* Adds the nodes of a file. STATUS_DATA, with the line's number, for what is not as it should be: a
 * value that is no number, a name that cannot be one, a node that is there already, a torn line,
 * no node at all, too much of anything. */
MUST_CHECK enum status nodes_read(const char *path, struct nodes *nodes);

/* Adds one node from its object; the same refusals, but for the place. */
MUST_CHECK enum status nodes_add(struct nodes *nodes, const json_t *object);

/* The value of a node's metric; NULL: it has none of that name. */
const struct node_value *node_find(const struct node_row *node, const char *metric);

void nodes_free(struct nodes *nodes); /* fine on a zeroed struct */

/* Writes the objects {name: {"node": name, ...}} a line each, whole or not at all. */
MUST_CHECK enum status nodes_write(const json_t *nodes, const char *path);
#endif
