/* The reference against values that PyTorch 1.13 computed in fp64, and against rules that no
 * difference quotient sees: running statistics, ties, labels to be left out, masks, NaN. */
#include "tests/kernels/describe.h"
#include "tests/kernels/rig.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Values were written with nine digits and pass through fp32: six times its epsilon. */
static void assert_close(const float *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 4e-7 * fmax(1, fabs(want[i]))))
            fail_msg("element %d is %.9g instead of %.9g", i, (double)got[i], want[i]);
}

#define SET(o, role, ...)                                                                          \
    do {                                                                                           \
        static const float values_[] = {__VA_ARGS__};                                              \
        memcpy((o)->p[role], values_, sizeof values_);                                             \
    } while (0)

#define WANT(o, role, ...)                                                                         \
    do {                                                                                           \
        static const double values_[] = {__VA_ARGS__};                                             \
        assert_close(operand_f32(o, role), values_, (int)(sizeof values_ / sizeof *values_));      \
    } while (0)

/* --- batch norm --- */

static void set_bn(struct operands *o)
{
    SET(o, ROLE_X, 1, 2, -1, 4, 3, 0, 5, -6);
    SET(o, ROLE_GAMMA, 1.5f, -0.5f);
    SET(o, ROLE_BETA, 0.25f, 1);
    SET(o, ROLE_RMEAN, 0.5f, -1);
    SET(o, ROLE_RVAR, 2, 1);
}

static void test_bn_train(void **state)
{
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 2, 2, 1, 2, false, 0);
    struct operands o;
    OK(operands_new(&d, &o));
    set_bn(&o);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, -0.42081771, 0.92081771, 1.17094082, 0.601138086, 2.26245313, -1.76245313,
         0.487177539, 1.74074355);
    WANT(&o, ROLE_MEAN, 1.5, 0.5);
    WANT(&o, ROLE_INVSTD, 0.894423613, 0.227921094);
    WANT(&o, ROLE_RMEAN, 0.6, -0.85);
    WANT(&o, ROLE_RVAR, 1.96666667, 3.46666667);
    operands_free(&o);
}

static void test_bn_residual_relu(void **state)
{
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 2, 2, 1, 2, true, WITH(Z));
    struct operands o;
    OK(operands_new(&d, &o));
    set_bn(&o);
    SET(&o, ROLE_Z, 0.5f, -2, 1, 0, -1, 0.25f, -3, 2);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, 0.07918229, 0, 2.17094082, 0.601138086, 1.26245313, 0, 0, 3.74074355);
    operands_free(&o);
}

static void test_bn_eval(void **state)
{
    struct op_desc d = describe_bn(OP_BN_FWD_EVAL, 2, 2, 1, 2, false, 0);
    struct operands o;
    OK(operands_new(&d, &o));
    set_bn(&o);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, 0.78032876, 1.84098628, 1, -1.4999875, 2.9016438, -0.28032876, -1.999985,
         3.4999875);
    WANT(&o, ROLE_RMEAN, 0.5, -1);
    WANT(&o, ROLE_RVAR, 2, 1);
    operands_free(&o);
}

/* Two values are the fewest: there the unbiased variance is twice the biased one. */
static void test_bn_two_values(void **state)
{
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 2, 1, 1, 1, false, 0);
    struct operands o;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_X, 3, 5);
    SET(&o, ROLE_GAMMA, 1);
    SET(&o, ROLE_RVAR, 1);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_RMEAN, 0.4);
    WANT(&o, ROLE_RVAR, 1.1);
    operands_free(&o);
}

/* --- loss --- */

static void check_xent(struct device *ref, float smoothing, double loss, const double *dx)
{
    static const int32_t label[] = {2, 0, -1, 3};
    struct op_desc d = describe_xent(4, 4, smoothing, WITH(DX));
    struct operands o;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_X, 1, 2, 3, -1, 0.5f, -0.25f, 4, 0, 2, 2, 2, 2, -3, 5, 0.75f, 1.5f);
    memcpy(o.p[ROLE_LABEL], label, sizeof label);
    operand_state(&o)->loss_scale = 8;
    OK(run_once(ref, &d, &o));
    assert_float_equal(operand_metrics(&o)->loss_sum, loss, 1e-8);
    assert_int_equal(operand_metrics(&o)->count, 3);
    assert_int_equal(operand_metrics(&o)->top1, 1);
    assert_int_equal(operand_metrics(&o)->top5, 3);
    assert_close(o.p[ROLE_DX], dx, 16);
    operands_free(&o);
}

