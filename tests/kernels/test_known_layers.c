/* Compares the layers of the reference with values that PyTorch 1.13 computed in fp64. Also checks
 * properties that the finite differences of test_gradients.c do not show: running statistics, ties,
 * windows, NaN. */
#include "tests/kernels/known.h"
#include "verify/describe.h"

/* Small whole numbers. No stride of the tensors is a period of their sequence: an error in an index
 * changes the result. PyTorch computed the expected values from the same numbers. */
static double x_numbers[120], w_numbers[24], b_numbers[5];

static int set_numbers(void **state)
{
    for (int i = 0; i < 120; i++)
        x_numbers[i] = i * 7 % 11 - 5;
    for (int i = 0; i < 24; i++)
        w_numbers[i] = i * 5 % 13 - 6;
    for (int i = 0; i < 5; i++)
        b_numbers[i] = i * 3 % 5 - 2;
    return rig_group_setup(state);
}

#define NUMBERS(x, w, b)                                                                           \
    {                                                                                              \
        {ROLE_X, x, x_numbers}, {ROLE_W, w, w_numbers},                                            \
        {                                                                                          \
            ROLE_B, b, b_numbers                                                                   \
        }                                                                                          \
    }

static struct op_desc with_relu(struct op_desc d)
{
    d.attr.conv.relu = d.kind == OP_CONV_FWD;
    if (d.kind == OP_LINEAR_FWD)
        d.attr.linear.relu = true;
    return d;
}

/* Height and width differ in every attribute. test_gradients.c checks the gradients. */
static void convolution_and_linear(void **state)
{
    static const struct conv_shape shape[] = {{1, 2, 5, 4, 2, {3, 2}, {2, 1}, {1, 0}, 1},
                                              {2, 4, 3, 5, 2, {1, 3}, {1, 2}, {0, 1}, 2}};
    const struct op_desc conv = describe_conv(OP_CONV_FWD, &shape[0], WITH(B));
    const struct op_desc linear = describe_linear(OP_LINEAR_FWD, 2, 3, 4, WITH(B));
    const struct known table[] = {
        {.d = conv,
         .in = NUMBERS(40, 24, 2),
         .out = {VALUES(ROLE_Y, -87, 62, 13, -34, 18, 26, -78, 32, -12, 46, 34, -33, -8, 35, -54,
                        50, -53, -24)}},
        {.d = with_relu(conv),
         .in = NUMBERS(40, 24, 2),
         .out = {VALUES(ROLE_Y, 0, 62, 13, 0, 18, 26, 0, 32, 0, 46, 34, 0, 0, 35, 0, 50, 0, 0)}},
        {.d = describe_conv(OP_CONV_FWD, &shape[1], WITH(B)),
         .in = NUMBERS(120, 12, 2),
         .out = {VALUES(ROLE_Y, -6, 24, -37, 14, -31, 9, -10, 35, -11, -10, 39, 2, -10, -20, 14,
                        -10, -2, -7, 14, -31, 9, -10, 35, -11, -1, -31, 24, -10, -20, 14, -10, -2,
                        -7, -10, 27, 5)}},
        {.d = linear,
         .in = NUMBERS(6, 12, 4),
         .out = {VALUES(ROLE_Y, 18, 11, 25, 18, -45, -36, 7, 16)}},
        {.d = with_relu(linear),
         .in = NUMBERS(6, 12, 4),
         .out = {VALUES(ROLE_Y, 18, 11, 25, 18, 0, 0, 7, 16)}},
    };
    CHECK_ROWS(table);
}

/* Two values are the minimum for batch norm. Their unbiased variance is twice the biased variance.
 */
static void batch_norm(void **state)
{
#define BN_INPUTS                                                                                  \
    VALUES(ROLE_X, 1, 2, -1, 4, 3, 0, 5, -6), VALUES(ROLE_GAMMA, 1.5, -0.5),                       \
        VALUES(ROLE_BETA, 0.25, 1), VALUES(ROLE_RMEAN, 0.5, -1), VALUES(ROLE_RVAR, 2, 1)
    const struct known table[] = {
        {.d = describe_bn(OP_BN_FWD_TRAIN, 2, 2, 1, 2, false, 0),
         .in = {BN_INPUTS},
         .out = {VALUES(ROLE_Y, -0.42081771, 0.92081771, 1.17094082, 0.601138086, 2.26245313,
                        -1.76245313, 0.487177539, 1.74074355),
                 VALUES(ROLE_MEAN, 1.5, 0.5), VALUES(ROLE_INVSTD, 0.894423613, 0.227921094),
                 VALUES(ROLE_RMEAN, 0.6, -0.85), VALUES(ROLE_RVAR, 1.96666667, 3.46666667)}},
        {.d = describe_bn(OP_BN_FWD_TRAIN, 2, 2, 1, 2, true, WITH(Z)),
         .in = {BN_INPUTS, VALUES(ROLE_Z, 0.5, -2, 1, 0, -1, 0.25, -3, 2)},
         .out = {VALUES(ROLE_Y, 0.07918229, 0, 2.17094082, 0.601138086, 1.26245313, 0, 0,
                        3.74074355)}},
        {.d = describe_bn(OP_BN_FWD_EVAL, 2, 2, 1, 2, false, 0),
         .in = {BN_INPUTS},
         .out = {VALUES(ROLE_Y, 0.78032876, 1.84098628, 1, -1.4999875, 2.9016438, -0.28032876,
                        -1.999985, 3.4999875),
                 VALUES(ROLE_RMEAN, 0.5, -1), VALUES(ROLE_RVAR, 2, 1)}},
        {.d = describe_bn(OP_BN_FWD_TRAIN, 2, 1, 1, 1, false, 0),
         .in = {VALUES(ROLE_X, 3, 5), VALUES(ROLE_GAMMA, 1), VALUES(ROLE_RVAR, 1)},
         .out = {VALUES(ROLE_RMEAN, 0.4), VALUES(ROLE_RVAR, 1.1)}},
    };
    CHECK_ROWS(table);
}

