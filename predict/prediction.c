/* Fits a small number of parameters, draws from their posterior with an ensemble of points, and
 * makes forecasts. */
#include "predict/prediction.h"

#include "base/rng.h"
#include "base/stats.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MEMBERS = 256, SWEEPS = 240 };

#define MEASURED_SPREAD 0.015 /* of ln(images/s) */
#define FURTHEST        8.0   /* greatest distance from a parameter's typical value, in spreads */
#define NARROWED        0.7   /* parameters with a smaller spread are informed by the points */
#define MOVED           0.5   /* so are those further from their typical value */

#define AT(member)    offsetof(struct system, member)
#define KNOWN(member) offsetof(struct fit_known, member)

static const struct {
    const char *name, *unit; /* unit: of value * scale, after a blank */
    double scale;
    size_t offset; /* of a double in struct system */
    size_t known;  /* of a bool in struct fit_known; unused for FIT_IMAGE */
    double spread;
} parameters[FIT_PARAMETERS] = {
    {"time of an image", " ms", 1e3, AT(image_s), 0, 0.5},
    {"latency within nodes", " us", 1e6, AT(net.intra.latency_s), KNOWN(intra), 1},
    {"bandwidth within nodes", " GB/s", 1e-9, AT(net.intra.bytes_per_s), KNOWN(intra), 1},
    {"latency between nodes", " us", 1e6, AT(net.inter.latency_s), KNOWN(inter), 2},
    {"bandwidth between nodes", " GB/s", 1e-9, AT(net.inter.bytes_per_s), KNOWN(inter), 1},
    {"sigma of stragglers", "", 1, AT(sigma), KNOWN(sigma), 0.7},
};

struct fit {
    const struct measured *point; /* (n_points) */
    int n_points;
    struct straggler late[SOURCE_POINTS_MAX]; /* (n_points) */
    struct system system;                     /* has the parameters that were placed last */
    double noise; /* standard deviation of ln(images/s) of a measurement */
    int n; /* the parameters that are not known; the first is FIT_IMAGE, which has no prior */
    int parameter[FIT_PARAMETERS];
    double typical[FIT_PARAMETERS];
    struct vertex {
        double x[FIT_PARAMETERS]; /* ln(value / typical) / spread of each parameter */
        double cost;
    } v[MEMBERS];
};

static double *value_of(struct system *s, int parameter)
{
    return (double *)(void *)((char *)s + parameters[parameter].offset);
}

static bool is_known(const struct prediction_config *c, int parameter)
{
    return parameter != FIT_IMAGE &&
           *(const bool *)((const char *)&c->known + parameters[parameter].known);
}

static void place(struct fit *f, const double *x)
{
    for (int i = 0; i < f->n; i++)
        *value_of(&f->system, f->parameter[i]) =
            f->typical[i] * exp(parameters[f->parameter[i]].spread * x[i]);
}

/* Returns ln(forecast / measured) of point i. */
static double residual(const struct fit *f, int i)
{
    struct forecast step;
    forecast_step(&f->system, f->point[i].ranks, f->point[i].batch, &f->late[i], &step);
    return log(step.images_per_s / f->point[i].images_per_s);
}

/* Returns the cost of x, or a part of it that is not below `bound`. */
static double cost_at(struct fit *f, const double *x, double bound)
{
    double cost = 0;
    for (int i = 0; i < f->n; i++) {
        if (!(fabs(x[i]) <= FURTHEST))
            return INFINITY;
        if (i > 0)
            cost += x[i] * x[i];
    }
    place(f, x);
    for (int i = 0; i < f->n_points && cost < bound; i++) {
        double off = residual(f, i) / fmax(f->noise, f->point[i].spread);
        cost += off * off;
    }
    return cost;
}

/* Starts from vertices around `centre`, spread as widely as the priors. Moves each along its line
 * through another one: downhill, or so that the vertices are draws from the posterior. */
static void explore(struct fit *f, const double *centre, bool downhill)
{
    struct rng r = rng_at(0, RNG_BOOTSTRAP, downhill, 0);
    struct vertex *v = f->v;
    for (int k = 0; k < MEMBERS; k++) {
        for (int i = 0; i < f->n; i++)
            v[k].x[i] = centre[i] + rng_normal(&r);
        v[k].cost = cost_at(f, v[k].x, INFINITY);
    }
    for (int step = 0; step < SWEEPS * MEMBERS; step++) {
        int k = step % MEMBERS;
        const struct vertex *to = &v[(k + 1 + (int)rng_below(&r, MEMBERS - 1)) % MEMBERS];
        double u = 1 + rng_double(&r), z = u * u / 2; /* the density of z falls as 1 / sqrt(z) */
        double bound = v[k].cost;
        struct vertex next = {.cost = 0};
        for (int i = 0; i < f->n; i++)
            next.x[i] = to->x[i] + z * (v[k].x[i] - to->x[i]);
        if (!downhill)
            bound += 2 * ((f->n - 1) * log(z) - log(1 - rng_double(&r)));
        next.cost = cost_at(f, next.x, bound);
        if (next.cost < bound)
            v[k] = next;
    }
}

