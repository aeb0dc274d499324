/* Describes and checks a convolution's passes. */
#include "bench/conv.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

/* Number of elements of a result that are recomputed. There are few, because each recomputed
 * element is a sum of many products. */
enum { CHECKED = 17 };

struct op_desc conv_pass(const struct op_desc *fwd, int pass)
{
    static const enum op_kind kind[CONV_PASSES] = {OP_CONV_FWD, OP_CONV_BWD_DATA,
                                                   OP_CONV_BWD_WEIGHTS};
    struct op_desc d = *fwd;
    d.kind = kind[pass];
    if (pass == 0)
        return d;
    d.t[ROLE_DY] = fwd->t[ROLE_Y];
    d.t[ROLE_Y] = (struct tensor_desc){0};
    d.t[ROLE_B] = (struct tensor_desc){0};
    if (pass == 1) {
        d.t[ROLE_DX] = fwd->t[ROLE_X];
        d.t[ROLE_X] = (struct tensor_desc){0};
    } else {
        d.t[ROLE_DW] = fwd->t[ROLE_W];
        d.t[ROLE_W] = (struct tensor_desc){0};
        d.t[ROLE_DB] = fwd->t[ROLE_B];
    }
    return d;
}

/* A tensor on the host, in logical order; x is NULL if the pass has no such tensor. */
struct plain {
    const struct tensor_desc *desc;
    float *x;
};

static enum status plain_fetch(struct timed_op *t, enum role role, struct plain *p)
{
    const struct tensor_desc *d = &t->plan->desc.t[role];
    int64_t n = tensor_count(d);
    p->desc = d;
    TRY(array_new(&p->x, n));
    return timed_op_get(t, role, p->x);
}

/* The expected value of one element, and the sums that bound its rounding error. */
struct sum {
    double value, squares, magnitude; /* sums of products, of their squares, of their magnitudes */
};

static void sum_add(struct sum *s, double a, double b)
{
    s->value += a * b;
    s->squares += a * b * a * b;
    s->magnitude += fabs(a * b);
}

/* Sets `at` to the four coordinates of element i. */
static void place_of(const struct tensor_desc *t, int64_t i, int64_t at[4])
{
    for (int d = 3; d >= 0; d--) {
        at[d] = i % t->dim[d];
        i /= t->dim[d];
    }
}

static double at(const struct plain *p, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *dim = p->desc->dim;
    return (double)p->x[((a * dim[1] + b) * dim[2] + c) * dim[3] + d];
}

static bool inside(const struct tensor_desc *t, int64_t h, int64_t w)
{
    return h >= 0 && h < t->dim[2] && w >= 0 && w < t->dim[3];
}

/* Computes element y = (n, k, h, w) of Y from X, W and B. */
static struct sum forward(const struct conv_attr *c, const struct plain *p, const int64_t y[4])
{
    const struct plain *x = &p[ROLE_X], *w = &p[ROLE_W];
    const int64_t *dim = w->desc->dim; /* K, C of a group, R, S */
    int64_t first = y[1] / (dim[0] / c->groups) * dim[1];
    struct sum s = {0};
    for (int64_t i = 0; i < dim[1]; i++)
        for (int64_t fh = 0; fh < dim[2]; fh++)
            for (int64_t fw = 0; fw < dim[3]; fw++) {
                int64_t h = y[2] * c->stride[0] - c->pad[0] + fh;
                int64_t v = y[3] * c->stride[1] - c->pad[1] + fw;
                if (inside(x->desc, h, v))
                    sum_add(&s, at(x, y[0], first + i, h, v), at(w, y[1], i, fh, fw));
            }
    if (p[ROLE_B].x)
        sum_add(&s, (double)p[ROLE_B].x[y[1]], 1);
    return s;
}

/* Computes element x = (n, c, h, w) of DX from DY and W. */
static struct sum data_gradient(const struct conv_attr *c, const struct plain *p,
                                const int64_t x[4])
{
    const struct plain *dy = &p[ROLE_DY], *w = &p[ROLE_W];
    const int64_t *dim = w->desc->dim;
    int64_t outputs = dim[0] / c->groups, first = x[1] / dim[1] * outputs;
    struct sum s = {0};
    for (int64_t k = first; k < first + outputs; k++)
        for (int64_t fh = 0; fh < dim[2]; fh++)
            for (int64_t fw = 0; fw < dim[3]; fw++) {
                int64_t h = x[2] + c->pad[0] - fh, v = x[3] + c->pad[1] - fw;
                bool met = h >= 0 && v >= 0 && h % c->stride[0] == 0 && v % c->stride[1] == 0;
                h /= c->stride[0];
                v /= c->stride[1];
                if (met && inside(dy->desc, h, v))
                    sum_add(&s, at(dy, x[0], k, h, v), at(w, k, x[1] % dim[1], fh, fw));
            }
    return s;
}

