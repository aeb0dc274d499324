/* Compares the fused forms of convolution and batch norm with separate operations. Both run on the
 * reference, in fp32 and in fp32 that is rounded to fp16 or bf16. */
#include "tests/kernels/group.h"
#include "tests/kernels/random_operand.h"
#include "verify/describe.h"
#include "verify/fill.h"
#include "verify/rig.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct conv_shape shapes[] = {
    {2, 5, 6, 7, 9, {3, 3}, {1, 1}, {1, 1}, 1},
    {3, 8, 9, 9, 4, {3, 3}, {2, 2}, {1, 1}, 2},
    {2, 17, 4, 4, 8, {1, 1}, {1, 1}, {0, 0}, 1},
    {2, 3, 8, 8, 6, {1, 1}, {2, 2}, {0, 0}, 1},
};
static const enum dtype precisions[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_PRECISIONS = 3 };

/* Relative error of one rounding. */
static double unit_of(enum dtype precision)
{
    return precision == DTYPE_F16 ? 0x1p-11 : precision == DTYPE_BF16 ? 0x1p-8 : 0x1p-24;
}

/* Sets the precision of activations. All other tensors are fp32. */
static void round_activations(struct op_desc *d, enum dtype precision)
{
    static const enum role narrow[] = {ROLE_X,  ROLE_Y,  ROLE_Z,   ROLE_DX,
                                       ROLE_DZ, ROLE_DY, ROLE_DY2, ROLE_AFFINE};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        if (d->t[narrow[i]].ndim)
            d->t[narrow[i]].rounds = precision;
}

/* Copies a tensor of `from` to a tensor of `to` with the same number of elements. */
static void hand_over(struct operands *to, enum role to_role, const struct operands *from,
                      enum role from_role, const struct op_desc *from_desc)
{
    memcpy(to->p[to_role], from->p[from_role], operand_bytes(from_desc, from_role));
}

static void assert_near(const char *what, const float *got, const float *want, int64_t n,
                        double tolerance)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * largest))
            fail_msg("%s[%lld] is %.9g, not %.9g", what, (long long)i, (double)got[i],
                     (double)want[i]);
}

static void assert_same(const char *what, const struct op_desc *d, enum role role,
                        const struct operands *got, const struct operands *want, enum role in)
{
    assert_near(what, operand_f32(got, role), operand_f32(want, in), operand_count(d, role), 0);
}

/* --- convolution with sums --- */

static void fill_conv(const struct op_desc *d, struct operands *o)
{
    OK(operands_new(d, o));
    put_random(o, d, ROLE_X, -1, 2);
    if (d->t[ROLE_W].ndim)
        put_random(o, d, ROLE_W, -0.5, 0.5);
    if (d->t[ROLE_AFFINE].ndim)
        put_random(o, d, ROLE_AFFINE, -1, 1);
}

static void check_sums(const struct op_desc *d, const struct operands *o)
{
    const struct tensor_desc *y = &d->t[ROLE_Y];
    int64_t channels = y->dim[1], plane = y->dim[2] * y->dim[3];
    float *want = calloc(2 * (size_t)channels, sizeof *want);
    assert_non_null(want);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < y->dim[0] * plane; i++) {
            int64_t at = (i / plane * channels + c) * plane + i % plane;
            double v = (double)operand_f32(o, ROLE_Y)[at];
            sum += v;
            squares += v * v;
        }
        want[c] = (float)sum;
        want[channels + c] = (float)squares;
    }
    assert_near("SUMS", operand_f32(o, ROLE_SUMS), want, 2 * channels, 1e-7);
    free(want);
}

