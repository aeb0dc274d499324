/* Compares the layers of the reference with values that PyTorch 1.13 computed in fp64. Also checks
 * properties that the finite differences of test_gradients.c do not show: running statistics, ties,
 * windows, NaN. */
#include "tests/kernels/group.h"
#include "tests/kernels/known.h"
#include "verify/describe.h"

#include <stdlib.h>

/* --- convolution and linear --- */

/* Fills an operand with small whole numbers. No stride of the tensor is a period of their sequence:
 * an error in an index changes the result. PyTorch computed the expected values from the same
 * numbers. */
static void set_numbers(const struct op_desc *d, struct operands *o, enum role role, int factor,
                        int modulus)
{
    for (int i = 0; i < (int)operand_count(d, role); i++)
        operand_f32(o, role)[i] = (float)(i * factor % modulus - modulus / 2);
}

static struct operands run_layer(struct device *ref, const struct op_desc *d)
{
    struct operands o;
    OK(operands_new(d, &o));
    set_numbers(d, &o, ROLE_X, 7, 11);
    set_numbers(d, &o, ROLE_W, 5, 13);
    set_numbers(d, &o, ROLE_B, 3, 5);
    OK(run_once(ref, d, &o));
    return o;
}

/* Height and width differ in every attribute. test_gradients.c checks the gradients. */
static void test_conv(void **state)
{
    static const struct conv_shape shape[] = {{1, 2, 5, 4, 2, {3, 2}, {2, 1}, {1, 0}, 1},
                                              {2, 4, 3, 5, 2, {1, 3}, {1, 2}, {0, 1}, 2}};
    struct op_desc d = describe_conv(OP_CONV_FWD, &shape[0], WITH(B));
    struct operands o = run_layer(*state, &d);
    WANT(&o, ROLE_Y, -87, 62, 13, -34, 18, 26, -78, 32, -12, 46, 34, -33, -8, 35, -54, 50, -53,
         -24);
    operands_free(&o);
    d = describe_conv(OP_CONV_FWD, &shape[1], WITH(B));
    o = run_layer(*state, &d);
    WANT(&o, ROLE_Y, -6, 24, -37, 14, -31, 9, -10, 35, -11, -10, 39, 2, -10, -20, 14, -10, -2, -7,
         14, -31, 9, -10, 35, -11, -1, -31, 24, -10, -20, 14, -10, -2, -7, -10, 27, 5);
    operands_free(&o);
}

static void test_linear(void **state)
{
    struct op_desc d = describe_linear(OP_LINEAR_FWD, 2, 3, 4, WITH(B));
    struct operands o = run_layer(*state, &d);
    WANT(&o, ROLE_Y, 18, 11, 25, 18, -45, -36, 7, 16);
    operands_free(&o);
}

/* A fused ReLU gives the same result as a separate one. */
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

/* Two values are the minimum for batch norm. Their unbiased variance is twice the biased variance.
 */
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

/* Padding must not be the maximum, even if all values of a window are -inf. Otherwise the gradient
 * would be lost. */
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

/* The input is i^2 at position i. The expected values are its means over PyTorch's windows. */
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
            assert_all_near(o.p[ROLE_Y], table[k].y, out);
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
    struct op_desc d = describe_normalize(1, 1, 3, 0);
    struct operands o;
    OK(operands_new(&d, &o));
    static const uint8_t plain[9] = {0, 255, 128, 0, 255, 128, 0, 255, 128}; /* R..., G..., B... */
    memcpy(o.p[ROLE_X], plain, sizeof plain);
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, -2.1179039301, 2.2489082969, 0.07406456032, -2.0357142857, 2.4285714286,
         0.20518207283, -1.8044444444, 2.64, 0.42649237473);
    operands_free(&o);
}

/* RandomMixup of torchvision on three images of one pixel. Each image is mixed with the previous
 * one, as by batch.roll(1, 0). The mean is 0 and the deviation 1, so a pixel of 255 becomes 1. */
static void test_normalize_mixes(void **state)
{
    struct op_desc d = describe_normalize(3, 1, 1, WITH(PARTNER));
    struct operands o;
    d.attr.normalize = (struct normalize_attr){{0, 0, 0}, {1, 1, 1}};
    OK(operands_new(&d, &o));
    static const uint8_t pixels[9] = {255, 0, 0, 0, 255, 0, 51, 102, 255};
    static const int32_t before[3] = {2, 0, 1};
    memcpy(o.p[ROLE_X], pixels, sizeof pixels);
    memcpy(o.p[ROLE_PARTNER], before, sizeof before);
    operand_state(&o)->mix = 0.75f;
    OK(run_once(*state, &d, &o));
    WANT(&o, ROLE_Y, 0.8, 0.1, 0.25, 0.25, 0.75, 0, 0.15, 0.55, 0.75);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_fused_relu),
        cmocka_unit_test(test_bn_train),
        cmocka_unit_test(test_bn_residual_relu),
        cmocka_unit_test(test_bn_eval),
        cmocka_unit_test(test_bn_two_values),
        cmocka_unit_test(test_maxpool_ties),
        cmocka_unit_test(test_maxpool_of_nothing),
        cmocka_unit_test(test_adaptive_windows),
        cmocka_unit_test(test_adaptive_rectangle),
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_normalize_mixes),
        cmocka_unit_test(test_relu_keeps_nan),
    };
    return cmocka_run_group_tests(tests, rig_group_setup, rig_group_teardown);
}
