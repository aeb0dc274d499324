/* Forecasts a step: the communication of its buckets, overlapped with the backward pass. */
#include "predict/forecast.h"

#include "base/stats.h"
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

/* If Phi(z)^n = u, a normal number is above z with probability 1 - u^(1/n). If n is large, u^(1/n)
 * is close to 1, and the difference would lose digits; expm1 keeps them. */
void straggler_of(int64_t ranks, struct straggler *s)
{
    for (int k = 0; k < STRAGGLER_QUANTILES; k++) {
        double u = (k + 0.5) / STRAGGLER_QUANTILES;
        s->z[k] = stats_normal_above(-expm1(log(u) / (double)ranks));
    }
}

/* If all other parts take less than this fraction of a step, compute is the limit of throughput. */
#define LIMIT_SHARE 0.05

/* Returns the seconds of communication after the slowest rank's backward pass. `own`: the
 * slowest rank's own time in seconds. `cost`: seconds to communicate each bucket. */
static double exposed(const struct workload *w, const double *cost, double own)
{
    double end = 0;
    for (int i = 0; i < w->n; i++) {
        double ready = (w->forward + w->bucket[i].ready * w->backward) * own;
        end = (end > ready ? end : ready) + cost[i]; /* fmax would take much longer */
    }
    return fmax(0, end - (w->forward + w->backward) * own);
}

static double costs(const struct workload *w, const struct network_cost *net, int64_t ranks,
                    double cost[WORKLOAD_BUCKETS_MAX])
{
    double sum = 0;
    for (int i = 0; i < w->n; i++)
        sum += cost[i] = cost_allreduce(net, ranks, w->bucket[i].bytes);
    return sum;
}

/* Returns whether more than half of the exposed communication is due to latency. */
static bool is_latency(const struct system *s, int64_t ranks, double own, double exposed_s)
{
    struct network_cost net = s->net;
    double cost[WORKLOAD_BUCKETS_MAX];
    net.n_tables = 0;
    net.intra.latency_s = net.inter.latency_s = 0;
    costs(&s->work, &net, ranks, cost);
    return exposed(&s->work, cost, own) < exposed_s / 2;
}

static enum limit limit_of(const struct system *s, const struct forecast *f)
{
    double most = fmax(f->straggler_s, fmax(f->exposed_s, f->input_s));
    if (most < LIMIT_SHARE * f->step_s)
        return LIMIT_COMPUTE;
    if (most == f->input_s)
        return LIMIT_INPUT;
    if (most == f->straggler_s)
        return LIMIT_STRAGGLERS;
    return is_latency(s, f->ranks, f->compute_s + f->straggler_s, f->exposed_s) ? LIMIT_LATENCY
                                                                                : LIMIT_BANDWIDTH;
}

void forecast_step(const struct system *s, int64_t ranks, int64_t batch,
                   const struct straggler *late, struct forecast *out)
{
    double cost[WORKLOAD_BUCKETS_MAX], step[STRAGGLER_QUANTILES];
    const double share = 1.0 / STRAGGLER_QUANTILES;
    double images = (double)ranks * (double)batch, typical = s->image_s * (double)batch;
    double read = s->input_bytes_per_s > 0 ? images * s->image_bytes / s->input_bytes_per_s : 0;
    *out = (struct forecast){.ranks = ranks, .batch = batch, .compute_s = typical};
    out->busy_s = costs(&s->work, &s->net, ranks, cost);
    for (int k = 0; k < STRAGGLER_QUANTILES; k++) {
        double own = typical * exp(s->sigma * late->z[k]);
        double left = exposed(&s->work, cost, own);
        step[k] = fmax(own + left, read);
        out->straggler_s += share * (own - typical);
        out->exposed_s += share * left;
        out->step_s += share * step[k];
    }
    /* With few ranks, rounding may make the slowest rank's mean time less than the typical time. */
    out->straggler_s = fmax(0, out->straggler_s);
    out->input_s = fmax(0, out->step_s - typical - out->straggler_s - out->exposed_s);
    out->step_p5_s = step[STRAGGLER_QUANTILES / 20];
    out->step_p95_s = step[STRAGGLER_QUANTILES - 1 - STRAGGLER_QUANTILES / 20];
    out->images_per_s = images / out->step_s;
    out->limit = limit_of(s, out);
}