static void check_stats(struct device *ref, const struct conv_shape *s, enum dtype precision)
{
    struct op_desc fused = describe_conv(OP_CONV_STATS_FWD, s, 0);
    struct op_desc plain = describe_conv(OP_CONV_FWD, s, 0);
    struct operands f, p;
    round_activations(&fused, precision);
    round_activations(&plain, precision);
    fill_conv(&fused, &f);
    OK(operands_new(&plain, &p));
    hand_over(&p, ROLE_X, &f, ROLE_X, &fused);
    hand_over(&p, ROLE_W, &f, ROLE_W, &fused);
    OK(run_once(ref, &fused, &f));
    OK(run_once(ref, &plain, &p));
    assert_same("Y", &fused, ROLE_Y, &f, &p, ROLE_Y);
    check_sums(&fused, &f);
    operands_free(&f);
    operands_free(&p);
}

static void for_all(struct device *ref,
                    void (*check)(struct device *, const struct conv_shape *, enum dtype))
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int k = 0; k < N_PRECISIONS; k++)
            check(ref, &shapes[i], precisions[k]);
}

static void sums_come_with_the_convolution(void **state)
{
    for_all(*state, check_stats);
}

/* --- X applied --- */

static void apply_on_host(const struct op_desc *d, const struct operands *o, float *out)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    const float *affine = operand_f32(o, ROLE_AFFINE);
    int64_t plane = x->dim[2] * x->dim[3];
    for (int64_t i = 0; i < tensor_count(x); i++) {
        int64_t c = i / plane % x->dim[1];
        double v =
            (double)operand_f32(o, ROLE_X)[i] * (double)affine[c] + (double)affine[x->dim[1] + c];
        out[i] = dtype_round(x->rounds, (float)fmax(v, 0));
    }
}

static void check_applied(struct device *ref, const struct conv_shape *s, enum dtype precision)
{
    static const struct {
        enum op_kind fused, plain;
        enum role result;
    } kinds[] = {{OP_CONV_STATS_FWD, OP_CONV_FWD, ROLE_Y},
                 {OP_CONV_APPLY_BWD_WEIGHTS, OP_CONV_BWD_WEIGHTS, ROLE_DW}};
    for (int k = 0; k < 2; k++) {
        struct op_desc fused = describe_conv(kinds[k].fused, s, WITH(AFFINE));
        struct op_desc plain = describe_conv(kinds[k].plain, s, 0);
        struct operands f, p;
        round_activations(&fused, precision);
        round_activations(&plain, precision);
        fill_conv(&fused, &f);
        OK(operands_new(&plain, &p));
        apply_on_host(&fused, &f, operand_f32(&p, ROLE_X));
        if (k == 0) {
            hand_over(&p, ROLE_W, &f, ROLE_W, &fused);
        } else {
            put_random(&f, &fused, ROLE_DY, -1, 1);
            hand_over(&p, ROLE_DY, &f, ROLE_DY, &fused);
        }
        OK(run_once(ref, &fused, &f));
        OK(run_once(ref, &plain, &p));
        assert_same("the result of X applied", &fused, kinds[k].result, &f, &p, kinds[k].result);
        operands_free(&f);
        operands_free(&p);
    }
}

static void convolutions_apply_as_they_read(void **state)
{
    for_all(*state, check_applied);
}

/* --- batch norm in separate operations --- */

struct bn_shape {
    int n, c, h, w;
};

static void fill_bn(const struct op_desc *d, struct operands *o)
{
    static const enum role roles[] = {ROLE_X, ROLE_Z, ROLE_BETA, ROLE_RMEAN};
    OK(operands_new(d, o));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (d->t[roles[i]].ndim)
            put_random(o, d, roles[i], -1, 1.5);
    put_random(o, d, ROLE_GAMMA, 0.5, 1.5);
    put_random(o, d, ROLE_RVAR, 0.5, 1.5);
}

/* The sums of X. */
static void sums_of(const struct op_desc *bn, const struct operands *o, float *sums)
{
    const struct tensor_desc *x = &bn->t[ROLE_X];
    int64_t channels = x->dim[1], plane = x->dim[2] * x->dim[3];
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < x->dim[0] * plane; i++) {
            double v =
                (double)operand_f32(o, ROLE_X)[(i / plane * channels + c) * plane + i % plane];
            sum += v;
            squares += v * v;
        }
        sums[c] = (float)sum;
        sums[channels + c] = (float)squares;
    }
}

