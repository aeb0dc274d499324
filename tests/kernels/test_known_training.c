/* Compares the loss, SGD and dropout of the reference with values that PyTorch 1.13 computed in
 * fp64. Also checks this project's rules for ignored labels, ties, masks and NaN. */
#include "base/rng.h"
#include "tests/kernels/known.h"
#include "verify/describe.h"

/* --- loss --- */

#define LOGITS VALUES(ROLE_X, 1, 2, 3, -1, 0.5, -0.25, 4, 0, 2, 2, 2, 2, -3, 5, 0.75, 1.5)

/* Row 2 has a negative label. DX is multiplied by the loss scale of 8 and divided by 4 rows. */
static void cross_entropy(void **state)
{
    const struct {
        float smoothing;
        double loss;
        struct known_values dx;
    } table[] = {
        {0, 7.52442487,
         VALUES(ROLE_DX, 0.177893635, 0.483565034, -0.685533954, 0.0240752854, -1.9431727,
                0.026843318, 1.88186187, 0.0344675025, 0, 0, 0, 0, 0.000642158433, 1.91424731,
                0.0273052714, -1.94219474)},
        {0.1f, 7.68692487,
         VALUES(ROLE_DX, 0.127893635, 0.433565034, -0.535533954, -0.0259247146, -1.7931727,
                -0.023156682, 1.83186187, -0.0155324975, 0, 0, 0, 0, -0.0493578416, 1.86424731,
                -0.0226947286, -1.79219474)},
        {1, 9.14942487,
         VALUES(ROLE_DX, -0.322106365, -0.0164349657, 0.814466046, -0.475924715, -0.443172695,
                -0.473156682, 1.38186187, -0.465532497, 0, 0, 0, 0, -0.499357842, 1.41424731,
                -0.472694729, -0.44219474)},
    };
    for (int i = 0; i < COUNT(table); i++) {
        const struct known row = {.d = describe_xent(4, 4, table[i].smoothing, WITH(DX)),
                                  .in = {LOGITS, VALUES(ROLE_LABEL, 2, 0, -1, 3)},
                                  .state = {.loss_scale = 8},
                                  .out = {table[i].dx},
                                  .metrics = {table[i].loss, 3, 1, 3}};
        known_check(*state, &row);
    }
}

/* The expected values of mixup's soft labels are from PyTorch 2.15 in fp64:
 *     cross_entropy(x, m * one_hot(y) + (1 - m) * one_hot(y.roll(1)), label_smoothing=0.1)
 * Top-k uses the label with the larger weight. A label with weight 0 does not affect the loss, even
 * if its logit is -infinity. */
static void mixed_cross_entropy(void **state)
{
    const double inf = (double)INFINITY;
    const struct op_desc four = describe_xent(4, 4, 0.1f, WITH(DX) | WITH(PARTNER));
    const struct op_desc two = describe_xent(2, 2, 0, WITH(DX) | WITH(PARTNER));
    const struct known table[] = {
        {.d = four,
         .in = {LOGITS, VALUES(ROLE_LABEL, 2, 0, 1, 3), VALUES(ROLE_PARTNER, 3, 0, 1, 2)},
         .state = {.loss_scale = 8, .mix = 0.6875f},
         .out = {VALUES(ROLE_DX, 0.127893635, 0.433565034, 0.0269660457, -0.588424715, -1.2306727,
                        -0.023156682, 1.26936187, -0.0155324975, -0.1125, -0.7875, 0.45, 0.45,
                        -0.0493578416, 1.30174731, -0.0226947286, -1.22969474)},
         .metrics = {8.22946923, 4, 1, 4}},
        {.d = two,
         .in = {VALUES(ROLE_X, 0, -inf, -inf, 0), VALUES(ROLE_LABEL, 0, 1),
                VALUES(ROLE_PARTNER, 1, 0)},
         .state = {.loss_scale = 1, .mix = 1},
         .out = {VALUES(ROLE_DX, 0, 0, 0, 0)},
         .metrics = {0, 2, 2, 2}},
        {.d = two,
         .in = {VALUES(ROLE_X, -inf, 0, 0, -inf), VALUES(ROLE_LABEL, 0, 1),
                VALUES(ROLE_PARTNER, 1, 0)},
         .state = {.loss_scale = 1},
         .out = {VALUES(ROLE_DX, 0, 0, 0, 0)},
         .metrics = {0, 2, 2, 2}},
        /* the partner's label has the larger weight */
        {.d = describe_xent(2, 2, 0, WITH(PARTNER)),
         .in = {VALUES(ROLE_X, 0, 0.5, 0, 0.5), VALUES(ROLE_LABEL, 0, 1),
                VALUES(ROLE_PARTNER, 1, 1)},
         .state = {.mix = 0.25f},
         .metrics = {2 * log1p(exp(-0.5)) + 0.25 * 0.5, 2, 2, 2}},
    };
    CHECK_ROWS(table);
}