/* Row 2 has a negative label; DX is scaled by 8/4. */
static void test_xent(void **state)
{
    static const double plain[] = {0.177893635,
                                   0.483565034,
                                   -0.685533954,
                                   0.0240752854,
                                   -1.9431727,
                                   0.026843318,
                                   1.88186187,
                                   0.0344675025,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0.000642158433,
                                   1.91424731,
                                   0.0273052714,
                                   -1.94219474};
    static const double tenth[] = {0.127893635,
                                   0.433565034,
                                   -0.535533954,
                                   -0.0259247146,
                                   -1.7931727,
                                   -0.023156682,
                                   1.83186187,
                                   -0.0155324975,
                                   0,
                                   0,
                                   0,
                                   0,
                                   -0.0493578416,
                                   1.86424731,
                                   -0.0226947286,
                                   -1.79219474};
    static const double whole[] = {-0.322106365,
                                   -0.0164349657,
                                   0.814466046,
                                   -0.475924715,
                                   -0.443172695,
                                   -0.473156682,
                                   1.38186187,
                                   -0.465532497,
                                   0,
                                   0,
                                   0,
                                   0,
                                   -0.499357842,
                                   1.41424731,
                                   -0.472694729,
                                   -0.44219474};
    check_xent(*state, 0, 7.52442487, plain);
    check_xent(*state, 0.1f, 7.68692487, tenth);
    check_xent(*state, 1, 9.14942487, whole);
}

/* Runs one row of seven logits; returns top1 + 10 * top5. */
static int rank_of(struct device *ref, const float logit[7], int32_t label, double *loss)
{
    struct op_desc d = describe_xent(1, 7, 0, 0);
    struct operands o;
    OK(operands_new(&d, &o));
    memcpy(o.p[ROLE_X], logit, 7 * sizeof *logit);
    *(int32_t *)o.p[ROLE_LABEL] = label;
    OK(run_once(ref, &d, &o));
    assert_int_equal(operand_metrics(&o)->count, 1);
    int rank = (int)(operand_metrics(&o)->top1 + 10 * operand_metrics(&o)->top5);
    *loss = operand_metrics(&o)->loss_sum;
    operands_free(&o);
    return rank;
}

static void test_top_k_ties(void **state)
{
    double loss;
    static const float equal[7] = {1, 1, 1, 1, 1, 1, 1}, rising[7] = {1, 2, 3, 4, 5, 6, 7};
    assert_int_equal(rank_of(*state, equal, 0, &loss), 11);
    assert_int_equal(rank_of(*state, equal, 1, &loss), 10);
    assert_int_equal(rank_of(*state, equal, 4, &loss), 10);
    assert_int_equal(rank_of(*state, equal, 5, &loss), 0);
    assert_int_equal(rank_of(*state, rising, 6, &loss), 11);
    assert_int_equal(rank_of(*state, rising, 2, &loss), 10);
    assert_int_equal(rank_of(*state, rising, 1, &loss), 0);
}

static void test_xent_not_finite(void **state)
{
    double loss;
    static const float own_nan[7] = {0, 0, NAN, 0, 0, 0, 0}, other_nan[7] = {NAN, 3, 2, 0, 0, 0, 0};
    assert_int_equal(rank_of(*state, own_nan, 2, &loss), 0);
    assert_true(isnan(loss));
    assert_int_equal(rank_of(*state, other_nan, 1, &loss), 11);
    assert_true(isnan(loss));
    static const float shut[7] = {0, -INFINITY, 0, 0, 0, 0, 0}, huge[7] = {3e38f, 0, 0, 0, 0, 0, 0};
    assert_int_equal(rank_of(*state, shut, 0, &loss), 11);
    assert_float_equal(loss, log(6), 1e-12);
    assert_int_equal(rank_of(*state, huge, 0, &loss), 11);
    assert_float_equal(loss, 0, 0);
    assert_int_equal(rank_of(*state, huge, 7, &loss), 0); /* a label that is no class */
    assert_true(isnan(loss));
}

/* --- SGD --- */

struct sgd_table {
    struct sgd_attr attr;
    double w[3][5], v[5]; /* after each step; momentum after the last */
};