static void check_affine(const struct op_desc *d, const struct operands *o, enum dtype precision)
{
    int64_t channels = d->t[ROLE_GAMMA].dim[0];
    for (int64_t c = 0; c < channels; c++) {
        double scale =
            (double)operand_f32(o, ROLE_GAMMA)[c] * (double)operand_f32(o, ROLE_INVSTD)[c];
        double shift =
            (double)operand_f32(o, ROLE_BETA)[c] -
            (double)operand_f32(o, ROLE_MEAN)[c] * (double)operand_f32(o, ROLE_AFFINE)[c];
        double unit = unit_of(precision) * 1.01 + 1e-6;
        assert_true(fabs((double)operand_f32(o, ROLE_AFFINE)[c] - scale) <= unit * fabs(scale));
        assert_true(fabs((double)operand_f32(o, ROLE_AFFINE)[channels + c] - shift) <=
                    unit * fabs(shift) + 1e-6);
    }
}

/* Compares batch norm as one operation with batch norm as separate operations. `sync` may be NULL.
 */
static void check_parts(struct device *ref, enum dtype precision, const struct bn_sync *sync)
{
    static const struct bn_shape s = {3, 17, 5, 4};
    struct op_desc whole =
        describe_bn(OP_BN_FWD_TRAIN, s.n, s.c, s.h, s.w, true, WITH(Z) | WITH(MASK));
    struct op_desc finalize = describe_bn(OP_BN_FINALIZE, s.n, s.c, s.h, s.w, true, WITH(AFFINE));
    struct op_desc apply = describe_bn(OP_BN_APPLY, s.n, s.c, s.h, s.w, true, WITH(Z) | WITH(MASK));
    static const enum role given[] = {ROLE_GAMMA, ROLE_BETA, ROLE_RMEAN, ROLE_RVAR};
    static const enum role kept[] = {ROLE_MEAN, ROLE_INVSTD, ROLE_RMEAN, ROLE_RVAR};
    struct operands w, f, a;
    round_activations(&whole, precision);
    round_activations(&finalize, precision);
    round_activations(&apply, precision);
    whole.attr.bn.sync = finalize.attr.bn.sync = sync;
    fill_bn(&whole, &w);
    OK(operands_new(&finalize, &f));
    OK(operands_new(&apply, &a));
    for (int i = 0; i < 4; i++)
        hand_over(&f, given[i], &w, given[i], &whole);
    sums_of(&whole, &w, operand_f32(&f, ROLE_SUMS));
    OK(run_once(ref, &whole, &w));
    OK(run_once(ref, &finalize, &f));
    for (int i = 0; i < 4; i++)
        assert_near(role_str(kept[i]), operand_f32(&f, kept[i]), operand_f32(&w, kept[i]), s.c,
                    1e-6);
    check_affine(&finalize, &f, precision);
    for (int i = 0; i < 4; i++)
        hand_over(&a, i < 2 ? given[i] : kept[i - 2], &f, i < 2 ? given[i] : kept[i - 2],
                  &finalize);
    hand_over(&a, ROLE_X, &w, ROLE_X, &whole);
    hand_over(&a, ROLE_Z, &w, ROLE_Z, &whole);
    OK(run_once(ref, &apply, &a));
    assert_near("Y", operand_f32(&a, ROLE_Y), operand_f32(&w, ROLE_Y),
                operand_count(&apply, ROLE_Y), 2 * unit_of(precision) + 1e-6);
    assert_memory_equal(a.p[ROLE_MASK], w.p[ROLE_MASK], operand_bytes(&apply, ROLE_MASK));
    operands_free(&w);
    operands_free(&f);
    operands_free(&a);
}

static void batch_norm_is_its_parts(void **state)
{
    for (int k = 0; k < N_PRECISIONS; k++)
        check_parts(*state, precisions[k], NULL);
}

