/* Forecasts a step: the communication of its buckets, overlapped with the backward pass. */
#include "predict/forecast.h"

#include <inttypes.h>
#include <math.h>

/* If all other parts take less than this fraction of a step, compute is the limit of throughput. */
#define LIMIT_SHARE 0.05

/* Returns the seconds of communication after the slowest rank's backward pass. `own`: the
 * slowest rank's own time in seconds. `cost`: seconds to communicate each bucket. */
static double exposed(const struct workload *w, const double *cost, double own)
{
    double end = 0;
    for (int i = 0; i < w->n; i++)
        end = fmax(end, (w->forward + w->bucket[i].ready * w->backward) * own) + cost[i];
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

/* Finds image_s by bisection. This is correct because the time of a step never falls when image_s
 * grows. */
enum status forecast_calibrate(struct system *s, int64_t ranks, int64_t batch, double images_per_s)
{
    struct straggler late;
    struct forecast f;
    double low = 0, high = (double)ranks / images_per_s; /* the highest value: the whole step is
                                                          * compute */
    straggler_of(ranks, &late);
    for (int i = 0; i < 60; i++) {
        s->image_s = (low + high) / 2;
        forecast_step(s, ranks, batch, &late, &f);
        if (f.images_per_s > images_per_s)
            low = s->image_s;
        else
            high = s->image_s;
    }
    if (fabs(f.images_per_s / images_per_s - 1) < 1e-6)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "the measured %" PRId64 " ranks reached %.1f images/s, more than the given "
                       "network or storage allows: give a faster network or storage",
                       ranks, images_per_s);
}

const char *limit_str(enum limit l)
{
    static const char *const names[] = {[LIMIT_COMPUTE] = "compute",
                                        [LIMIT_STRAGGLERS] = "stragglers",
                                        [LIMIT_LATENCY] = "latency",
                                        [LIMIT_BANDWIDTH] = "bandwidth",
                                        [LIMIT_INPUT] = "input"};
    return names[l];
}