/* Of equal logits, the first has the higher rank. A NaN has no rank. */
static void ranks(void **state)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double all_equal = log(7), huge = (double)3e38f;
    const struct {
        double logit[7];
        double label;
        struct loss_metrics want;
    } table[] = {
        {{1, 1, 1, 1, 1, 1, 1}, 0, {all_equal, 1, 1, 1}},
        {{1, 1, 1, 1, 1, 1, 1}, 1, {all_equal, 1, 0, 1}},
        {{1, 1, 1, 1, 1, 1, 1}, 4, {all_equal, 1, 0, 1}},
        {{1, 1, 1, 1, 1, 1, 1}, 5, {all_equal, 1, 0, 0}},
        {{0, -inf, 0, 0, 0, 0, 0}, 0, {log(6), 1, 1, 1}},
        {{huge, 0, 0, 0, 0, 0, 0}, 0, {0, 1, 1, 1}},
        {{0, 0, nan, 0, 0, 0, 0}, 2, {nan, 1, 0, 0}},
        {{nan, 3, 2, 0, 0, 0, 0}, 1, {nan, 1, 1, 1}},
        {{0, 0, 0, 0, -inf, 0, -inf}, 5, {log(5), 1, 0, 1}},
        {{-inf, -inf, 0, 0, 0, 0, 0}, 0, {inf, 1, 0, 0}},
    };
    for (int i = 0; i < COUNT(table); i++) {
        const struct known row = {
            .d = describe_xent(1, 7, 0, 0),
            .in = {{ROLE_X, 7, table[i].logit}, {ROLE_LABEL, 1, &table[i].label}},
            .metrics = table[i].want};
        known_check(*state, &row);
    }
}

/* --- SGD --- */

struct sgd_table {
    struct sgd_attr attr;
    double w[3][5], v[5]; /* weights after each step; momentum after the last step */
};

static void check_sgd(struct device *ref, const struct sgd_table *t)
{
    static const double gradient[3][5] = {
        {0.5, 1, -1, 2, 0.25}, {-0.25, 0.5, 0, -1, 1}, {1, -1, 2, 0.5, -0.5}};
    static const float lr[3] = {0.1f, 0.1f, 0.05f};
    static const double first[5] = {1, -2, 0.5, 3, -0.25};
    struct op_desc d = describe_sgd(5, &t->attr);
    struct operands o;
    float before[5];
    expect_ok(operands_new(&d, &o));
    known_set(&d, &o, &(struct known_values){ROLE_W, 5, first});
    for (int step = 0; step < 3; step++) {
        /* the gradients include a loss scale of 64 */
        for (int i = 0; i < 5; i++)
            operand_f32(&o, ROLE_DW)[i] = (float)(64 * gradient[step][i]);
        *operand_state(&o) = (struct step_state){.lr = lr[step], .grad_scale = 1.0f / 64};
        expect_ok(run_once(ref, &d, &o));
        assert_known(&d, &o, &(struct known_values){ROLE_W, 5, t->w[step]});
    }
    assert_known(&d, &o, &(struct known_values){ROLE_MOMENTUM, 5, t->v});
    memcpy(before, o.p[ROLE_W], sizeof before);
    operand_state(&o)->found_inf = 1;
    expect_ok(run_once(ref, &d, &o));
    assert_memory_equal(o.p[ROLE_W], before, sizeof before);
    assert_known(&d, &o, &(struct known_values){ROLE_MOMENTUM, 5, t->v});
    operands_free(&o);
}

static void sgd(void **state)
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
    for (int i = 0; i < COUNT(table); i++)
        check_sgd(*state, &table[i]);
}

/* The expected values are computed by hand. In the first step |W| = 5 and |g| = 1:
 *     local = 0.1 * 5 / (1 + 0.01 * 5) = 10/21
 *     V[0] = local * (0.6 + 0.01 * 3) = 0.3
 * In the second step |W| = 4.95. Three more segments are updated as by plain SGD: one segment has
 * weights of zero, one has a gradient of zero, and one does not use LARS. */