/* The largest error of X*scale + shift over all channels, as a fraction of OP_BN_FINALIZE's bound.
 * The mean of each channel is `ratio` standard deviations. Three values of X are tested: the mean,
 * and the mean plus and minus four standard deviations. */
static double affine_error(struct device *ref, enum dtype precision, double ratio)
{
    enum { CHANNELS = 512 };
    struct op_desc d = describe_bn(OP_BN_FINALIZE, 4, CHANNELS, 8, 8, true, WITH(AFFINE));
    struct operands o;
    double worst = 0, count = (double)d.attr.bn.count, u = unit_of(precision);
    d.t[ROLE_AFFINE].rounds = precision;
    OK(operands_new(&d, &o));
    put_random(&o, &d, ROLE_GAMMA, 0.5, 1.5);
    put_random(&o, &d, ROLE_BETA, -1, 1);
    /* INVSTD contains the standard deviations here. The operation overwrites them. */
    put_random(&o, &d, ROLE_INVSTD, 0.5, 1.5);
    for (int c = 0; c < CHANNELS; c++) {
        double std = (double)operand_f32(&o, ROLE_INVSTD)[c], mean = ratio * std;
        operand_f32(&o, ROLE_SUMS)[c] = (float)(count * mean);
        operand_f32(&o, ROLE_SUMS)[CHANNELS + c] = (float)(count * (mean * mean + std * std));
    }
    OK(run_once(ref, &d, &o));
    for (int c = 0; c < CHANNELS; c++) {
        double mean = (double)operand_f32(&o, ROLE_SUMS)[c] / count;
        double gamma = (double)operand_f32(&o, ROLE_GAMMA)[c];
        double beta = (double)operand_f32(&o, ROLE_BETA)[c];
        double invstd = (double)operand_f32(&o, ROLE_INVSTD)[c];
        const float *affine = operand_f32(&o, ROLE_AFFINE);
        for (int k = -4; k <= 4; k += 4) {
            double x = mean + k / invstd, y = k * gamma + beta;
            double off = fabs(x * (double)affine[c] + (double)affine[CHANNELS + c] - y);
            double bound = u * (gamma * (fabs(x - mean) + fabs(mean)) * invstd + fabs(beta));
            worst = fmax(worst, off / bound);
        }
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
            print_message("%s, mean %g sigma: error / bound = %.2f\n", dtype_str(precisions[k]),
                          ratios[i], worst);
            assert_true(worst > 0.4 && worst <= 1.02);
        }
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
    check_parts(*state, DTYPE_F32, &sync);
    assert_int_equal(calls, 2); /* once in the batch norm, and once in OP_BN_FINALIZE */
}

/* --- masks --- */

static void check_mask(struct device *ref, int channels, uint64_t with)
{
    struct op_desc fwd = describe_bn(OP_BN_FWD_TRAIN, 2, channels, 3, 5, true, WITH(MASK));
    struct op_desc by_y = describe_bn(OP_BN_BWD, 2, channels, 3, 5, true, with);
    struct op_desc by_mask = describe_bn(OP_BN_BWD, 2, channels, 3, 5, true, with | WITH(MASK));
    static const enum role shared[] = {ROLE_X, ROLE_GAMMA, ROLE_MEAN, ROLE_INVSTD};
    static const enum role results[] = {ROLE_DX, ROLE_DGAMMA, ROLE_DBETA};
    struct operands f, y, m;
    fill_bn(&fwd, &f);
    OK(run_once(ref, &fwd, &f));
    OK(operands_new(&by_y, &y));
    OK(operands_new(&by_mask, &m));
    put_random(&y, &by_y, ROLE_DY, -1, 1);
    hand_over(&m, ROLE_DY, &y, ROLE_DY, &by_y);
    for (int i = 0; i < 4; i++) {
        hand_over(&y, shared[i], &f, shared[i], &fwd);
        hand_over(&m, shared[i], &f, shared[i], &fwd);
    }
    hand_over(&y, ROLE_Y, &f, ROLE_Y, &fwd);
    hand_over(&m, ROLE_MASK, &f, ROLE_MASK, &fwd);
    OK(run_once(ref, &by_y, &y));
    OK(run_once(ref, &by_mask, &m));
    for (int i = 0; i < 3; i++)
        assert_same(role_str(results[i]), &by_y, results[i], &y, &m, results[i]);
    if (with & WITH(DZ))
        assert_same("DZ", &by_y, ROLE_DZ, &y, &m, ROLE_DZ);
    operands_free(&f);
    operands_free(&y);
    operands_free(&m);
}