/* Places the best vertex, and sets the noise from its residuals. */
static void settle(struct fit *f, double *centre)
{
    double squares = 0;
    const struct vertex *best = f->v;
    for (int k = 1; k < MEMBERS; k++)
        best = f->v[k].cost < best->cost ? &f->v[k] : best;
    memcpy(centre, best->x, sizeof best->x);
    place(f, centre);
    for (int i = 0; i < f->n_points; i++)
        squares += residual(f, i) * residual(f, i) / f->n_points;
    f->noise = fmax(f->noise, sqrt(squares));
}

static bool is_informed(const struct fit *f, const double *centre, int i)
{
    double x[MEMBERS];
    for (int k = 0; k < MEMBERS; k++)
        x[k] = f->v[k].x[i];
    return fabs(centre[i]) > MOVED || stats_stddev(x, MEMBERS) < NARROWED;
}

/* Sets s->image_s so that the forecast for `m` equals its throughput, by bisection. This is correct
 * because the time of a step never falls when image_s grows. */
static enum status calibrate(struct system *s, const struct measured *m)
{
    struct straggler late;
    struct forecast f;
    double low = 0, high = (double)m->ranks / m->images_per_s; /* the whole step is compute */
    straggler_of(m->ranks, &late);
    for (int i = 0; i < 60; i++) {
        s->image_s = (low + high) / 2;
        forecast_step(s, m->ranks, m->batch, &late, &f);
        *(f.images_per_s > m->images_per_s ? &low : &high) = s->image_s;
    }
    if (fabs(f.images_per_s / m->images_per_s - 1) < 1e-6)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "the measured %" PRId64 " ranks reached %.1f images/s, more than the given "
                       "network or storage allows: give a faster network or storage",
                       m->ranks, m->images_per_s);
}

/* The largest number of ranks of a forecast or a point. */
static int64_t most_ranks(const struct prediction_config *c)
{
    int64_t forecast = c->n_ranks > 0 ? c->ranks[c->n_ranks - 1] : 0;
    int64_t measured = c->source->point[c->source->n - 1].ranks;
    return forecast > measured ? forecast : measured;
}

/* Returns the origin of a parameter before a fit. */
static enum origin origin_of(const struct prediction_config *c, int i)
{
    int64_t per_node = c->system.net.ranks_per_node;
    bool unused = i >= FIT_INTRA && i < FIT_SIGMA &&
                  (i < FIT_INTER ? per_node == 1 : most_ranks(c) <= per_node);
    bool known = i == FIT_IMAGE ? !c->fit && !c->source->predicted : is_known(c, i);
    return unused ? ORIGIN_UNUSED : known ? ORIGIN_KNOWN : ORIGIN_ASSUMED;
}

