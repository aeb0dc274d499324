/* Compares every fused form of convolution, batch norm, residual and pooling with the separate
 * operations that it replaces. Both run on the reference, in fp32 and in fp32 that is rounded to
 * fp16 or bf16. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"
#include "verify/rig.h"

static const struct conv_shape shapes[] = {
    {2, 5, 6, 7, 9, {3, 3}, {1, 1}, {1, 1}, 1},
    {3, 8, 9, 9, 4, {3, 3}, {2, 2}, {1, 1}, 2},
    {2, 17, 4, 4, 8, {1, 1}, {1, 1}, {0, 0}, 1},
    {2, 3, 8, 8, 6, {1, 1}, {2, 2}, {0, 0}, 1},
};
static const enum dtype precisions[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const uint64_t statistics = WITH(MEAN) | WITH(INVSTD) | WITH(RMEAN) | WITH(RVAR);
enum { N_SHAPES = COUNT(shapes), N_PRECISIONS = 3 };

/* Relative error of one rounding. */
static double unit_of(enum dtype precision)
{
    return precision == DTYPE_F16 ? 0x1p-11 : precision == DTYPE_BF16 ? 0x1p-8 : 0x1p-24;
}

/* --- operations in a row --- */

/* Operations with their operands. Inputs are random, and equal in all operations of a chain for the
 * same role, unless the test gives an operation the operand of another. */
struct chain {
    struct device *ref;
    enum dtype precision; /* of activations; other tensors are fp32 */
    int n;
    struct op_desc d[8];
    struct operands o[8];
};

/* Fills the tensor of `role` with values between `low` and `high`, rounded as `d` says. A role gets
 * the same values in every operation. */
static void put_random(struct operands *o, const struct op_desc *d, enum role role, double low,
                       double high)
{
    struct rng r = rng_at(7, RNG_INIT, (uint64_t)role, 0);
    int64_t n = operand_count(d, role);
    fill_uniform(&r, operand_f32(o, role), n, low, high);
    for (int64_t i = 0; i < n; i++)
        operand_f32(o, role)[i] = dtype_round(d->t[role].rounds, operand_f32(o, role)[i]);
}

static void fill_input(const struct op_desc *d, struct operands *o, enum role role)
{
    bool positive = role == ROLE_INVSTD || role == ROLE_Z_INVSTD || role == ROLE_RVAR;
    struct rng r = rng_at(9, RNG_INIT, (uint64_t)role, 0);
    if (role == ROLE_MASK)
        for (size_t i = 0; i < operand_bytes(d, role); i++)
            ((uint8_t *)o->p[role])[i] = (uint8_t)rng_below(&r, 256);
    else if (d->t[role].type == DTYPE_F32)
        put_random(o, d, role, positive ? 0.5 : -1, 1.5);
}

static int add(struct chain *c, struct op_desc d)
{
    const uint64_t narrow = WITH(X) | WITH(Y) | WITH(Z) | WITH(DX) | WITH(DZ) | WITH(DY) |
                            WITH(DY2) | WITH(APPLIED) | WITH(AFFINE) | WITH(Z_AFFINE);
    int i = c->n++;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim && narrow >> r & 1)
            d.t[r].rounds = c->precision;
    c->d[i] = d;
    expect_ok(operands_new(&d, &c->o[i]));
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim && op_roles(d.kind).reads >> r & 1)
            fill_input(&d, &c->o[i], (enum role)r);
    return i;
}

static void give(struct chain *c, int to, enum role as, int from, enum role role)
{
    assert_int_equal(operand_bytes(&c->d[to], as), operand_bytes(&c->d[from], role));
    memcpy(c->o[to].p[as], c->o[from].p[role], operand_bytes(&c->d[from], role));
}

/* Gives several operands, each in the same role. */
static void give_all(struct chain *c, int to, int from, uint64_t roles)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles >> r & 1 && c->d[to].t[r].ndim)
            give(c, to, (enum role)r, from, (enum role)r);
}

/* Makes a batch norm compute X * scale + shift, with the scales and shifts in an operand of another
 * operation. */
