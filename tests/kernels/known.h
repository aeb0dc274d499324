/* Operations with known results: a row gives an operation's inputs and its expected outputs. */
#pragma once

#include "tests/kernels/group.h"
#include "verify/rig.h"

enum { KNOWN_OPERANDS = 6 };

/* The first elements of an operand. */
struct known_values {
    enum role role;
    int n; /* 0: none */
    const double *v;
};
#define VALUES(role, ...)                                                                          \
    {                                                                                              \
        role, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), (const double[])      \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

struct known {
    struct op_desc d;
    struct known_values in[KNOWN_OPERANDS], out[KNOWN_OPERANDS];
    struct step_state state;
    struct loss_metrics metrics; /* loss_sum NaN: not compared */
};

/* Unlike cmocka's comparison, this one fails for a NaN unless it is expected. */
static inline void assert_near(double got, double want, double tolerance)
{
    if (!(got == want || fabs(got - want) <= tolerance || (isnan(got) && isnan(want))))
        fail_msg("%.12g instead of %.12g", got, want);
}

/* The expected values have nine digits and are rounded to fp32. The tolerance is six times fp32's
 * rounding error. */
static inline void assert_known(const struct op_desc *d, const struct operands *o,
                                const struct known_values *want)
{
    for (int i = 0; i < want->n; i++)
        if (d->t[want->role].type == DTYPE_U8)
            assert_int_equal(((const uint8_t *)o->p[want->role])[i], (int)want->v[i]);
        else
            assert_near((double)operand_f32(o, want->role)[i], want->v[i],
                        4e-7 * fmax(1, fabs(want->v[i])));
}

static inline void known_set(const struct op_desc *d, const struct operands *o,
                             const struct known_values *in)
{
    for (int i = 0; i < in->n; i++)
        if (d->t[in->role].type == DTYPE_U8)
            ((uint8_t *)o->p[in->role])[i] = (uint8_t)in->v[i];
        else if (d->t[in->role].type == DTYPE_I32)
            ((int32_t *)o->p[in->role])[i] = (int32_t)in->v[i];
        else
            operand_f32(o, in->role)[i] = (float)in->v[i];
}

static inline void known_check(struct device *dev, const struct known *k)
{
    struct operands o;
    expect_ok(operands_new(&k->d, &o));
    if (o.p[ROLE_STATE])
        *operand_state(&o) = k->state;
    for (int i = 0; i < KNOWN_OPERANDS; i++)
        known_set(&k->d, &o, &k->in[i]);
    expect_ok(run_once(dev, &k->d, &o));
    for (int i = 0; i < KNOWN_OPERANDS; i++)
        assert_known(&k->d, &o, &k->out[i]);
    if (o.p[ROLE_METRICS]) {
        assert_near(operand_metrics(&o)->loss_sum, k->metrics.loss_sum, 1e-8);
        assert_int_equal(operand_metrics(&o)->count, k->metrics.count);
        assert_int_equal(operand_metrics(&o)->top1, k->metrics.top1);
        assert_int_equal(operand_metrics(&o)->top5, k->metrics.top5);
    }
    operands_free(&o);
}

#define CHECK_ROWS(table)                                                                          \
    for (int row_ = 0; row_ < COUNT(table); row_++)                                                \
    known_check(*state, &(table)[row_])
