/* The time of an all-reduce on a network of nodes, and its measurement by nccl-tests.
 *
 * The time of a message is the link's latency plus bytes / bandwidth (Hockney's model). Ranks fill
 * the nodes one after the other. A ring visits all ranks of a node before it continues to the next
 * node, so it has as many hops between nodes as there are nodes. For S bytes over n ranks on m
 * nodes:
 *
 *   ring   2 (m-1) latency between nodes + 2 (n-m) latency within them + 2 (n-1)/n S / bandwidth
 *          (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 *          workstations", 2009)
 *   tree   2 ceil(log2 m) latency between nodes + 2 (g-1) latency within them + 2 S / bandwidth
 *          for two trees that share the load, with g ranks in a chain on each node (Sanders, Speck
 *          and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 *          2009)
 *
 * `bandwidth` is the bandwidth of the narrowest link in use: between nodes, if there are several,
 * and within a node, if it has several ranks. If there is a table of times measured with exactly
 * this number of ranks, the table replaces the formula. For other numbers the result is limited to
 * the times of the tables with fewer and with more ranks, so it never falls as ranks are added. */
#pragma once

#include "base/status.h"

#include <stdint.h>

enum { NCCL_ROWS_MAX = 128 };

/* The output of nccl-tests' all_reduce_perf. */
struct nccl_table {
    int64_t ranks, nodes; /* >= 2; >= 1 */
    int n;
    struct nccl_row {
        double bytes;
        double seconds;   /* time of an all-reduce in place */
    } row[NCCL_ROWS_MAX]; /* (n >= 2) ascending by bytes */
};

/* Reads the whole output, including the lines that list the ranks and their hosts. STATUS_DATA if
 * the output is damaged, or if its ratio of bus bandwidth to algorithm bandwidth is not the ratio
 * of an all-reduce. STATUS_MISMATCH if the output reports wrong results. */
MUST_CHECK enum status nccl_table_load(const char *path, struct nccl_table *out);

struct link {
    double latency_s;
    double bytes_per_s; /* > 0 */
};

enum cost_algorithm { COST_RING, COST_TREE, COST_AUTO /* the faster of the two */ };

struct network_cost {
    struct link intra, inter; /* within a node; between nodes */
    int64_t ranks_per_node;   /* >= 1 */
    enum cost_algorithm algorithm;
    const struct nccl_table *table; /* (n_tables), all with different numbers of ranks; not owned */
    int n_tables;
};

/* Returns the seconds until every rank has the sum of all ranks' buffers. Each buffer has `bytes`
 * bytes. 0 for a single rank. */
double cost_allreduce(const struct network_cost *c, int64_t ranks, double bytes);

/* Sets c's links and ranks per node. The link within a node comes from the largest table (by ranks)
 * measured on one node; the link between nodes comes from the largest table measured on several
 * nodes. A link without such a table keeps its values. There is one exception: if there are only
 * tables of several nodes, the latency within a node is at most the mean latency of a hop in the
 * largest table, and the bandwidth at least that between nodes. STATUS_DATA if times do not grow
 * with size. */
MUST_CHECK enum status cost_from_tables(struct network_cost *c);
