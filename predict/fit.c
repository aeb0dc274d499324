/* Fits a small number of parameters with the downhill simplex method (Nelder and Mead). */
#include "predict/fit.h"

#include "base/array.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS_MAX = 5, ROUNDS = 4, MOVES = 400 };

#define MEASURED_SPREAD 0.015 /* of ln(images/s) */
#define FURTHEST        8.0   /* greatest distance from a parameter's typical value, in spreads */
#define FIRST_STEP      0.3   /* size of the first simplex, in units of the spreads */

struct parameter {
    size_t offset; /* offset of the parameter, a double, in struct system */
    double typical;
    double spread; /* of the natural logarithm */
    bool is_free_of_prior;
};

struct problem {
    struct system *system;
    const struct measured *point;
    const struct straggler *late; /* (n_points) */
    int n_points;
    int n;
    struct parameter parameter[PARAMETERS_MAX];
};

/* A point of the parameter space. */
struct vertex {
    double x[PARAMETERS_MAX]; /* ln(value / typical) / spread of each parameter */
    double cost;
};

static void place(const struct problem *p, const double *x)
{
    for (int i = 0; i < p->n; i++) {
        const struct parameter *q = &p->parameter[i];
        double value = q->typical * exp(q->spread * x[i]);
        memcpy((char *)p->system + q->offset, &value, sizeof value);
    }
}

static double cost_at(const struct problem *p, const double *x)
{
    double cost = 0;
    for (int i = 0; i < p->n; i++) {
        if (!(fabs(x[i]) <= FURTHEST))
            return INFINITY;
        if (!p->parameter[i].is_free_of_prior)
            cost += x[i] * x[i];
    }
    place(p, x);
    for (int i = 0; i < p->n_points; i++) {
        const struct measured *m = &p->point[i];
        struct forecast f;
        forecast_step(p->system, m->ranks, m->batch, &p->late[i], &f);
        double off = log(f.images_per_s / m->images_per_s) / MEASURED_SPREAD;
        cost += off * off;
    }
    return cost;
}

static int vertex_compare(const void *a, const void *b)
{
    double x = ((const struct vertex *)a)->cost, y = ((const struct vertex *)b)->cost;
    return (x > y) - (x < y);
}

/* Returns the vertex `from` + t (`to` - `from`) with its cost. */
static struct vertex along(const struct problem *p, const struct vertex *from,
                           const struct vertex *to, double t)
{
    struct vertex v = {.cost = 0};
    for (int i = 0; i < p->n; i++)
        v.x[i] = from->x[i] + t * (to->x[i] - from->x[i]);
    v.cost = cost_at(p, v.x);
    return v;
}

/* Moves the worst of the p->n + 1 vertices, which is the last one. If no move improves this vertex,
 * moves all vertices towards the best vertex. */
static void move(const struct problem *p, struct vertex *v)
{
    struct vertex centre = {.cost = 0}, *worst = &v[p->n];
    for (int k = 0; k < p->n; k++)
        for (int i = 0; i < p->n; i++)
            centre.x[i] += v[k].x[i] / p->n;
    struct vertex next = along(p, &centre, worst, -1);
    if (next.cost < v[0].cost) {
        struct vertex further = along(p, &centre, worst, -2);
        *worst = further.cost < next.cost ? further : next;
    } else if (next.cost < v[p->n - 1].cost) {
        *worst = next;
    } else {
        next = along(p, &centre, worst, 0.5);
        if (next.cost < worst->cost) {
            *worst = next;
            return;
        }
        for (int k = 1; k <= p->n; k++)
            v[k] = along(p, &v[0], &v[k], 0.5);
    }
}

static void minimise(const struct problem *p)
{
    struct vertex v[PARAMETERS_MAX + 1] = {{.cost = 0}};
    for (int round = 0; round < ROUNDS; round++) {
        v[0].cost = cost_at(p, v[0].x);
        for (int k = 1; k <= p->n; k++) {
            v[k] = v[0];
            v[k].x[k - 1] += FIRST_STEP;
            v[k].cost = cost_at(p, v[k].x);
        }
        for (int i = 0; i < MOVES; i++) {
            qsort(v, (size_t)p->n + 1, sizeof *v, vertex_compare);
            move(p, v);
        }
        qsort(v, (size_t)p->n + 1, sizeof *v, vertex_compare);
    }
    place(p, v[0].x);
}

static void parameter_add(struct problem *p, size_t offset, double typical, double spread)
{
    p->parameter[p->n++] =
        (struct parameter){.offset = offset, .typical = typical, .spread = spread};
}

static void parameters_of(struct problem *p, const struct fit_known *known)
{
    const struct measured *m = &p->point[0];
    parameter_add(p, offsetof(struct system, image_s), (double)m->ranks / m->images_per_s, 0.1);
    p->parameter[0].is_free_of_prior = true;
    if (!known->intra)
        parameter_add(p, offsetof(struct system, net.intra.bytes_per_s), 40e9, 1);
    if (!known->inter) {
        parameter_add(p, offsetof(struct system, net.inter.bytes_per_s), 5e9, 1);
        parameter_add(p, offsetof(struct system, net.inter.latency_s), 5e-4, 2);
    }
    if (!known->sigma)
        parameter_add(p, offsetof(struct system, sigma), 0.02, 0.7);
}

enum status fit_system(struct system *s, const struct fit_known *known,
                       const struct measured *point, int n)
{
    struct straggler *late;
    TRY(array_new(&late, n));
    struct problem p = {.system = s, .point = point, .late = late, .n_points = n};
    for (int i = 0; i < n; i++)
        straggler_of(point[i].ranks, &late[i]);
    parameters_of(&p, known);
    minimise(&p);
    free(late);
    return STATUS_OK;
}
