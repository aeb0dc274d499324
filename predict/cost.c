/* Computes the time of a ring or tree all-reduce from latency and bandwidth. */
#include "predict/cost.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

static double nodes_of(const struct network_cost *c, int64_t ranks)
{
    return ceil((double)ranks / (double)c->ranks_per_node);
}

/* Bandwidth of the slowest link that the ranks use. */
static double narrowest(const struct network_cost *c, double nodes)
{
    double intra = c->ranks_per_node > 1 ? c->intra.bytes_per_s : INFINITY;
    return nodes > 1 ? fmin(intra, c->inter.bytes_per_s) : intra;
}

static double ring(const struct network_cost *c, int64_t ranks, double bytes)
{
    double n = (double)ranks, m = nodes_of(c, ranks);
    return 2 * (m - 1) * c->inter.latency_s + 2 * (n - m) * c->intra.latency_s +
           2 * (n - 1) / n * bytes / narrowest(c, m);
}

static double tree(const struct network_cost *c, int64_t ranks, double bytes)
{
    double m = nodes_of(c, ranks), g = fmin((double)ranks, (double)c->ranks_per_node);
    return 2 * ceil(log2(m)) * c->inter.latency_s + 2 * (g - 1) * c->intra.latency_s +
           2 * bytes / narrowest(c, m);
}

double cost_allreduce(const struct network_cost *c, int64_t ranks, double bytes)
{
    if (ranks < 2)
        return 0;
    double low = 0, high = INFINITY;
    if (c->algorithm != COST_TREE)
        high = ring(c, ranks, bytes);
    if (c->algorithm != COST_RING)
        high = fmin(high, tree(c, ranks, bytes));
    for (int i = 0; i < c->n_tables; i++) {
        double s = nccl_table_at(&c->table[i], bytes);
        if (c->table[i].ranks <= ranks)
            low = fmax(low, s);
        if (c->table[i].ranks >= ranks)
            high = fmin(high, s);
    }
    return fmax(low, high);
}

/* If `several` is true, returns the largest table (by ranks) among those measured on several nodes;
 * otherwise the largest among those measured on one node. NULL: there is no such table. */
static const struct nccl_table *largest(const struct network_cost *c, bool several)
{
    const struct nccl_table *best = NULL;
    for (int i = 0; i < c->n_tables; i++) {
        const struct nccl_table *t = &c->table[i];
        if ((t->nodes > 1) == several && (!best || t->ranks > best->ranks))
            best = t;
    }
    return best;
}

/* Fits the line of a table; `where` names its link in the message. */
static enum status fit(const struct nccl_table *t, const char *where, double *latency_s,
                       double *s_per_byte)
{
    nccl_table_fit(t, latency_s, s_per_byte);
    if (*s_per_byte > 0)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "the bandwidth %s is not known: larger messages did not take longer", where);
}

enum status cost_from_tables(struct network_cost *c)
{
    const struct nccl_table *within = largest(c, false), *between = largest(c, true);
    double latency, s_per_byte;
    if (within) {
        double n = (double)within->ranks;
        TRY(fit(within, "within a node", &latency, &s_per_byte));
        c->intra = (struct link){.latency_s = latency / (2 * (n - 1)),
                                 .bytes_per_s = 2 * (n - 1) / n / s_per_byte};
        c->ranks_per_node = within->ranks;
    }
    if (between) {
        double n = (double)between->ranks, m = (double)between->nodes;
        TRY(fit(between, "between nodes", &latency, &s_per_byte));
        if (!within) { /* a hop within a node cannot take longer than the mean of all hops */
            c->intra.latency_s = fmin(c->intra.latency_s, latency / (2 * (n - 1)));
            c->intra.bytes_per_s = fmax(c->intra.bytes_per_s, 2 * (n - 1) / n / s_per_byte);
        }
        latency -= 2 * (n - m) * c->intra.latency_s;
        c->inter = (struct link){.latency_s = fmax(latency, 0) / (2 * (m - 1)),
                                 .bytes_per_s = 2 * (n - 1) / n / s_per_byte};
        c->ranks_per_node = (between->ranks + between->nodes - 1) / between->nodes;
    }
    return STATUS_OK;
}

const char *cost_algorithm_str(enum cost_algorithm a)
{
    static const char *const names[] = {
        [COST_RING] = "ring", [COST_TREE] = "tree", [COST_AUTO] = "auto"};
    return names[a];
}