static void give_affine(struct chain *c, int to, int from, enum role affine)
{
    int64_t channels = operand_count(&c->d[to], ROLE_GAMMA);
    const float *scale = operand_f32(&c->o[from], affine);
    memcpy(c->o[to].p[ROLE_GAMMA], scale, (size_t)channels * sizeof *scale);
    memcpy(c->o[to].p[ROLE_BETA], scale + channels, (size_t)channels * sizeof *scale);
    for (int64_t i = 0; i < channels; i++) {
        operand_f32(&c->o[to], ROLE_MEAN)[i] = 0;
        operand_f32(&c->o[to], ROLE_INVSTD)[i] = 1;
    }
}

static void run(struct chain *c, int i)
{
    expect_ok(run_once(c->ref, &c->d[i], &c->o[i]));
}

/* Compares a result with a result of another operation (assert_close); masks byte for byte. */
static void assert_near(const struct chain *c, int a, enum role role, int b, enum role as,
                        double tolerance)
{
    if (c->d[a].t[role].type == DTYPE_F32)
        assert_close(role_str(role), operand_f32(&c->o[a], role), operand_f32(&c->o[b], as),
                     operand_count(&c->d[a], role), tolerance);
    else
        assert_memory_equal(c->o[a].p[role], c->o[b].p[as], operand_bytes(&c->d[a], role));
}

/* Compares several results, each with that of the same role. */
static void assert_all_near(const struct chain *c, int a, int b, uint64_t roles, double tolerance)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles >> r & 1 && c->d[a].t[r].ndim)
            assert_near(c, a, (enum role)r, b, (enum role)r, tolerance);
}

static void chain_free(struct chain *c)
{
    for (int i = 0; i < c->n; i++)
        operands_free(&c->o[i]);
}

static struct op_desc bn_like(enum op_kind kind, const struct tensor_desc *x, bool relu,
                              uint64_t with)
{
    return describe_bn(kind, (int)x->dim[0], (int)x->dim[1], (int)x->dim[2], (int)x->dim[3], relu,
                       with);
}

/* --- forward --- */

/* Compares a batch norm of one operation's Y with OP_BN_FINALIZE and OP_BN_APPLY, which use the
 * SUMS of operation `fused`. */
static void check_parts(struct chain *c, int plain, int fused, const struct bn_sync *sync)
{
    const struct tensor_desc *y = &c->d[plain].t[ROLE_Y];
    double unit = unit_of(c->precision);
    int whole = add(c, bn_like(OP_BN_FWD_TRAIN, y, true, WITH(MASK)));
    int finalize = add(c, bn_like(OP_BN_FINALIZE, y, true, WITH(AFFINE)));
    int apply = add(c, bn_like(OP_BN_APPLY, y, true, WITH(MASK)));
    int affine = add(c, bn_like(OP_BN_APPLY, y, true, 0));
    c->d[whole].attr.bn.sync = c->d[finalize].attr.bn.sync = sync;
    give(c, whole, ROLE_X, plain, ROLE_Y);
    give(c, finalize, ROLE_SUMS, fused, ROLE_SUMS);
    run(c, whole);
    run(c, finalize);
    assert_all_near(c, finalize, whole, statistics, 1e-6);
    give(c, apply, ROLE_X, plain, ROLE_Y);
    give_all(c, apply, finalize, WITH(MEAN) | WITH(INVSTD));
    run(c, apply);
    assert_near(c, apply, ROLE_Y, whole, ROLE_Y, 2 * unit + 1e-6);
    assert_near(c, apply, ROLE_MASK, whole, ROLE_MASK, 0);
    give(c, affine, ROLE_X, plain, ROLE_Y);
    give_affine(c, affine, finalize, ROLE_AFFINE);
    run(c, affine);
    assert_near(c, affine, ROLE_Y, whole, ROLE_Y, 4 * unit + 1e-6);
}