/* Computes element w = (k, c, fh, fw) of DW from DY and X. */
static struct sum weights_gradient(const struct conv_attr *c, const struct plain *p,
                                   const int64_t w[4])
{
    const struct plain *dy = &p[ROLE_DY], *x = &p[ROLE_X];
    int64_t group = w[0] / (dy->desc->dim[1] / c->groups);
    int64_t channel = group * (x->desc->dim[1] / c->groups) + w[1];
    struct sum s = {0};
    for (int64_t n = 0; n < dy->desc->dim[0]; n++)
        for (int64_t h = 0; h < dy->desc->dim[2]; h++)
            for (int64_t v = 0; v < dy->desc->dim[3]; v++) {
                int64_t xh = h * c->stride[0] - c->pad[0] + w[2];
                int64_t xw = v * c->stride[1] - c->pad[1] + w[3];
                if (inside(x->desc, xh, xw))
                    sum_add(&s, at(dy, n, w[0], h, v), at(x, n, channel, xh, xw));
            }
    return s;
}

/* Computes element k of DB from DY. */
static struct sum bias_gradient(const struct plain *dy, int64_t k)
{
    const int64_t *dim = dy->desc->dim;
    struct sum s = {0};
    for (int64_t n = 0; n < dim[0]; n++)
        for (int64_t h = 0; h < dim[2]; h++)
            for (int64_t v = 0; v < dim[3]; v++)
                sum_add(&s, at(dy, n, k, h, v), 1);
    return s;
}

static struct sum sum_of(const struct op_desc *d, const struct plain *p, enum role result,
                         int64_t element)
{
    const struct conv_attr *c = &d->attr.conv;
    int64_t place[4];
    if (result == ROLE_DB)
        return bias_gradient(&p[ROLE_DY], element);
    place_of(p[result].desc, element, place);
    return result == ROLE_Y    ? forward(c, p, place)
           : result == ROLE_DX ? data_gradient(c, p, place)
                               : weights_gradient(c, p, place);
}

/* Returns the distance between 1 and the next larger number of the type. */
static double spacing(enum dtype type)
{
    return type == DTYPE_F16    ? 0x1p-10
           : type == DTYPE_BF16 ? 0x1p-7
           : type == DTYPE_TF32 ? 0x1p-10
                                : 0x1p-23;
}

/* Returns the largest allowed error of an element. The three terms are the rounding errors of the
 * operands, of the result, and of the fp32 partial sums. The operands' errors are random and add up
 * in squares, so the first term is a multiple of sqrt(s->squares). */
static double tolerance(const struct sum *s, const struct tensor_desc *operand)
{
    enum dtype factor = operand->rounds == DTYPE_TF32 ? DTYPE_TF32 : DTYPE_F32;
    return 8 * spacing(factor) * sqrt(s->squares) + spacing(operand->type) * fabs(s->value) +
           1e-5 * s->magnitude;
}

static int64_t count_wrong(const struct op_desc *d, const struct plain *p, enum role result)
{
    const struct tensor_desc *operand = &d->t[d->kind == OP_CONV_FWD ? ROLE_X : ROLE_DY];
    int64_t wrong = 0, n = tensor_count(p[result].desc);
    for (int i = 0; i < CHECKED; i++) {
        int64_t element = (n - 1) * i / (CHECKED - 1); /* includes the first and the last element */
        struct sum s = sum_of(d, p, result, element);
        wrong += !(fabs((double)p[result].x[element] - s.value) <= tolerance(&s, operand));
    }
    return wrong;
}

enum status conv_pass_check(struct timed_op *t, int64_t *wrong)
{
    static const enum role operands[] = {ROLE_X, ROLE_W, ROLE_B, ROLE_DY};
    static const enum role results[] = {ROLE_Y, ROLE_DX, ROLE_DW, ROLE_DB};
    const struct op_desc *d = &t->plan->desc;
    struct plain p[ROLE_COUNT] = {{0}};
    enum status st = STATUS_OK;
    *wrong = 0;
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (d->t[operands[i]].ndim)
            CHECK(plain_fetch(t, operands[i], &p[operands[i]]));
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (d->t[results[i]].ndim) {
            CHECK(plain_fetch(t, results[i], &p[results[i]]));
            *wrong += count_wrong(d, p, results[i]);
        }
done:
    for (int i = 0; i < ROLE_COUNT; i++)
        free(p[i].x);
    return st;
}