static void a_mask_stands_for_the_result(void **state)
{
    static const int channels[] = {1, 5, 8, 17};
    for (int i = 0; i < 4; i++) {
        check_mask(*state, channels[i], 0);
        check_mask(*state, channels[i], WITH(DZ));
    }
}

/* --- data gradient with the sums of batch norm --- */

/* A fused case and the separate operations with the same result. */
struct data_bn {
    struct op_desc fused, rest, data, forward, backward;
    struct operands f, r, d, fwd, b;
};

static void data_bn_fill(struct data_bn *t)
{
    static const enum role conv_reads[] = {ROLE_X, ROLE_W, ROLE_DY, ROLE_MEAN, ROLE_BN_BETA};
    OK(operands_new(&t->fused, &t->f));
    for (int i = 0; i < 5; i++)
        put_random(&t->f, &t->fused, conv_reads[i], -1, 1.25);
    put_random(&t->f, &t->fused, ROLE_BN_GAMMA, 0.5, 1.5);
    put_random(&t->f, &t->fused, ROLE_INVSTD, 0.5, 1.5);
    for (int role = ROLE_Z; role <= ROLE_DY2; role++)
        if ((role == ROLE_Z || role == ROLE_DY2) && t->fused.t[role].ndim)
            put_random(&t->f, &t->fused, (enum role)role, -1, 1);
}

/* Runs the data gradient, batch norm's forward pass (its Y is an input of the next operation), and
 * batch norm's backward pass. */
static void data_bn_run_plain(struct device *ref, struct data_bn *t)
{
    static const enum role from[] = {ROLE_X, ROLE_MEAN, ROLE_INVSTD, ROLE_BN_GAMMA};
    static const enum role to[] = {ROLE_X, ROLE_MEAN, ROLE_INVSTD, ROLE_GAMMA};
    OK(operands_new(&t->data, &t->d));
    OK(operands_new(&t->forward, &t->fwd));
    OK(operands_new(&t->backward, &t->b));
    hand_over(&t->d, ROLE_DY, &t->f, ROLE_DY, &t->fused);
    hand_over(&t->d, ROLE_W, &t->f, ROLE_W, &t->fused);
    for (int i = 0; i < 4; i++) {
        hand_over(&t->fwd, to[i], &t->f, from[i], &t->fused);
        hand_over(&t->b, to[i], &t->f, from[i], &t->fused);
    }
    hand_over(&t->fwd, ROLE_BETA, &t->f, ROLE_BN_BETA, &t->fused);
    if (t->fused.t[ROLE_Z].ndim)
        hand_over(&t->fwd, ROLE_Z, &t->f, ROLE_Z, &t->fused);
    OK(run_once(ref, &t->data, &t->d));
    OK(run_once(ref, &t->forward, &t->fwd));
    hand_over(&t->b, ROLE_DY, &t->d, ROLE_DX, &t->data);
    hand_over(&t->b, ROLE_Y, &t->fwd, ROLE_Y, &t->forward);
    if (t->fused.t[ROLE_DY2].ndim)
        hand_over(&t->b, ROLE_DY2, &t->f, ROLE_DY2, &t->fused);
    OK(run_once(ref, &t->backward, &t->b));
}

