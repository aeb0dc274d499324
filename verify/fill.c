/* Fills operands with random values that are suitable for an operation. */
#include "verify/fill.h"

#include "verify/describe.h"
#include "verify/precision.h"

#include <math.h>
#include <string.h>

void fill_uniform(struct rng *r, float *out, int64_t n, double low, double high)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(low + (high - low) * rng_double(r));
}

void fill_grid(struct rng *r, float *out, int64_t n, double step, double bound)
{
    uint32_t points = 2 * (uint32_t)(bound / step) + 1;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(step * (double)rng_below(r, points) - bound);
}

/* Fills the input of batch norm; channels differ in mean and standard deviation, as in a
 * network. */
static void fill_bn_input(struct rng *r, const struct tensor_desc *x, enum fill fill, float *out)
{
    int64_t plane = x->dim[2] * x->dim[3];
    for (int64_t i = 0; i < tensor_count(x); i++) {
        int64_t c = i / plane % x->dim[1];
        double mean = 0.25 * (double)(c % 7 - 3), spread = 0.5 + 0.25 * (double)(c % 3);
        if (fill == FILL_LARGE_MEAN)
            out[i] = (float)(1000 + 0.1 * rng_normal(r));
        else if (fill == FILL_CONSTANT)
            out[i] = (float)(mean + 1);
        else
            out[i] = (float)(mean + spread * rng_normal(r));
    }
}

static void fill_bytes(struct rng *r, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint8_t)rng_u32(r);
}

/* Fills the first half with small values for the sums, and the second half with much larger values
 * for the sums of squares. */
static void fill_sums(struct rng *r, float *out, int64_t n)
{
    fill_uniform(r, out, n / 2, -1, 1);
    for (int64_t i = n / 2; i < n; i++)
        out[i] = 50 + (float)i;
}

static void fill_labels(struct rng *r, const struct op_desc *d, int32_t *label)
{
    int64_t rows = d->t[ROLE_X].dim[0], classes = d->t[ROLE_X].dim[1];
    for (int64_t n = 0; n < rows; n++)
        label[n] = n % 5 == 1 ? -1 : (int32_t)rng_below(r, (uint32_t)classes);
}

static void fill_partners(struct rng *r, int64_t rows, int32_t *partner)
{
    for (int64_t n = 0; n < rows; n++)
        partner[n] = (int32_t)rng_below(r, (uint32_t)rows);
}

static void fill_input(struct rng *r, const struct op_desc *d, enum fill fill, struct operands *o)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    int64_t n = tensor_count(x);
    if (op_in(d->kind, OPS_BN | OPS_BN_POOL))
        fill_bn_input(r, x, fill, o->p[ROLE_X]);
    else if (fill != FILL_TIES && (d->kind == OP_MAXPOOL_FWD || d->kind == OP_SOFTMAX_XENT))
        fill_grid(r, o->p[ROLE_X], n, 0.25, 4);
    else if (x->type == DTYPE_F32 && fill == FILL_TIES)
        fill_grid(r, o->p[ROLE_X], n, 0x1p-11, 4);
    else if (x->type == DTYPE_F32)
        fill_uniform(r, o->p[ROLE_X], n, -1, 1);
    else
        fill_bytes(r, o->p[ROLE_X], n);
    /* Max pooling gets two neighbouring NaNs, because the operation takes the last NaN of a window
     * as the maximum. */
    for (int64_t i = 0; fill == FILL_NAN && i <= (d->kind == OP_MAXPOOL_FWD); i++)
        operand_f32(o, ROLE_X)[n / 2 + i] = NAN;
}

/* Runs the forward pass on `ref`, and copies to `o` the results that the backward pass reads. */
static enum status fill_from_forward(struct device *ref, const struct op_desc *d, uint64_t seed,
                                     struct operands *o)
{
    bool bn = d->kind == OP_BN_BWD, pooled = d->kind == OP_BN_POOL_BWD;
    struct tensor_desc none = {0};
    struct op_desc forward =
        bn       ? describe(OP_BN_FWD_TRAIN, d->t[ROLE_X], d->t[ROLE_GAMMA], d->t[ROLE_X],
                      d->t[ROLE_DZ].ndim ? WITH(Z) : 0)
        : pooled ? describe(OP_BN_POOL_FWD, d->t[ROLE_X], d->t[ROLE_GAMMA], d->t[ROLE_DY], 0)
                 : describe(OP_MAXPOOL_FWD, d->t[ROLE_DX], none, d->t[ROLE_DY], WITH(INDEX));
    forward.attr = d->attr;
    struct operands f;
    TRY(operands_new(&forward, &f));
    enum status st;
    CHECK(fill_operands(ref, &forward, FILL_RANDOM, seed, &f));
    if (bn || pooled) {
        memcpy(f.p[ROLE_X], o->p[ROLE_X], operand_bytes(d, ROLE_X));
        memcpy(f.p[ROLE_GAMMA], o->p[ROLE_GAMMA], operand_bytes(d, ROLE_GAMMA));
    }
    CHECK(run_once(ref, &forward, &f));
    static const enum role left[] = {ROLE_MEAN, ROLE_INVSTD, ROLE_Y, ROLE_INDEX};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (o->p[left[i]])
            memcpy(o->p[left[i]], f.p[left[i]], operand_bytes(d, left[i]));
done:
    operands_free(&f);
    return st;
}