/* A convolution that applies batch norm, residual and ReLU to its input, and sums its output. */
static void check_forward(struct device *ref, const struct conv_shape *s, uint64_t with,
                          enum dtype precision, const struct bn_sync *sync)
{
    struct chain c = {.ref = ref, .precision = precision};
    int fused = add(&c, describe_conv(OP_CONV_STATS_FWD, s, with));
    int conv = add(&c, describe_conv(OP_CONV_FWD, s, 0));
    run(&c, fused);
    if (with) {
        int applied = add(&c, bn_like(OP_BN_APPLY, &c.d[fused].t[ROLE_X], true,
                                      with & (WITH(Z) | WITH(Z_AFFINE))));
        give_affine(&c, applied, fused, ROLE_AFFINE);
        run(&c, applied);
        give(&c, conv, ROLE_X, applied, ROLE_Y);
        if (with & WITH(APPLIED))
            assert_near(&c, fused, ROLE_APPLIED, applied, ROLE_Y, 0);
    }
    run(&c, conv);
    assert_near(&c, fused, ROLE_Y, conv, ROLE_Y, 0);
    check_parts(&c, conv, fused, sync);
    chain_free(&c);
}

/* Simulates a sum over three ranks that have the same values. */
static enum status thrice(void *context, double *values, int64_t n)
{
    ++*(int *)context;
    for (int64_t i = 0; i < n; i++)
        values[i] *= 3;
    return STATUS_OK;
}

static void sums_are_those_of_all_ranks(void **state)
{
    int calls = 0;
    const struct bn_sync sync = {thrice, &calls};
    check_forward(*state, &shapes[0], 0, DTYPE_F32, &sync);
    assert_int_equal(calls, 2); /* once in the batch norm, and once in OP_BN_FINALIZE */
}

/* The largest error of X*scale + shift at the mean of a channel, as a fraction of OP_BN_FINALIZE's
 * bound. The mean of each channel is `ratio` standard deviations. */
static double affine_error(struct device *ref, enum dtype precision, double ratio)
{
    enum { CHANNELS = 512 };
    struct op_desc d = describe_bn(OP_BN_FINALIZE, 4, CHANNELS, 8, 8, true, WITH(AFFINE));
    struct operands o;
    double worst = 0, count = (double)d.attr.bn.count;
    d.t[ROLE_AFFINE].rounds = precision;
    expect_ok(operands_new(&d, &o));
    put_random(&o, &d, ROLE_GAMMA, 0.5, 1.5);
    put_random(&o, &d, ROLE_BETA, -1, 1);
    put_random(&o, &d, ROLE_SUMS, 0.5, 1.5); /* first the standard deviations */
    for (int c = 0; c < CHANNELS; c++) {
        double std = (double)operand_f32(&o, ROLE_SUMS)[c], mean = ratio * std;
        operand_f32(&o, ROLE_SUMS)[c] = (float)(count * mean);
        operand_f32(&o, ROLE_SUMS)[CHANNELS + c] = (float)(count * (mean * mean + std * std));
    }
    expect_ok(run_once(ref, &d, &o));
    for (int c = 0; c < CHANNELS; c++) {
        double mean = (double)operand_f32(&o, ROLE_SUMS)[c] / count;
        double beta = (double)operand_f32(&o, ROLE_BETA)[c];
        double scale = (double)operand_f32(&o, ROLE_AFFINE)[c];
        double shift = (double)operand_f32(&o, ROLE_AFFINE)[CHANNELS + c];
        double bound = unit_of(precision) * (fabs(mean * scale) + fabs(beta));
        worst = fmax(worst, fabs(mean * scale + shift - beta) / bound);
    }
    operands_free(&o);
    return worst;
}

/* The shift is computed from the rounded scale. With the unrounded scale, the error at large means
 * would be twice the bound. */
static void the_shift_makes_up_for_the_scale(void **state)
{
    static const double ratios[] = {0, 1, 16, 256};
    for (int k = 1; k < N_PRECISIONS; k++)
        for (int i = 0; i < 4; i++) {
            double worst = affine_error(*state, precisions[k], ratios[i]);
            assert_true(worst > 0.4 && worst <= 1.02);
        }
}

/* --- a batch norm, its residual and its mask --- */

/* A mask stands for Y in the backward pass. A residual with a batch norm of its own is normalised
 * as it is added. */