static void check_sgd(struct device *ref, const struct sgd_table *t)
{
    static const float gradient[3][5] = {
        {0.5f, 1, -1, 2, 0.25f}, {-0.25f, 0.5f, 0, -1, 1}, {1, -1, 2, 0.5f, -0.5f}};
    static const float lr[3] = {0.1f, 0.1f, 0.05f};
    struct op_desc d = describe_sgd(5, &t->attr);
    struct operands o;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_W, 1, -2, 0.5f, 3, -0.25f);
    for (int step = 0; step < 3; step++) {
        /* gradients come scaled, as a loss scale would leave them */
        for (int i = 0; i < 5; i++)
            operand_f32(&o, ROLE_DW)[i] = 64 * gradient[step][i];
        *operand_state(&o) = (struct step_state){.lr = lr[step], .grad_scale = 1.0f / 64};
        OK(run_once(ref, &d, &o));
        assert_close(o.p[ROLE_W], t->w[step], 5);
    }
    assert_close(o.p[ROLE_MOMENTUM], t->v, 5);

    float before[5];
    memcpy(before, o.p[ROLE_W], sizeof before);
    operand_state(&o)->found_inf = 1;
    OK(run_once(ref, &d, &o));
    assert_memory_equal(o.p[ROLE_W], before, sizeof before);
    assert_close(o.p[ROLE_MOMENTUM], t->v, 5);
    operands_free(&o);
}

static void test_sgd(void **state)
{
    static const struct sgd_segment segment[] = {{0, 3, 0.01f}, {3, 5, 0}};
    static const struct sgd_table table[] = {
        {{0, false, 2, segment},
         {{0.949, -2.098, 0.5995, 2.8, -0.275},
          {0.973051, -2.145902, 0.5989005, 2.9, -0.375},
          {0.922564475, -2.09482905, 0.49860105, 2.875, -0.35}},
         /* without momentum V is the last gradient with its decay */
         {1.00973051, -1.02145902, 2.005989005, 0.5, -0.5}},
        {{0.9f, false, 2, segment},
         {{0.949, -2.098, 0.5995, 2.8, -0.275},
          {0.927151, -2.234102, 0.6884505, 2.72, -0.3975},
          {0.866855374, -2.24423085, 0.628134, 2.659, -0.427625}},
         {1.20591251, 0.20257698, 1.20633, 1.22, 0.6025}},
        {{0.9f, true, 2, segment},
         {{0.9031, -2.1862, 0.68905, 2.62, -0.2975},
          {0.90757411, -2.35642622, 0.768335805, 2.648, -0.50775},
          {0.802881659, -2.3142732, 0.613594571, 2.5681, -0.5098625}},
         {1.20530364, 0.200559938, 1.20793481, 1.22, 0.6025}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_sgd(*state, &table[i]);
}

/* --- dropout --- */

static void test_dropout_mask(void **state)
{
    enum { ROWS = 6, PER_ROW = 5000 };
    struct op_desc d = describe_like(OP_DROPOUT_FWD, tensor_2d(DTYPE_F32, ROWS, PER_ROW), 0);
    d.attr.dropout = (struct dropout_attr){.p = 0.3f, .layer = 200};
    struct operands o;
    OK(operands_new(&d, &o));
    *operand_state(&o) = (struct step_state){.seed = 11, .step = 12, .sample0 = 100};
    for (int i = 0; i < ROWS * PER_ROW; i++)
        operand_f32(&o, ROLE_X)[i] = 1;
    OK(run_once(*state, &d, &o));
    double mean = 0;
    for (int n = 0; n < ROWS; n++) {
        struct rng r = rng_at(11, RNG_DROPOUT, 12, (uint64_t)200 << 40 | (100 + (uint64_t)n));
        for (int f = 0; f < PER_ROW; f++) {
            float y = operand_f32(&o, ROLE_Y)[n * PER_ROW + f];
            float want = rng_float(&r) < 0.3f ? 0 : 1 / 0.7f;
            assert_float_equal(y, want, 1e-6f);
            mean += (double)y / (ROWS * PER_ROW);
        }
    }
    /* 5 standard deviations of the mean of 30000 draws of variance p / (1-p) */
    assert_float_equal(mean, 1, 5 * sqrt(0.3 / 0.7 / (ROWS * PER_ROW)));
    operands_free(&o);
}

/* The last two rows of a batch, as a device of their own would see them. */
static void test_dropout_split(void **state)
{
    struct op_desc whole = describe_like(OP_DROPOUT_FWD, plain_4d(6, 2, 3, 5), 0);
    struct op_desc part = describe_like(OP_DROPOUT_FWD, plain_4d(2, 2, 3, 5), 0);
    whole.attr.dropout = part.attr.dropout = (struct dropout_attr){.p = 0.5f, .layer = 1};
    struct operands a, b;
    OK(operands_new(&whole, &a));
    OK(operands_new(&part, &b));
    for (int i = 0; i < 180; i++)
        operand_f32(&a, ROLE_X)[i] = (float)(i + 1);
    memcpy(b.p[ROLE_X], operand_f32(&a, ROLE_X) + 120, 60 * sizeof(float));
    *operand_state(&a) = (struct step_state){.seed = 1, .sample0 = 10};
    *operand_state(&b) = (struct step_state){.seed = 1, .sample0 = 14};
    OK(run_once(*state, &whole, &a));
    OK(run_once(*state, &part, &b));
    assert_memory_equal(operand_f32(&a, ROLE_Y) + 120, b.p[ROLE_Y], 60 * sizeof(float));
    operands_free(&a);
    operands_free(&b);
}

/* --- pooling --- */

static void check_places(const struct operands *o, const uint8_t *want, size_t n)
{
    assert_memory_equal(o->p[ROLE_INDEX], want, n);
}

static void test_maxpool_ties(void **state)
{
    struct pool_attr two = {{2, 2}, {2, 2}, {0, 0}}, three = {{3, 3}, {2, 2}, {1, 1}};
    struct op_desc d = describe_maxpool(OP_MAXPOOL_FWD, 1, 1, 4, 4, &two, WITH(INDEX));
    struct operands o;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_X, 1, 1, 0, 2, 1, 1, 2, 2, -1, -1, NAN, 0, -1, -1, 0, 3);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, 1, 2, -1);
    assert_true(isnan(operand_f32(&o, ROLE_Y)[3]));
    check_places(&o, (const uint8_t[]){0, 1, 0, 0}, 4);

    d = describe_maxpool(OP_MAXPOOL_FWD, 1, 1, 4, 4, &three, WITH(INDEX));
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, 1, 2, 1);
    assert_true(isnan(operand_f32(&o, ROLE_Y)[3]));
    check_places(&o, (const uint8_t[]){4, 5, 1, 4}, 4);
    operands_free(&o);
}