static struct step_state state_for(enum fill fill)
{
    return (struct step_state){.seed = 42,
                               .step = 7,
                               .sample0 = 5,
                               .lr = 0.1f,
                               .mix = fill == FILL_NAN ? 0.2f : 0.7f,
                               .loss_scale = fill == FILL_HUGE   ? 0x1p20f
                                             : fill == FILL_TINY ? 0x1p-14f
                                                                 : 128,
                               .grad_scale = 0.25f,
                               .found_inf = fill == FILL_FOUND_INF};
}

/* The factor by which an operand of order 1 is scaled, so that results are near `target`. */
static double magnitude(const struct op_desc *d, enum role role, enum fill fill)
{
    double target = fill == FILL_HUGE ? 80000 : 0x1p-22;
    if (op_in(d->kind, OPS_CONV | OPS_LINEAR))
        return sqrt(target);
    switch (d->kind) {
    case OP_BN_FWD_TRAIN:
    case OP_BN_FWD_EVAL:
        return role == ROLE_GAMMA || role == ROLE_BETA || role == ROLE_Z ? target : 1;
    case OP_BN_BWD: /* an infinite DY would make its whole channel NaN */
        if (fill == FILL_HUGE)
            return role == ROLE_GAMMA ? target : 1;
        return role == ROLE_DY || role == ROLE_DY2 || role == ROLE_Y ? target : 1;
    case OP_SGD: /* DW is multiplied by lr * grad_scale, which is 1/40 */
        if (fill == FILL_HUGE)
            return role == ROLE_DW || role == ROLE_DW_HALF ? 8 * target : 1;
        return target;
    case OP_SOFTMAX_XENT: /* the loss scale already scales the results */
        return 1;
    default:
        return target;
    }
}

static enum status fill_wide(struct device *ref, const struct op_desc *d, enum fill fill,
                             uint64_t seed, struct operands *o)
{
    struct op_roles roles = op_roles(d->kind);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (!(roles.reads >> role & 1) || !o->p[role])
            continue;
        struct rng r = rng_at(seed, RNG_TEST, (uint64_t)role, 0);
        int64_t n = operand_count(d, (enum role)role);
        if (role == ROLE_X)
            fill_input(&r, d, fill, o);
        else if (role == ROLE_LABEL)
            fill_labels(&r, d, o->p[role]);
        else if (role == ROLE_PARTNER)
            fill_partners(&r, n, o->p[role]);
        else if (role == ROLE_STATE)
            *operand_state(o) = state_for(fill);
        else if (role == ROLE_MASK) /* a random mask of a ReLU */
            fill_bytes(&r, o->p[role], n);
        else if (role == ROLE_SUMS)
            fill_sums(&r, o->p[role], n);
        else if (role == ROLE_RVAR || role == ROLE_INVSTD || role == ROLE_Z_INVSTD)
            fill_uniform(&r, o->p[role], n, 0.5, 1.5);
        else if (role == ROLE_RMEAN && fill == FILL_LARGE_MEAN)
            fill_uniform(&r, o->p[role], n, 999, 1001);
        else if ((role == ROLE_DW || role == ROLE_DW_HALF) && fill == FILL_NAN)
            operand_f32(o, (enum role)role)[n / 2] = NAN;
        else if (role != ROLE_INDEX && fill == FILL_TIES)
            fill_grid(&r, o->p[role], n, 0x1p-11, 4);
        else if (role != ROLE_INDEX)
            fill_uniform(&r, o->p[role], n, -1, 1);
    }
    if (d->kind == OP_BN_BWD || d->kind == OP_BN_POOL_BWD || d->kind == OP_MAXPOOL_BWD)
        return fill_from_forward(ref, d, seed + 1, o);
    for (int64_t i = 0; d->kind == OP_RELU_BWD && i < operand_count(d, ROLE_Y); i++)
        operand_f32(o, ROLE_Y)[i] = fmaxf(operand_f32(o, ROLE_Y)[i], 0);
    return STATUS_OK;
}

enum status fill_operands(struct device *ref, const struct op_desc *d, enum fill fill,
                          uint64_t seed, struct operands *o)
{
    struct precision_none wide;
    precision_none(d, &wide);
    TRY(fill_wide(ref, &wide.desc, fill, seed, o));
    /* Scales the values as `fill` requires, and rounds them to the precisions in `d`. */
    struct op_roles roles = op_roles(d->kind);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (!(roles.reads >> role & 1) || !d->t[role].ndim || d->t[role].type != DTYPE_F32)
            continue;
        bool scaled = fill == FILL_HUGE || fill == FILL_TINY;
        double factor = scaled ? magnitude(d, (enum role)role, fill) : 1;
        float *v = o->p[role];
        for (int64_t i = 0; i < operand_count(d, (enum role)role); i++)
            v[i] = precision_written(d, (enum role)role, i, (float)(factor * (double)v[i]));
    }
    return STATUS_OK;
}