static void check_block(struct device *ref, enum op_kind kind, int channels, uint64_t with,
                        enum dtype precision)
{
    struct chain c = {.ref = ref, .precision = precision};
    const uint64_t backward = with ? WITH(DZ) | WITH(DY2) : 0;
    const uint64_t given = WITH(Y) | WITH(MASK) | WITH(MEAN) | WITH(INVSTD);
    int fused = add(&c, describe_bn(kind, 2, channels, 3, 5, true, with | WITH(MASK)));
    int by_y = add(&c, describe_bn(OP_BN_BWD, 2, channels, 3, 5, true, backward));
    int by_mask = add(&c, describe_bn(OP_BN_BWD, 2, channels, 3, 5, true, backward | WITH(MASK)));
    run(&c, fused);
    if (with & WITH(Z_AFFINE)) {
        int z = add(&c, describe_bn(OP_BN_APPLY, 2, channels, 3, 5, false, 0));
        int plain = add(&c, describe_bn(kind, 2, channels, 3, 5, true, WITH(Z)));
        give(&c, z, ROLE_X, fused, ROLE_Z);
        give_affine(&c, z, fused, ROLE_Z_AFFINE);
        run(&c, z);
        give(&c, plain, ROLE_Z, z, ROLE_Y);
        run(&c, plain);
        /* the separate operations also round the residual */
        assert_near(&c, fused, ROLE_Y, plain, ROLE_Y, 2 * unit_of(precision) + 1e-6);
    }
    give_all(&c, by_y, fused, given);
    give_all(&c, by_mask, fused, given);
    run(&c, by_y);
    run(&c, by_mask);
    assert_all_near(&c, by_mask, by_y, WITH(DX) | WITH(DGAMMA) | WITH(DBETA) | WITH(DZ), 0);
    chain_free(&c);
}

/* --- backward --- */

/* Gives the inputs of a residual's batch norm to an operation that computes it alone. */
static void give_residual(struct chain *c, int to, int fused)
{
    give(c, to, ROLE_X, fused, ROLE_Z);
    give(c, to, ROLE_GAMMA, fused, ROLE_Z_GAMMA);
    give(c, to, ROLE_MEAN, fused, ROLE_Z_MEAN);
    give(c, to, ROLE_INVSTD, fused, ROLE_Z_INVSTD);
}

/* Adds the backward pass of the residual's batch norm, whose gradient is in DZ of operation `from`.
 */
static int add_residual_backward(struct chain *c, int fused, int from)
{
    int z = add(c, bn_like(OP_BN_BWD, &c->d[fused].t[ROLE_Z], false, 0));
    give_residual(c, z, fused);
    give(c, z, ROLE_DY, from, ROLE_DZ);
    run(c, z);
    assert_near(c, fused, ROLE_Z_DGAMMA, z, ROLE_DGAMMA, 1e-6);
    assert_near(c, fused, ROLE_Z_DBETA, z, ROLE_DBETA, 1e-6);
    return z;
}

static void check_two(struct device *ref, uint64_t with, bool relu, enum dtype precision)
{
    struct chain c = {.ref = ref, .precision = precision};
    int fused = add(&c, describe_bn(OP_BN_BWD, 3, 11, 5, 4, relu, with | WITH(DZ) | WITH_BN_OF_Z));
    int plain = add(&c, describe_bn(OP_BN_BWD, 3, 11, 5, 4, relu, with | WITH(DZ)));
    run(&c, fused);
    run(&c, plain);
    assert_all_near(&c, fused, plain, WITH(DX) | WITH(DGAMMA) | WITH(DBETA), 0);
    int z = add_residual_backward(&c, fused, plain);
    assert_near(&c, fused, ROLE_DZ, z, ROLE_DX, unit_of(precision) + 1e-6);
    chain_free(&c);
}

static void masks_and_residuals(void **state)
{
    static const uint64_t variants[] = {0, WITH(Z), WITH(Z) | WITH(Z_AFFINE)};
    static const int channels[] = {1, 5, 8, 17};
    for (int k = 0; k < N_PRECISIONS; k++) {
        for (int i = 0; i < 12; i++) {
            int c = channels[i / 3];
            check_block(*state, OP_BN_FWD_TRAIN, c, variants[i % 3], precisions[k]);
            check_block(*state, OP_BN_APPLY, c, variants[i % 3], precisions[k]);
        }
        check_two(*state, 0, false, precisions[k]);
        check_two(*state, 0, true, precisions[k]);
        check_two(*state, WITH(MASK), true, precisions[k]);
        check_two(*state, WITH(MASK) | WITH(DY2), true, precisions[k]);
    }
}

/* Adds the batch norm before the ReLU, whose Y decides where the gradient passes. A residual's own
 * batch norm is computed first and, as in the fused form, not rounded. */
