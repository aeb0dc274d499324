/* What an all-reduce costs on a network of nodes.
 *
 * A message takes a link's latency and its bytes by the link's bandwidth (Hockney's model). Ranks
 * fill nodes; a ring visits the ranks of a node one after the other, so that it crosses between
 * nodes once for each of them. Of S bytes over n ranks on m nodes:
 *
 *   ring   2 (m-1) latency between nodes + 2 (n-m) latency within them + 2 (n-1)/n S / bandwidth
 *          (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 *          workstations", 2009)
 *   tree   2 ceil(log2 m) latency between nodes + 2 (g-1) latency within them + 2 S / bandwidth
 *          for two trees that share the load, with g ranks in a chain on each node (Sanders, Speck
 *          and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 *          2009)
 *
 * where bandwidth is that of the link between nodes as soon as there are several. Where a table
 * of measured times is at hand for just this number of ranks, it is used instead. */
#ifndef PREDICT_COST_H
#define PREDICT_COST_H

#include "predict/nccl_table.h"

struct link {
    double latency_s;
    double bytes_per_s; /* > 0 */
};

enum cost_algorithm { COST_RING, COST_TREE, COST_AUTO /* the cheaper of the two */ };

struct network_cost {
    struct link intra, inter; /* within a node; between nodes */
    int64_t ranks_per_node;   /* >= 1 */
    enum cost_algorithm algorithm;
    const struct nccl_table *table; /* (n_tables) of different numbers of ranks; not owned */
    int n_tables;
};

/* Seconds until every rank has the sum of `bytes`; 0 for a single rank. */
double cost_allreduce(const struct network_cost *c, int64_t ranks, double bytes);

/* Takes links and ranks per node from c's tables: a table of one node says what is within, one of
 * several what is between, the largest of each kind. What no table says stays as it is, but for a
 * latency within nodes that would exceed what a table of several nodes measured. */
MUST_CHECK enum status cost_from_tables(struct network_cost *c);

/* "ring", "tree", "auto"; and the other way round, STATUS_USAGE for another word. */
const char *cost_algorithm_str(enum cost_algorithm a);
MUST_CHECK enum status cost_algorithm_parse(const char *word, enum cost_algorithm *out);

#endif
