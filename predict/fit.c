/* Fits a small number of parameters, and draws from their posterior, with an ensemble of points. */
#include "predict/fit.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 240 };

#define MEASURED_SPREAD 0.015 /* of ln(images/s) */
#define FURTHEST        8.0   /* greatest distance from a parameter's typical value, in spreads */
#define NARROWED        0.7   /* parameters with a smaller spread are informed by the points */
#define MOVED           0.5   /* so are those further from their typical value */

#define AT(member)    offsetof(struct system, member)
#define KNOWN(member) offsetof(struct fit_known, member)

const struct fit_parameter fit_parameters[FIT_PARAMETERS] = {
    {"time of an image", " ms", 1e3, AT(image_s), 0, 0.5},
    {"latency within nodes", " us", 1e6, AT(net.intra.latency_s), KNOWN(intra), 1},
    {"bandwidth within nodes", " GB/s", 1e-9, AT(net.intra.bytes_per_s), KNOWN(intra), 1},
    {"latency between nodes", " us", 1e6, AT(net.inter.latency_s), KNOWN(inter), 2},
    {"bandwidth between nodes", " GB/s", 1e-9, AT(net.inter.bytes_per_s), KNOWN(inter), 1},
    {"sigma of stragglers", "", 1, AT(sigma), KNOWN(sigma), 0.7},
};

struct problem {
    struct system *system;
    const struct measured *point;
    struct straggler *late; /* (n_points) */
    int n_points;
    double noise;
    int n; /* the parameters that are not known; the first is FIT_IMAGE, which has no prior */
    int parameter[FIT_PARAMETERS];
    double typical[FIT_PARAMETERS];
};

/* A point of the parameter space. */
struct vertex {
    double x[FIT_PARAMETERS]; /* ln(value / typical) / spread of each parameter */
    double cost;
};

static void place(const struct problem *p, const double *x)
{
    for (int i = 0; i < p->n; i++) {
        const struct fit_parameter *q = &fit_parameters[p->parameter[i]];
        double value = p->typical[i] * exp(q->spread * x[i]);
        memcpy((char *)p->system + q->offset, &value, sizeof value);
    }
}

/* Returns ln(forecast / measured) of point i. */
static double residual(const struct problem *p, int i)
{
    struct forecast f;
    forecast_step(p->system, p->point[i].ranks, p->point[i].batch, &p->late[i], &f);
    return log(f.images_per_s / p->point[i].images_per_s);
}

static double cost_at(const struct problem *p, const double *x)
{
    double cost = 0;
    for (int i = 0; i < p->n; i++) {
        if (!(fabs(x[i]) <= FURTHEST))
            return INFINITY;
        if (i > 0)
            cost += x[i] * x[i];
    }
    place(p, x);
    for (int i = 0; i < p->n_points; i++) {
        double off = residual(p, i) / fmax(p->noise, p->point[i].spread);
        cost += off * off;
    }
    return cost;
}

/* Starts from vertices around `centre`, spread as widely as the priors. Moves each along its line
 * through another one: downhill, or so that the vertices are draws from the
 * posterior. */
static void explore(const struct problem *p, const double *centre, bool downhill, struct vertex *v)
{
    struct rng r = rng_at(0, RNG_BOOTSTRAP, downhill, 0);
    for (int k = 0; k < FIT_MEMBERS; k++) {
        for (int i = 0; i < p->n; i++)
            v[k].x[i] = centre[i] + rng_normal(&r);
        v[k].cost = cost_at(p, v[k].x);
    }
    for (int step = 0; step < SWEEPS * FIT_MEMBERS; step++) {
        int k = step % FIT_MEMBERS;
        const struct vertex *to = &v[(k + 1 + (int)rng_below(&r, FIT_MEMBERS - 1)) % FIT_MEMBERS];
        double u = 1 + rng_double(&r), z = u * u / 2; /* the density of z falls as 1 / sqrt(z) */
        struct vertex next = {.cost = 0};
        for (int i = 0; i < p->n; i++)
            next.x[i] = to->x[i] + z * (v[k].x[i] - to->x[i]);
        next.cost = cost_at(p, next.x);
        double gain = (v[k].cost - next.cost) / 2;
        if (downhill ? gain > 0 : log(1 - rng_double(&r)) < (p->n - 1) * log(z) + gain)
            v[k] = next;
    }
}

/* Places the best vertex, and sets the noise from its residuals. */
static void settle(struct problem *p, const struct vertex *v, double *centre)
{
    double squares = 0;
    const struct vertex *best = v;
    for (int k = 1; k < FIT_MEMBERS; k++)
        best = v[k].cost < best->cost ? &v[k] : best;
    memcpy(centre, best->x, sizeof best->x);
    place(p, centre);
    for (int i = 0; i < p->n_points; i++)
        squares += residual(p, i) * residual(p, i) / p->n_points;
    p->noise = fmax(p->noise, sqrt(squares));
}

static void members_take(const struct problem *p, const struct vertex *v, const double *centre,
                         struct fit_ensemble *out)
{
    for (int i = 0; i < p->n; i++) {
        double x[FIT_MEMBERS];
        for (int k = 0; k < FIT_MEMBERS; k++)
            x[k] = v[k].x[i];
        out->informed[p->parameter[i]] =
            fabs(centre[i]) > MOVED || stats_stddev(x, FIT_MEMBERS) < NARROWED;
    }
    for (int k = 0; k < FIT_MEMBERS; k++) {
        place(p, v[k].x);
        for (int i = 0; i < FIT_PARAMETERS; i++)
            out->value[k][i] = fit_value(p->system, i);
    }
    out->noise = p->noise;
}

double fit_value(const struct system *s, int parameter)
{
    double value;
    memcpy(&value, (const char *)s + fit_parameters[parameter].offset, sizeof value);
    return value;
}

enum status fit_system(struct system *s, const struct fit_known *known,
                       const struct measured *point, int n, bool fit, struct fit_ensemble *out)
{
    struct system found = *s;
    struct vertex v[FIT_MEMBERS];
    double centre[FIT_PARAMETERS] = {0};
    struct problem p = {.system = s, .point = point, .n_points = n, .noise = MEASURED_SPREAD};
    TRY(array_new(&p.late, n));
    for (int i = 0; i < n; i++)
        straggler_of(point[i].ranks, &p.late[i]);
    if (fit)
        s->image_s = (double)point[0].ranks / point[0].images_per_s;
    for (int i = 0; i < FIT_PARAMETERS; i++) {
        if (i != FIT_IMAGE && *((const bool *)known + fit_parameters[i].known))
            continue;
        p.typical[p.n] = fit_value(s, i);
        p.parameter[p.n++] = i;
    }
    if (fit) {
        explore(&p, centre, true, v);
        settle(&p, v, centre);
        found = *s;
    }
    *out = (struct fit_ensemble){.noise = 0};
    explore(&p, centre, false, v);
    members_take(&p, v, centre, out);
    *s = found;
    free(p.late);
    return STATUS_OK;
}

void fit_place(const struct fit_ensemble *e, int k, struct system *s)
{
    for (int i = 0; i < FIT_PARAMETERS; i++)
        memcpy((char *)s + fit_parameters[i].offset, &e->value[k][i], sizeof(double));
}