static int add_normalised(struct chain *c, int fused, uint64_t with)
{
    const struct tensor_desc *x = &c->d[fused].t[ROLE_X];
    int y = add(c, bn_like(OP_BN_APPLY, x, true, with & WITH(Z)));
    give(c, y, ROLE_GAMMA, fused, ROLE_BN_GAMMA);
    give(c, y, ROLE_BETA, fused, ROLE_BN_BETA);
    if (with & WITH(Z_GAMMA)) {
        int z = add(c, bn_like(OP_BN_APPLY, x, false, 0));
        c->d[z].t[ROLE_Y].rounds = c->d[y].t[ROLE_Z].rounds = DTYPE_F32;
        give_residual(c, z, fused);
        give(c, z, ROLE_BETA, fused, ROLE_Z_BETA);
        run(c, z);
        give(c, y, ROLE_Z, z, ROLE_Y);
    }
    run(c, y);
    return y;
}

/* A data gradient that also passes the ReLU before the convolution, and sums for the batch norms
 * before it; and the multiply-adds that then give the gradients of their inputs. */
static void check_data(struct device *ref, const struct conv_shape *s, uint64_t with,
                       enum dtype precision)
{
    struct chain c = {.ref = ref, .precision = precision};
    const bool two = with & WITH(Z_GAMMA);
    const double unit = unit_of(precision);
    int fused = add(&c, describe_conv(OP_CONV_BWD_DATA_BN, s, with));
    int data = add(&c, describe_conv(OP_CONV_BWD_DATA, s, 0));
    const struct tensor_desc *x = &c.d[fused].t[ROLE_X];
    int plain = add(&c, bn_like(OP_BN_BWD, x, true, (with & WITH(DY2)) | WITH(DZ)));
    int lines =
        add(&c, bn_like(OP_BN_BWD_APPLY, x, false, two ? WITH(Z) | WITH(Z_EQ) | WITH(DZ) : 0));
    run(&c, fused);
    run(&c, data);
    give(&c, plain, ROLE_GAMMA, fused, ROLE_BN_GAMMA);
    give(&c, plain, ROLE_Y, add_normalised(&c, fused, with), ROLE_Y);
    give(&c, plain, ROLE_DY, data, ROLE_DX);
    run(&c, plain);
    assert_near(&c, fused, ROLE_DX, plain, ROLE_DZ, 0);
    assert_all_near(&c, fused, plain, WITH(DGAMMA) | WITH(DBETA), 2 * unit + 1e-6);
    give(&c, lines, ROLE_DY, fused, ROLE_DX);
    give_all(&c, lines, fused, WITH(EQ) | WITH(Z_EQ));
    run(&c, lines);
    assert_near(&c, lines, ROLE_DX, plain, ROLE_DX, 4 * unit + 1e-6);
    if (two)
        assert_near(&c, lines, ROLE_DZ, add_residual_backward(&c, fused, plain), ROLE_DX,
                    4 * unit + 1e-6);
    chain_free(&c);
}

static void check_weights(struct device *ref, const struct conv_shape *s, enum dtype precision)
{
    struct chain c = {.ref = ref, .precision = precision};
    int fused = add(&c, describe_conv(OP_CONV_APPLY_BWD_WEIGHTS, s, 0));
    int plain = add(&c, describe_conv(OP_CONV_BWD_WEIGHTS, s, 0));
    int applied = add(&c, bn_like(OP_BN_APPLY, &c.d[fused].t[ROLE_X], true, 0));
    give_affine(&c, applied, fused, ROLE_AFFINE);
    run(&c, applied);
    give(&c, plain, ROLE_X, applied, ROLE_Y);
    run(&c, fused);
    run(&c, plain);
    assert_near(&c, fused, ROLE_DW, plain, ROLE_DW, 0);
    assert_true(op_flops(&c.d[fused]) > 0 && op_flops(&c.d[fused]) == op_flops(&c.d[plain]));
    chain_free(&c);
}

