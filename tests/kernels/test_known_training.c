/* Compares the loss, SGD and dropout of the reference with values that PyTorch 1.13 computed in
 * fp64. Also checks this project's rules for ignored labels, ties, masks and NaN. */
#include "tests/kernels/group.h"
#include "tests/kernels/known.h"
#include "verify/describe.h"

#include "base/rng.h"

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
    assert_near(operand_metrics(&o)->loss_sum, loss, 1e-8);
    assert_int_equal(operand_metrics(&o)->count, 3);
    assert_int_equal(operand_metrics(&o)->top1, 1);
    assert_int_equal(operand_metrics(&o)->top5, 3);
    assert_all_near(o.p[ROLE_DX], dx, 16);
    operands_free(&o);
}

/* Row 2 has a negative label. DX is multiplied by the loss scale of 8 and divided by 4 rows. */
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

static struct loss_metrics mixed_xent(struct device *ref, float mix, const double *dx)
{
    static const int32_t label[] = {2, 0, 1, 3}, before[] = {3, 0, 1, 2};
    struct op_desc d = describe_xent(4, 4, 0.1f, WITH(DX) | WITH(PARTNER));
    struct operands o;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_X, 1, 2, 3, -1, 0.5f, -0.25f, 4, 0, 2, 2, 2, 2, -3, 5, 0.75f, 1.5f);
    memcpy(o.p[ROLE_LABEL], label, sizeof label);
    memcpy(o.p[ROLE_PARTNER], before, sizeof before);
    operand_state(&o)->loss_scale = 8;
    operand_state(&o)->mix = mix;
    OK(run_once(ref, &d, &o));
    if (dx)
        assert_all_near(o.p[ROLE_DX], dx, 16);
    struct loss_metrics m = *operand_metrics(&o);
    operands_free(&o);
    return m;
}

/* The expected values of mixup's soft labels are from PyTorch 2.15 in fp64:
 *     cross_entropy(x, m * one_hot(y) + (1 - m) * one_hot(y.roll(1)), label_smoothing=0.1)
 * Top-k uses the label with the larger weight. */
static void test_xent_mixed(void **state)
{
    static const double dx[] = {0.127893635,   0.433565034,  0.0269660457,  -0.588424715,
                                -1.2306727,    -0.023156682, 1.26936187,    -0.0155324975,
                                -0.1125,       -0.7875,      0.45,          0.45,
                                -0.0493578416, 1.30174731,   -0.0226947286, -1.22969474};
    struct loss_metrics m = mixed_xent(*state, 0.6875f, dx);
    assert_near(m.loss_sum, 8.22946923, 1e-8);
    assert_int_equal(m.count, 4);
    assert_int_equal(m.top1, 1);
    assert_int_equal(mixed_xent(*state, 0.3125f, NULL).top1, 3);
}

/* A label with weight 0 does not affect the loss, even if its logit is -infinity. */
static void test_xent_mixed_by_nothing(void **state)
{
    static const int32_t label[] = {0, 1}, other[] = {1, 0};
    static const float logits[2][4] = {{0, -INFINITY, -INFINITY, 0}, {-INFINITY, 0, 0, -INFINITY}};
    for (int i = 0; i < 2; i++) {
        struct op_desc d = describe_xent(2, 2, 0, WITH(DX) | WITH(PARTNER));
        struct operands o;
        OK(operands_new(&d, &o));
        memcpy(o.p[ROLE_X], logits[i], sizeof logits[i]);
        memcpy(o.p[ROLE_LABEL], label, sizeof label);
        memcpy(o.p[ROLE_PARTNER], other, sizeof other);
        operand_state(&o)->loss_scale = 1;
        operand_state(&o)->mix = i ? 0 : 1;
        OK(run_once(*state, &d, &o));
        assert_true(operand_metrics(&o)->loss_sum == 0);
        assert_int_equal(operand_metrics(&o)->top1, 2);
        for (int k = 0; k < 4; k++)
            assert_true(operand_f32(&o, ROLE_DX)[k] == 0);
        operands_free(&o);
    }
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
    assert_near(loss, log(6), 1e-12);
    assert_int_equal(rank_of(*state, huge, 0, &loss), 11);
    assert_near(loss, 0, 0);
}