/* Padding is not even the maximum of a window of -inf, whose gradient would be lost. */
static void test_maxpool_of_nothing(void **state)
{
    struct pool_attr three = {{3, 3}, {2, 2}, {1, 1}};
    struct op_desc d = describe_maxpool(OP_MAXPOOL_FWD, 1, 1, 3, 3, &three, WITH(INDEX));
    struct operands o;
    OK(operands_new(&d, &o));
    for (int i = 0; i < 9; i++)
        operand_f32(&o, ROLE_X)[i] = -INFINITY;
    OK(run_once(*state, &d, &o));
    for (int i = 0; i < 4; i++)
        assert_true(operand_f32(&o, ROLE_Y)[i] == -INFINITY);
    check_places(&o, (const uint8_t[]){4, 3, 1, 0}, 4);
    operands_free(&o);
}

/* The means of i^2 over the windows that PyTorch takes. */
static void test_adaptive_windows(void **state)
{
    static const struct {
        int in, out;
        double y[7];
    } table[] = {
        {7, 3, {1.66666667, 9.66666667, 25.6666667}},
        {5, 3, {0.5, 4.66666667, 12.5}},
        {2, 7, {0, 0, 0, 0.5, 1, 1, 1}},
        {13, 6, {1.66666667, 9.66666667, 25.6666667, 49.6666667, 81.6666667, 121.666667}},
        {10, 4, {1.66666667, 9.66666667, 36.6666667, 64.6666667}},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        for (int across = 0; across < 2; across++) {
            int in = table[k].in, out = table[k].out;
            struct op_desc d = across ? describe_avgpool(OP_AVGPOOL_FWD, 1, 1, 1, in, 1, out)
                                      : describe_avgpool(OP_AVGPOOL_FWD, 1, 1, in, 1, out, 1);
            struct operands o;
            OK(operands_new(&d, &o));
            for (int i = 0; i < in; i++)
                operand_f32(&o, ROLE_X)[i] = (float)(i * i);
            OK(run_once(*state, &d, &o));
            assert_close(o.p[ROLE_Y], table[k].y, out);
            operands_free(&o);
        }
}

static void test_adaptive_rectangle(void **state)
{
    struct op_desc d = describe_avgpool(OP_AVGPOOL_FWD, 1, 1, 4, 5, 3, 2);
    struct operands o;
    OK(operands_new(&d, &o));
    for (int i = 0; i < 20; i++)
        operand_f32(&o, ROLE_X)[i] = (float)(i * i);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, 19.1666667, 37.1666667, 79.1666667, 117.166667, 189.166667, 247.166667);
    operands_free(&o);
}