static void convolutions(void **state)
{
    static const uint64_t forward[] = {0, WITH(AFFINE), WITH_END, WITH_END | WITH(Z_AFFINE)};
    static const uint64_t backward[] = {0, WITH(Z), WITH_DATA_BN_OF_Z};
    for (int i = 0; i < N_SHAPES; i++)
        for (int k = 0; k < N_PRECISIONS; k++) {
            for (int v = 0; v < 4; v++)
                check_forward(*state, &shapes[i], forward[v], precisions[k], NULL);
            for (int v = 0; v < 6; v++)
                check_data(*state, &shapes[i], backward[v / 2] | (v % 2 ? WITH(DY2) : 0),
                           precisions[k]);
            check_weights(*state, &shapes[i], precisions[k]);
        }
}

/* --- with max pooling --- */

/* `bad`: X has a NaN, which makes the gradients of its channel NaN. */
static void check_pooled(struct device *ref, const int side[2], const struct pool_attr *p,
                         uint64_t with, enum dtype precision, bool bad)
{
    struct chain c = {.ref = ref, .precision = precision};
    int h = side[0], w = side[1];
    int fused = add(&c, describe_bn_pool(OP_BN_POOL_FWD, 2, 16, h, w, p, 0));
    int apply = add(&c, describe_bn(OP_BN_APPLY, 2, 16, h, w, true, 0));
    int pool = add(&c, describe_maxpool(OP_MAXPOOL_FWD, 2, 16, h, w, p, WITH(INDEX)));
    int fused_bwd = add(&c, describe_bn_pool(OP_BN_POOL_BWD, 2, 16, h, w, p, with));
    int pool_bwd = add(&c, describe_maxpool(OP_MAXPOOL_BWD, 2, 16, h, w, p, with));
    int bwd = add(&c, describe_bn(OP_BN_BWD, 2, 16, h, w, true, 0));
    if (bad)
        operand_f32(&c.o[fused], ROLE_X)[3] = NAN;
    give(&c, apply, ROLE_X, fused, ROLE_X);
    run(&c, fused);
    run(&c, apply);
    give(&c, pool, ROLE_X, apply, ROLE_Y);
    run(&c, pool);
    assert_near(&c, fused, ROLE_Y, pool, ROLE_Y, 0);
    const uint8_t *index = c.o[fused].p[ROLE_INDEX], *place = c.o[pool].p[ROLE_INDEX];
    for (int64_t i = 0; i < operand_count(&c.d[fused], ROLE_Y); i++)
        assert_int_equal(index[i],
                         operand_f32(&c.o[pool], ROLE_Y)[i] > 0 ? place[i] : POOL_NO_INDEX);
    give_all(&c, fused_bwd, fused, WITH(INDEX) | WITH(X));
    give(&c, pool_bwd, ROLE_INDEX, pool, ROLE_INDEX);
    run(&c, fused_bwd);
    run(&c, pool_bwd);
    give(&c, bwd, ROLE_X, fused, ROLE_X);
    give(&c, bwd, ROLE_Y, apply, ROLE_Y);
    give(&c, bwd, ROLE_DY, pool_bwd, ROLE_DX);
    run(&c, bwd);
    assert_all_near(&c, fused_bwd, bwd, WITH(DX) | WITH(DGAMMA) | WITH(DBETA), 0);
    int train = add(&c, describe_bn(OP_BN_FWD_TRAIN, 2, 16, h, w, true, 0));
    int sums = add(&c, describe_bn_pool(OP_BN_STATISTICS, 2, 16, h, w, p, 0));
    run(&c, train);
    run(&c, sums);
    assert_all_near(&c, sums, train, statistics, 0);
    chain_free(&c);
}

static void pooling_takes_the_batch_norm_in(void **state)
{
    static const int sides[][2] = {{8, 8}, {7, 6}, {19, 37}};
    static const struct pool_attr windows[] = {{{3, 3}, {2, 2}, {1, 1}}, {{2, 2}, {2, 2}, {0, 0}}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            for (int p = 0; p < N_PRECISIONS; p++)
                check_pooled(*state, sides[i], &windows[k], i ? WITH(DY2) : 0, precisions[p],
                             i == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_all_ranks),
        cmocka_unit_test(the_shift_makes_up_for_the_scale),
        cmocka_unit_test(masks_and_residuals),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(pooling_takes_the_batch_norm_in),
    };
    return cmocka_run_group_tests_name("fused", tests, rig_group_setup, rig_group_teardown);
}