/* Fits or calibrates p->system, and draws the ensemble f->v. */
static enum status learn(const struct prediction_config *c, struct prediction *p, struct fit *f)
{
    const struct measured *first = &c->source->point[0];
    double centre[FIT_PARAMETERS] = {0};
    while (c->fit && p->fitted < c->source->n &&
           (c->fit_up_to == 0 || first[p->fitted].ranks <= c->fit_up_to))
        p->fitted++;
    if (c->fit && p->fitted < 2)
        return status_fail(STATUS_USAGE,
                           "%d measured point%s are too few: a fit needs at least two, "
                           "with different numbers of ranks",
                           p->fitted, p->fitted == 1 ? "" : "s");
    if (c->fit)
        p->system.image_s = (double)first->ranks / first->images_per_s;
    else
        TRY(calibrate(&p->system, first));
    *f = (struct fit){.point = first,
                      .n_points = c->fit ? p->fitted : 1,
                      .system = p->system,
                      .noise = MEASURED_SPREAD};
    for (int i = 0; i < f->n_points; i++)
        straggler_of(first[i].ranks, &f->late[i]);
    for (int i = 0; i < FIT_PARAMETERS; i++)
        if (!is_known(c, i)) {
            f->typical[f->n] = *value_of(&p->system, i);
            f->parameter[f->n++] = i;
        }
    if (c->fit) {
        explore(f, centre, true);
        settle(f, centre);
        p->system = f->system;
    }
    explore(f, centre, false);
    for (int i = 0; i < f->n; i++) {
        enum origin *origin = &p->origin[f->parameter[i]];
        if (c->fit && *origin == ORIGIN_ASSUMED && is_informed(f, centre, i))
            *origin = ORIGIN_FITTED;
    }
    return STATUS_OK;
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

static double efficiency_of(const struct prediction *p, int64_t ranks, double images_per_s)
{
    const struct measured *first = &p->source->point[0];
    return 100 * (images_per_s / (double)ranks) / (first->images_per_s / (double)first->ranks);
}

static void row_make(const struct prediction *p, struct fit *f, int64_t ranks, int64_t batch,
                     double spread, struct prediction_row *out)
{
    struct straggler late;
    struct forecast step;
    double x[MEMBERS], noise = 1.96 * fmax(f->noise, spread);
    straggler_of(ranks, &late);
    forecast_step(&p->system, ranks, batch, &late, &out->step);
    for (int k = 0; k < MEMBERS; k++) {
        place(f, f->v[k].x);
        forecast_step(&f->system, ranks, batch, &late, &step);
        x[k] = log(step.images_per_s / out->step.images_per_s);
    }
    stats_sort(x, MEMBERS);
    double below = fmin(0, stats_quantile(x, MEMBERS, 0.025));
    double above = fmax(0, stats_quantile(x, MEMBERS, 0.975));
    out->low = out->step.images_per_s * exp(-hypot(below, noise));
    out->high = out->step.images_per_s * exp(hypot(above, noise));
    out->efficiency = efficiency_of(p, ranks, out->step.images_per_s);
}

/* Images per rank. Points whose batch over all ranks is the same are of strong scaling. */
static int64_t prediction_batch(const struct prediction_config *c, int64_t ranks)
{
    const struct source *s = c->source;
    const struct measured *last = &s->point[s->n - 1];
    bool strong = s->n > 1 && s->point->batch != last->batch;
    for (int i = 0; i < s->n; i++)
        strong = strong && s->point[i].ranks * s->point[i].batch == last->ranks * last->batch;
    int64_t shared = last->ranks * last->batch / ranks;
    return c->batch ? c->batch : !strong ? last->batch : shared > 1 ? shared : 1;
}

enum status prediction_make(const struct prediction_config *c, struct prediction *out)
{
    const struct source *source = c->source;
    struct fit f;
    *out = (struct prediction){.source = source, .system = c->system, .n = c->n_ranks};
    out->system.work = source->work;
    TRY(check_mode(c));
    for (int i = 0; i < FIT_PARAMETERS; i++)
        out->origin[i] = origin_of(c, i);
    TRY(learn(c, out, &f));
    for (int i = 0; i < c->n_ranks; i++)
        row_make(out, &f, c->ranks[i], prediction_batch(c, c->ranks[i]), 0, &out->forecast[i]);
    for (int i = 0; i < source->n; i++) {
        const struct measured *m = &source->point[i];
        struct prediction_point *at = &out->point[i];
        struct prediction_row *row = &at->forecast;
        row_make(out, &f, m->ranks, m->batch, m->spread, row);
        at->efficiency = efficiency_of(out, m->ranks, m->images_per_s);
        at->error = efficiency_of(out, m->ranks, row->step.images_per_s - m->images_per_s);
        at->held_out = i >= (c->fit ? out->fitted : 1);
        at->outside = at->held_out && (m->images_per_s < row->low || m->images_per_s > row->high);
    }
    return STATUS_OK;
}

enum status prediction_check(const struct prediction *p)
{
    int outside = 0, held_out = 0, worst = p->source->n - 1;
    for (int i = 0; i < p->source->n; i++) {
        const struct prediction_point *at = &p->point[i];
        outside += at->outside;
        held_out += at->held_out;
        if (at->held_out && fabs(at->error) > fabs(p->point[worst].error))
            worst = i;
    }
    if (outside == 0)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "the forecast does not hold: '%s': %d of %d held-out points lie outside its "
                       "interval; the largest error is %+.1f points of efficiency, at %" PRId64
                       " ranks; fit to more points (--fit-up-to), or correct the given values",
                       p->source->label, outside, held_out, p->point[worst].error,
                       p->source->point[worst].ranks);
}

void prediction_parameters(const struct prediction *p, enum origin origin,
                           char text[PREDICTION_TEXT_MAX])
{
    struct system s = p->system;
    text[0] = '\0';
    for (int i = 0; i < FIT_PARAMETERS; i++)
        if (p->origin[i] == origin)
            text_join(text, PREDICTION_TEXT_MAX, ", ", "%s %.4g%s", parameters[i].name,
                      parameters[i].scale * *value_of(&s, i), parameters[i].unit);
}