/* --- the rest --- */

static void test_normalize(void **state)
{
    struct op_desc d = describe_normalize(1, 1, 3);
    struct operands o;
    OK(operands_new(&d, &o));
    static const uint8_t plain[9] = {0, 255, 128, 0, 255, 128, 0, 255, 128}; /* R..., G..., B... */
    memcpy(o.p[ROLE_X], plain, sizeof plain);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, -2.1179039301, 2.2489082969, 0.07406456032, -2.0357142857, 2.4285714286,
         0.20518207283, -1.8044444444, 2.64, 0.42649237473);
    operands_free(&o);
}

static void test_relu_keeps_nan(void **state)
{
    struct op_desc d = describe_like(OP_RELU_FWD, tensor_1d(DTYPE_F32, 4), 0);
    struct operands o;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_X, -1, NAN, 2, -INFINITY);
    OK(run_once(*state, &d, &o));
    assert_true(isnan(operand_f32(&o, ROLE_Y)[1]));
    operand_f32(&o, ROLE_Y)[1] = 0;
    WANT(&o, ROLE_Y, 0, 0, 2, 0);
    operands_free(&o);
}

/* A ReLU within an operation is the operation followed by a ReLU. */
static void test_fused_relu(void **state)
{
    struct conv_shape shape = {2, 3, 5, 4, 4, {3, 3}, {1, 1}, {1, 1}, 1};
    struct op_desc d[2] = {describe_conv(OP_CONV_FWD, &shape, WITH(B)),
                           describe_linear(OP_LINEAR_FWD, 4, 5, 6, WITH(B))};
    for (int k = 0; k < 2; k++) {
        struct operands o;
        OK(operands_new(&d[k], &o));
        for (int r = 0; r < ROLE_COUNT; r++)
            for (int64_t i = 0; r != ROLE_Y && o.p[r] && i < operand_count(&d[k], r); i++)
                operand_f32(&o, r)[i] = (float)((i * 7 + r) % 5 - 2);
        OK(run_once(*state, &d[k], &o));
        int64_t n = operand_count(&d[k], ROLE_Y), negative = 0;
        float *plain = malloc((size_t)n * sizeof *plain);
        memcpy(plain, o.p[ROLE_Y], (size_t)n * sizeof *plain);
        if (k == 0)
            d[k].attr.conv.relu = true;
        else
            d[k].attr.linear.relu = true;
        OK(run_once(*state, &d[k], &o));
        for (int64_t i = 0; i < n; i++) {
            negative += plain[i] < 0;
            assert_true(operand_f32(&o, ROLE_Y)[i] == fmaxf(plain[i], 0));
        }
        assert_true(negative > 0 && negative < n);
        free(plain);
        operands_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bn_train),
        cmocka_unit_test(test_bn_residual_relu),
        cmocka_unit_test(test_bn_eval),
        cmocka_unit_test(test_bn_two_values),
        cmocka_unit_test(test_xent),
        cmocka_unit_test(test_top_k_ties),
        cmocka_unit_test(test_xent_not_finite),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_dropout_mask),
        cmocka_unit_test(test_dropout_split),
        cmocka_unit_test(test_maxpool_ties),
        cmocka_unit_test(test_maxpool_of_nothing),
        cmocka_unit_test(test_adaptive_windows),
        cmocka_unit_test(test_adaptive_rectangle),
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_relu_keeps_nan),
        cmocka_unit_test(test_fused_relu),
    };
    return cmocka_run_group_tests(tests, rig_group_setup, rig_group_teardown);
}