static void lars(void **state)
{
    static const struct sgd_segment segment[] = {
        {.end = 2, .weight_decay = 0.01f, .trust = 0.1f},
        {.begin = 2, .end = 3, .weight_decay = 0.01f, .trust = 0.1f},
        {.begin = 3, .end = 4, .weight_decay = 0.01f, .trust = 0.1f},
        {.begin = 4, .end = 5, .weight_decay = 0.01f}};
    static const struct sgd_attr attr = {.momentum = 0.9f, .n_segments = 4, .segment = segment};
    const struct op_desc d = describe_sgd(5, &attr);
    const struct step_state at = {.lr = 0.1f, .grad_scale = 1.0f / 64};
    const struct known table[] = {
        {.d = d,
         .state = at,
         .in = {VALUES(ROLE_W, 3, 4, 0, 2, 1),
                VALUES(ROLE_DW, 64 * 0.6, 64 * 0.8, 64 * 2, 0, 64 * 0.5)},
         .out = {VALUES(ROLE_W, 2.97, 3.96, -0.2, 1.998, 0.949),
                 VALUES(ROLE_MOMENTUM, 0.3, 0.4, 2, 0.02, 0.51)}},
        {.d = d,
         .state = at,
         .in = {VALUES(ROLE_W, 2.97, 3.96), VALUES(ROLE_MOMENTUM, 0.3, 0.4),
                VALUES(ROLE_DW, 0, 64)},
         .out = {VALUES(ROLE_W, 2.94159919, 3.87496694),
                 VALUES(ROLE_MOMENTUM, 0.284008099, 0.850330634)}},
    };
    CHECK_ROWS(table);
}

/* --- dropout --- */

static void dropout_masks(void **state)
{
    enum { ROWS = 6, PER_ROW = 5000 };
    struct op_desc d = describe_like(OP_DROPOUT_FWD, tensor_2d(DTYPE_F32, ROWS, PER_ROW), 0);
    d.attr.dropout = (struct dropout_attr){.p = 0.3f, .layer = 200};
    struct operands o;
    expect_ok(operands_new(&d, &o));
    *operand_state(&o) = (struct step_state){.seed = 11, .step = 12, .sample0 = 100};
    for (int i = 0; i < ROWS * PER_ROW; i++)
        operand_f32(&o, ROLE_X)[i] = 1;
    expect_ok(run_once(*state, &d, &o));
    double mean = 0;
    for (int n = 0; n < ROWS; n++) {
        struct rng r = rng_at(11, RNG_DROPOUT, 12, (uint64_t)200 << 40 | (100 + (uint64_t)n));
        for (int f = 0; f < PER_ROW; f++) {
            double y = (double)operand_f32(&o, ROLE_Y)[n * PER_ROW + f];
            assert_near(y, rng_float(&r) < 0.3f ? 0 : 1 / 0.7, 1e-6);
            mean += y / (ROWS * PER_ROW);
        }
    }
    /* The tolerance is 5 standard deviations of the mean of 30000 values with variance p / (1-p).
     */
    assert_near(mean, 1, 5 * sqrt(0.3 / 0.7 / (ROWS * PER_ROW)));

    /* If another device computes the last two rows of a batch, the rows must be the same. */
    struct op_desc part = describe_like(OP_DROPOUT_FWD, tensor_2d(DTYPE_F32, 2, PER_ROW), 0);
    struct operands last;
    part.attr.dropout = d.attr.dropout;
    expect_ok(operands_new(&part, &last));
    *operand_state(&last) = (struct step_state){.seed = 11, .step = 12, .sample0 = 104};
    memcpy(last.p[ROLE_X], o.p[ROLE_X], operand_bytes(&part, ROLE_X));
    expect_ok(run_once(*state, &part, &last));
    assert_memory_equal(last.p[ROLE_Y], operand_f32(&o, ROLE_Y) + 4 * PER_ROW,
                        operand_bytes(&part, ROLE_Y));
    operands_free(&o);
    operands_free(&last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy), cmocka_unit_test(mixed_cross_entropy),
        cmocka_unit_test(ranks),         cmocka_unit_test(sgd),
        cmocka_unit_test(lars),          cmocka_unit_test(dropout_masks),
    };
    return cmocka_run_group_tests_name("known_training", tests, rig_group_setup,
                                       rig_group_teardown);
}