/* --- SGD --- */

struct sgd_table {
    struct sgd_attr attr;
    double w[3][5], v[5]; /* weights after each step; momentum after the last step */
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
        /* the gradients include a loss scale of 64 */
        for (int i = 0; i < 5; i++)
            operand_f32(&o, ROLE_DW)[i] = 64 * gradient[step][i];
        *operand_state(&o) = (struct step_state){.lr = lr[step], .grad_scale = 1.0f / 64};
        OK(run_once(ref, &d, &o));
        assert_all_near(o.p[ROLE_W], t->w[step], 5);
    }
    assert_all_near(o.p[ROLE_MOMENTUM], t->v, 5);

    float before[5];
    memcpy(before, o.p[ROLE_W], sizeof before);
    operand_state(&o)->found_inf = 1;
    OK(run_once(ref, &d, &o));
    assert_memory_equal(o.p[ROLE_W], before, sizeof before);
    assert_all_near(o.p[ROLE_MOMENTUM], t->v, 5);
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
         /* without momentum, V is the last gradient plus weight decay */
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

/* The expected values are computed by hand. In the first step |W| = 5 and |g| = 1:
 *     local = 0.1 * 5 / (1 + 0.01 * 5) = 10/21
 *     V[0] = local * (0.6 + 0.01 * 3) = 0.3
 * In the second step |W| = 4.95. Three more segments are updated as by plain SGD: one segment has
 * weights of zero, one has a gradient of zero, and one does not use LARS. */
static void test_lars(void **state)
{
    static const struct sgd_segment segment[] = {
        {.end = 2, .weight_decay = 0.01f, .trust = 0.1f},
        {.begin = 2, .end = 3, .weight_decay = 0.01f, .trust = 0.1f},
        {.begin = 3, .end = 4, .weight_decay = 0.01f, .trust = 0.1f},
        {.begin = 4, .end = 5, .weight_decay = 0.01f}};
    struct sgd_attr attr = {.momentum = 0.9f, .n_segments = 4, .segment = segment};
    struct op_desc d = describe_sgd(5, &attr);
    struct operands o;
    OK(operands_new(&d, &o));
    *operand_state(&o) = (struct step_state){.lr = 0.1f, .grad_scale = 1.0f / 64};
    SET(&o, ROLE_W, 3, 4, 0, 2, 1);
    SET(&o, ROLE_DW, 64 * 0.6f, 64 * 0.8f, 64 * 2, 0, 64 * 0.5f);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_W, 2.97, 3.96, -0.2, 1.998, 0.949);
    WANT(&o, ROLE_MOMENTUM, 0.3, 0.4, 2, 0.02, 0.51);
    SET(&o, ROLE_DW, 0, 64);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_W, 2.94159919, 3.87496694);
    WANT(&o, ROLE_MOMENTUM, 0.284008099, 0.850330634);
    operands_free(&o);
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
            assert_near(y, want, 1e-6f);
            mean += (double)y / (ROWS * PER_ROW);
        }
    }
    /* The tolerance is 5 standard deviations of the mean of 30000 values with variance p / (1-p).
     */
    assert_near(mean, 1, 5 * sqrt(0.3 / 0.7 / (ROWS * PER_ROW)));
    operands_free(&o);
}

/* If another device computes the last two rows of a batch, the rows must be the same. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xent),
        cmocka_unit_test(test_xent_mixed),
        cmocka_unit_test(test_xent_mixed_by_nothing),
        cmocka_unit_test(test_top_k_ties),
        cmocka_unit_test(test_xent_not_finite),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_lars),
        cmocka_unit_test(test_dropout_mask),
        cmocka_unit_test(test_dropout_split),
    };
    return cmocka_run_group_tests(tests, rig_group_setup, rig_group_teardown);
}