/* A window's first maximum counts, and a NaN is the maximum. Padding is never the maximum, even if
 * all values of a window are -inf. Otherwise the gradient would be lost. */
static void max_pooling(void **state)
{
    static const struct pool_attr two = {{2, 2}, {2, 2}, {0, 0}}, three = {{3, 3}, {2, 2}, {1, 1}};
#define TIES VALUES(ROLE_X, 1, 1, 0, 2, 1, 1, 2, 2, -1, -1, NAN, 0, -1, -1, 0, 3)
#define INF  (double)-INFINITY
    const struct known table[] = {
        {.d = describe_maxpool(OP_MAXPOOL_FWD, 1, 1, 4, 4, &two, WITH(INDEX)),
         .in = {TIES},
         .out = {VALUES(ROLE_Y, 1, 2, -1, NAN), VALUES(ROLE_INDEX, 0, 1, 0, 0)}},
        {.d = describe_maxpool(OP_MAXPOOL_FWD, 1, 1, 4, 4, &three, WITH(INDEX)),
         .in = {TIES},
         .out = {VALUES(ROLE_Y, 1, 2, 1, NAN), VALUES(ROLE_INDEX, 4, 5, 1, 4)}},
        {.d = describe_maxpool(OP_MAXPOOL_FWD, 1, 1, 3, 3, &three, WITH(INDEX)),
         .in = {VALUES(ROLE_X, INF, INF, INF, INF, INF, INF, INF, INF, INF)},
         .out = {VALUES(ROLE_Y, INF, INF, INF, INF), VALUES(ROLE_INDEX, 4, 3, 1, 0)}},
    };
    CHECK_ROWS(table);
}

/* The input is i^2 at position i. The expected values are its means over PyTorch's windows. */
static void adaptive_windows(void **state)
{
    static const struct {
        int h, w, oh, ow;
        double y[7];
    } table[] = {
        {7, 1, 3, 1, {1.66666667, 9.66666667, 25.6666667}},
        {5, 1, 3, 1, {0.5, 4.66666667, 12.5}},
        {1, 2, 1, 7, {0, 0, 0, 0.5, 1, 1, 1}},
        {1, 13, 1, 6, {1.66666667, 9.66666667, 25.6666667, 49.6666667, 81.6666667, 121.666667}},
        {10, 1, 4, 1, {1.66666667, 9.66666667, 36.6666667, 64.6666667}},
        {4, 5, 3, 2, {19.1666667, 37.1666667, 79.1666667, 117.166667, 189.166667, 247.166667}},
    };
    double squares[20];
    for (int i = 0; i < 20; i++)
        squares[i] = i * i;
    for (int i = 0; i < COUNT(table); i++) {
        int h = table[i].h, w = table[i].w, oh = table[i].oh, ow = table[i].ow;
        const struct known row = {.d = describe_avgpool(OP_AVGPOOL_FWD, 1, 1, h, w, oh, ow),
                                  .in = {{ROLE_X, h * w, squares}},
                                  .out = {{ROLE_Y, oh * ow, table[i].y}}};
        known_check(*state, &row);
    }
}

/* The second row is RandomMixup of torchvision on three images of one pixel. Each image is mixed
 * with the previous one, as by batch.roll(1, 0). */
static void pixels_and_relu(void **state)
{
    struct op_desc mixed = describe_normalize(3, 1, 1, WITH(PARTNER));
    mixed.attr.normalize = (struct normalize_attr){{0, 0, 0}, {1, 1, 1}};
    const struct known table[] = {
        {.d = describe_normalize(1, 1, 3, 0),
         .in = {VALUES(ROLE_X, 0, 255, 128, 0, 255, 128, 0, 255, 128)}, /* R..., G..., B... */
         .out = {VALUES(ROLE_Y, -2.1179039301, 2.2489082969, 0.07406456032, -2.0357142857,
                        2.4285714286, 0.20518207283, -1.8044444444, 2.64, 0.42649237473)}},
        {.d = mixed,
         .in = {VALUES(ROLE_X, 255, 0, 0, 0, 255, 0, 51, 102, 255), VALUES(ROLE_PARTNER, 2, 0, 1)},
         .state = {.mix = 0.75f},
         .out = {VALUES(ROLE_Y, 0.8, 0.1, 0.25, 0.25, 0.75, 0, 0.15, 0.55, 0.75)}},
        {.d = describe_like(OP_RELU_FWD, tensor_1d(DTYPE_F32, 4), 0),
         .in = {VALUES(ROLE_X, -1, NAN, 2, INF)},
         .out = {VALUES(ROLE_Y, 0, NAN, 2, 0)}},
    };
    CHECK_ROWS(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_and_linear),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(max_pooling),
        cmocka_unit_test(adaptive_windows),
        cmocka_unit_test(pixels_and_relu),
    };
    return cmocka_run_group_tests_name("known_layers", tests, set_numbers, rig_group_teardown);
}
