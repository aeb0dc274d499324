/* Computes buckets and their times from the layers of a network. */
#include "predict/workload.h"

#include "model/graph.h"

#include <math.h>

static const double first_bytes = 1 << 20;

/* Number of trained parameters of a node. */
static double params_of(const struct graph *g, int node)
{
    double count = 0;
    for (int i = 0; i < g->n_params; i++)
        if (g->param[i].node == node && param_is_trained(&g->param[i]))
            count += (double)param_count(&g->param[i]);
    return count;
}

/* Floating-point operations of a node's backward pass, which computes the gradients of the weights
 * and of the input. */
static double backward_flops(const struct graph *g, int i)
{
    bool is_first = g->node[i].in[0] >= 0 && g->node[g->node[i].in[0]].kind == NODE_INPUT;
    return node_flops_forward(g, i) * (is_first ? 1 : 2);
}

static enum status bucket_add(struct workload *w, double ready, double bytes)
{
    if (w->n == WORKLOAD_BUCKETS_MAX)
        return status_fail(STATUS_USAGE, "more than %d gradient buckets: use larger buckets",
                           WORKLOAD_BUCKETS_MAX);
    w->bucket[w->n++] = (struct bucket){.ready = ready, .bytes = bytes};
    return STATUS_OK;
}

static enum status cut(const struct graph *g, const struct workload_config *c, double flops,
                       struct workload *w)
{
    double done = 0, waiting = 0, want = fmin(first_bytes, c->bucket_bytes);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        double params = params_of(g, i);
        done += backward_flops(g, i);
        waiting += params;
        if (params == 0 || waiting * 4 < want)
            continue;
        TRY(bucket_add(w, fmin(done / flops, 1), waiting * c->gradient_bytes));
        waiting = 0;
        want = c->bucket_bytes;
    }
    return waiting > 0 ? bucket_add(w, 1, waiting * c->gradient_bytes) : STATUS_OK;
}

enum status workload_of(const struct workload_config *c, struct workload *w)
{
    struct graph *g;
    double forward, backward = 0;
    *w = (struct workload){0};
    TRY(graph_build(c->arch, c->classes, c->image_size, &g));
    forward = graph_flops_forward(g);
    for (int i = 0; i < g->n_nodes; i++)
        backward += backward_flops(g, i);
    w->forward = forward / (forward + backward);
    w->backward = backward / (forward + backward);
    enum status st = c->overlap
                         ? cut(g, c, backward, w)
                         : bucket_add(w, 1, (double)graph_params_trained(g) * c->gradient_bytes);
    graph_free(g);
    return st;
}

double workload_bytes(const struct workload *w)
{
    double sum = 0;
    for (int i = 0; i < w->n; i++)
        sum += w->bucket[i].bytes;
    return sum;
}