static void data_bn_compare(struct device *ref, struct data_bn *t, enum dtype precision)
{
    int64_t channels = t->fused.t[ROLE_X].dim[1], n = operand_count(&t->fused, ROLE_DX);
    double unit = unit_of(precision);
    OK(run_once(ref, &t->fused, &t->f));
    /* The fused DX is the gradient after the ReLU. Separate batch norm returns it as DZ, with the
     * same rounding. */
    assert_same("DX", &t->fused, ROLE_DX, &t->f, &t->b, ROLE_DZ);
    assert_near("DGAMMA", operand_f32(&t->f, ROLE_DGAMMA), operand_f32(&t->b, ROLE_DGAMMA),
                channels, 2 * unit + 1e-6);
    assert_near("DBETA", operand_f32(&t->f, ROLE_DBETA), operand_f32(&t->b, ROLE_DBETA), channels,
                2 * unit + 1e-6);
    OK(operands_new(&t->rest, &t->r));
    hand_over(&t->r, ROLE_DY, &t->f, ROLE_DX, &t->fused);
    hand_over(&t->r, ROLE_X, &t->f, ROLE_X, &t->fused);
    hand_over(&t->r, ROLE_EQ, &t->f, ROLE_EQ, &t->fused);
    OK(run_once(ref, &t->rest, &t->r));
    assert_near("the gradient of X", operand_f32(&t->r, ROLE_DX), operand_f32(&t->b, ROLE_DX), n,
                4 * unit + 1e-6);
}

static void check_data_bn(struct device *ref, const struct conv_shape *s, enum dtype precision)
{
    static const uint64_t variants[] = {0, WITH(Z), WITH(DY2), WITH(Z) | WITH(DY2)};
    for (int v = 0; v < 4; v++) {
        struct data_bn t = {.fused = describe_conv(OP_CONV_BWD_DATA_BN, s, variants[v]),
                            .data = describe_conv(OP_CONV_BWD_DATA, s, 0),
                            .rest = describe_bn(OP_BN_BWD_APPLY, s->n, s->c, s->h, s->w, false, 0),
                            .forward = describe_bn(OP_BN_APPLY, s->n, s->c, s->h, s->w, true,
                                                   variants[v] & WITH(Z)),
                            .backward = describe_bn(OP_BN_BWD, s->n, s->c, s->h, s->w, true,
                                                    (variants[v] & WITH(DY2)) | WITH(DZ))};
        struct op_desc *all[] = {&t.fused, &t.data, &t.rest, &t.forward, &t.backward};
        for (int i = 0; i < 5; i++)
            round_activations(all[i], precision);
        data_bn_fill(&t);
        data_bn_run_plain(ref, &t);
        data_bn_compare(ref, &t, precision);
        struct operands *operands[] = {&t.f, &t.r, &t.d, &t.fwd, &t.b};
        for (int i = 0; i < 5; i++)
            operands_free(operands[i]);
    }
}

static void data_gradients_bring_sums(void **state)
{
    for_all(*state, check_data_bn);
}

/* --- costs --- */

static void fused_forms_cost_as_much(void **state)
{
    static const struct {
        enum op_kind fused, plain;
    } kinds[] = {{OP_CONV_STATS_FWD, OP_CONV_FWD},
                 {OP_CONV_APPLY_BWD_WEIGHTS, OP_CONV_BWD_WEIGHTS},
                 {OP_CONV_BWD_DATA_BN, OP_CONV_BWD_DATA}};
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct op_desc fused = describe_conv(kinds[k].fused, &shapes[1], 0);
        struct op_desc plain = describe_conv(kinds[k].plain, &shapes[1], 0);
        assert_true(op_flops(&fused) > 0 && op_flops(&fused) == op_flops(&plain));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_come_with_the_convolution),
        cmocka_unit_test(convolutions_apply_as_they_read),
        cmocka_unit_test(batch_norm_is_its_parts),
        cmocka_unit_test(the_shift_makes_up_for_the_scale),
        cmocka_unit_test(sums_are_those_of_all_ranks),
        cmocka_unit_test(a_mask_stands_for_the_result),
        cmocka_unit_test(data_gradients_bring_sums),
        cmocka_unit_test(fused_forms_cost_as_much),
    };
    return cmocka_run_group_tests_name("fused", tests, rig_group_setup, rig_group_teardown);
}
