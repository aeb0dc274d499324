/* Fits or calibrates the parameters of a machine, and makes forecasts. */
#include "predict/prediction.h"

#include "base/stats.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Forecasts a step with its interval. */
static void forecast_at(const struct prediction *p, const struct fit_ensemble *e, int64_t ranks,
                        int64_t batch, double spread, struct forecast *out)
{
    struct straggler late;
    struct system s = p->system;
    struct forecast f;
    double x[FIT_MEMBERS], noise = 1.96 * fmax(e->noise, spread);
    straggler_of(ranks, &late);
    forecast_step(&s, ranks, batch, &late, out);
    for (int k = 0; k < FIT_MEMBERS; k++) {
        fit_place(e, k, &s);
        forecast_step(&s, ranks, batch, &late, &f);
        x[k] = log(f.images_per_s / out->images_per_s);
    }
    stats_sort(x, FIT_MEMBERS);
    double below = fmin(0, stats_quantile(x, FIT_MEMBERS, 0.025));
    double above = fmax(0, stats_quantile(x, FIT_MEMBERS, 0.975));
    out->low = out->images_per_s * exp(-hypot(below, noise));
    out->high = out->images_per_s * exp(hypot(above, noise));
}

static enum status learn(const struct prediction_config *c, struct prediction *p,
                         struct fit_ensemble *e)
{
    const struct measured *first = &c->source->point[0];
    while (c->fit && p->fitted < c->source->n &&
           (c->fit_up_to == 0 || first[p->fitted].ranks <= c->fit_up_to))
        p->fitted++;
    if (c->fit && p->fitted < 2)
        return status_fail(STATUS_USAGE,
                           "%d measured point%s are too few: a fit needs at least two, "
                           "with different numbers of ranks",
                           p->fitted, p->fitted == 1 ? "" : "s");
    if (!c->fit)
        TRY(forecast_calibrate(&p->system, first->ranks, first->batch, first->images_per_s));
    return fit_system(&p->system, &c->known, first, c->fit ? p->fitted : 1, c->fit, e);
}

/* The largest number of ranks of a forecast or a point. */
static int64_t most_ranks(const struct prediction_config *c)
{
    int64_t forecast = c->n_ranks > 0 ? c->ranks[c->n_ranks - 1] : 0;
    int64_t measured = c->source->point[c->source->n - 1].ranks;
    return forecast > measured ? forecast : measured;
}

static enum status check_mode(const struct prediction_config *c)
{
    const char *mode = c->source->mode;
    int64_t per_node = c->system.net.ranks_per_node;
    if ((strcmp(mode, "nd") != 0 && strcmp(mode, "dp") != 0) || most_ranks(c) <= per_node)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "cannot forecast %" PRId64 " ranks: '%s': mode %s is one process, and a "
                       "node has %" PRId64 " rank%s; give --ranks up to that, --ranks-per-node, or "
                       "a series or run of mode ddp",
                       most_ranks(c), c->source->label, mode, per_node, per_node == 1 ? "" : "s");
}

static enum origin origin_of(const struct prediction_config *c, const struct fit_ensemble *e, int i)
{
    bool known = i == FIT_IMAGE  ? !c->fit && !c->source->predicted
                 : i < FIT_INTER ? c->known.intra
                 : i < FIT_SIGMA ? c->known.inter
                                 : c->known.sigma;
    int64_t per_node = c->system.net.ranks_per_node;
    if (i >= FIT_INTRA && i < FIT_SIGMA &&
        (i < FIT_INTER ? per_node == 1 : most_ranks(c) <= per_node))
        return ORIGIN_UNUSED;
    return known ? ORIGIN_KNOWN : c->fit && e->informed[i] ? ORIGIN_FITTED : ORIGIN_ASSUMED;
}

enum status prediction_make(const struct prediction_config *c, struct prediction *out)
{
    const struct source *source = c->source;
    const struct measured *last = &source->point[source->n - 1], *m = source->point;
    struct fit_ensemble e;
    *out = (struct prediction){.source = source, .system = c->system, .n = c->n_ranks};
    out->system.work = source->work;
    TRY(check_mode(c));
    TRY(learn(c, out, &e));
    for (int i = 0; i < FIT_PARAMETERS; i++)
        out->origin[i] = origin_of(c, &e, i);
    for (int i = 0; i < source->n; i++)
        forecast_at(out, &e, m[i].ranks, m[i].batch, m[i].spread, &out->at[i]);
    for (int i = 0; i < c->n_ranks; i++)
        forecast_at(out, &e, c->ranks[i], c->batch ? c->batch : last->batch, 0, &out->forecast[i]);
    return STATUS_OK;
}

double prediction_efficiency(const struct prediction *p, int64_t ranks, double images_per_s)
{
    const struct measured *first = &p->source->point[0];
    return 100 * (images_per_s / (double)ranks) / (first->images_per_s / (double)first->ranks);
}

double prediction_error(const struct prediction *p, int i)
{
    const struct measured *m = &p->source->point[i];
    return prediction_efficiency(p, m->ranks, p->at[i].images_per_s - m->images_per_s);
}

bool prediction_is_held_out(const struct prediction *p, int i)
{
    return i >= (p->fitted > 0 ? p->fitted : 1);
}

bool prediction_is_refuted(const struct prediction *p, int i)
{
    double images_per_s = p->source->point[i].images_per_s;
    return prediction_is_held_out(p, i) &&
           (images_per_s < p->at[i].low || images_per_s > p->at[i].high);
}

enum status prediction_check(const struct prediction *p)
{
    int outside = 0, worst = 0;
    for (int i = 0; i < p->source->n; i++) {
        outside += prediction_is_refuted(p, i);
        if (prediction_is_held_out(p, i) &&
            fabs(prediction_error(p, i)) > fabs(prediction_error(p, worst)))
            worst = i;
    }
    if (outside == 0)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "the forecast does not hold: '%s': %d of %d held-out points lie outside its "
                       "interval; the largest error is %+.1f points of efficiency, at %" PRId64
                       " ranks; fit to more points (--fit-up-to), or correct the given values",
                       p->source->label, outside, p->source->n - (p->fitted > 0 ? p->fitted : 1),
                       prediction_error(p, worst), p->source->point[worst].ranks);
}
