/* Adds cases of convolution and linear (layers of real networks at small sizes, and odd shapes), of
 * batch norm, and of fused convolution and batch norm. */
#include "verify/cases.h"
#include "verify/describe.h"

/* A square kernel, stride and padding on a square image. */
#define SQUARE(n, c, size, o, k, s, p, g)                                                          \
    {                                                                                              \
        n, c, size, size, o, {k, k}, {s, s}, {p, p}, g                                             \
    }

/* Every distinct convolution of ResNet-18 and ResNet-50, on images with sides of only 8, 5, 4 and 3
 * pixels in the four stages; then the convolutions of ResNeXt and of the small network. No
 * convolution has a bias. */
static const struct conv_shape residual[] = {
    SQUARE(2, 3, 32, 64, 7, 2, 3, 1),    SQUARE(2, 64, 8, 64, 3, 1, 1, 1),
    SQUARE(2, 64, 8, 128, 3, 2, 1, 1),   SQUARE(2, 64, 8, 128, 1, 2, 0, 1),
    SQUARE(2, 128, 5, 128, 3, 1, 1, 1),  SQUARE(2, 128, 5, 256, 3, 2, 1, 1),
    SQUARE(2, 128, 5, 256, 1, 2, 0, 1),  SQUARE(1, 256, 4, 256, 3, 1, 1, 1),
    SQUARE(1, 256, 4, 512, 3, 2, 1, 1),  SQUARE(2, 256, 4, 512, 1, 2, 0, 1),
    SQUARE(1, 512, 3, 512, 3, 1, 1, 1),  SQUARE(2, 64, 8, 64, 1, 1, 0, 1),
    SQUARE(2, 64, 8, 256, 1, 1, 0, 1),   SQUARE(2, 256, 8, 64, 1, 1, 0, 1),
    SQUARE(2, 256, 8, 128, 1, 1, 0, 1),  SQUARE(2, 128, 8, 128, 3, 2, 1, 1),
    SQUARE(2, 128, 5, 512, 1, 1, 0, 1),  SQUARE(1, 256, 8, 512, 1, 2, 0, 1),
    SQUARE(2, 512, 5, 128, 1, 1, 0, 1),  SQUARE(1, 512, 5, 256, 1, 1, 0, 1),
    SQUARE(1, 256, 5, 256, 3, 2, 1, 1),  SQUARE(1, 256, 4, 1024, 1, 1, 0, 1),
    SQUARE(1, 512, 5, 1024, 1, 2, 0, 1), SQUARE(1, 1024, 4, 256, 1, 1, 0, 1),
    SQUARE(1, 1024, 4, 512, 1, 1, 0, 1), SQUARE(1, 512, 4, 512, 3, 2, 1, 1),
    SQUARE(1, 512, 3, 2048, 1, 1, 0, 1), SQUARE(1, 1024, 4, 2048, 1, 2, 0, 1),
    SQUARE(1, 2048, 3, 512, 1, 1, 0, 1), SQUARE(1, 64, 7, 64, 3, 1, 1, 1),
    SQUARE(2, 128, 8, 128, 3, 1, 1, 32), SQUARE(2, 256, 7, 256, 3, 2, 1, 32),
    SQUARE(2, 3, 16, 16, 3, 1, 1, 1),    SQUARE(2, 16, 16, 32, 3, 2, 1, 1),
    SQUARE(2, 16, 16, 32, 1, 2, 0, 1),
};

/* Many images of few pixels. */
static const struct conv_shape small[] = {
    SQUARE(16, 32, 2, 48, 3, 1, 1, 1),
    SQUARE(18, 48, 4, 32, 3, 2, 1, 1),
    SQUARE(65, 16, 1, 16, 3, 1, 1, 1),
    {13, 16, 3, 4, 32, {5, 2}, {1, 2}, {2, 1}, 1},
    {24, 32, 7, 5, 16, {3, 3}, {3, 2}, {0, 2}, 1},
};

/* AlexNet and VGG, whose convolutions have a bias and mostly a ReLU. */
static const struct conv_shape biased[] = {
    SQUARE(2, 3, 67, 64, 11, 4, 2, 1),  SQUARE(2, 64, 7, 192, 5, 1, 2, 1),
    SQUARE(1, 192, 5, 384, 3, 1, 1, 1), SQUARE(1, 384, 5, 256, 3, 1, 1, 1),
    SQUARE(2, 3, 16, 64, 3, 1, 1, 1),   SQUARE(2, 64, 8, 128, 3, 1, 1, 1),
    SQUARE(1, 256, 4, 512, 3, 1, 1, 1),
};

/* Shapes that occur only in users' own networks: odd numbers of channels, odd sizes, single pixels,
 * depthwise convolutions, windows that are not square, padding larger than the image. */
static const struct conv_shape odd[] = {
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, 1},    {3, 5, 9, 11, 7, {3, 3}, {1, 1}, {1, 1}, 1},
    {1, 17, 7, 5, 33, {3, 3}, {2, 2}, {1, 1}, 1},  {2, 10, 8, 3, 20, {1, 1}, {1, 1}, {0, 0}, 1},
    {2, 24, 9, 9, 24, {5, 5}, {2, 2}, {2, 2}, 24}, {1, 32, 8, 8, 32, {3, 3}, {1, 1}, {1, 1}, 32},
    {2, 6, 7, 7, 9, {3, 3}, {1, 1}, {1, 1}, 3},    {2, 8, 5, 5, 16, {3, 3}, {1, 1}, {1, 1}, 8},
    {2, 12, 6, 9, 8, {1, 7}, {1, 1}, {0, 3}, 1},   {2, 16, 9, 6, 16, {7, 1}, {1, 2}, {3, 0}, 1},
    {1, 8, 13, 12, 8, {5, 3}, {4, 3}, {2, 0}, 1},  {2, 16, 3, 3, 16, {3, 3}, {1, 1}, {2, 2}, 1},
    {1, 64, 1, 1, 64, {3, 3}, {1, 1}, {1, 1}, 1},  {5, 3, 8, 8, 10, {2, 2}, {2, 2}, {0, 0}, 1},
    {1, 4, 10, 10, 4, {4, 4}, {3, 3}, {0, 0}, 1},  {2, 48, 5, 5, 40, {3, 3}, {2, 1}, {1, 1}, 1},
};

static void add_forward(struct case_list *list, const struct conv_shape *s, bool bias, bool relu)
{
    struct op_desc d = describe_conv(OP_CONV_FWD, s, bias ? WITH(B) : 0);
    d.attr.conv.relu = relu;
    cases_add(list, d, FILL_RANDOM);
}

static void add_backward(struct case_list *list, const struct conv_shape *s, bool bias)
{
    cases_add(list, describe_conv(OP_CONV_BWD_DATA, s, 0), FILL_RANDOM);
    cases_add(list, describe_conv(OP_CONV_BWD_WEIGHTS, s, bias ? WITH(DB) : 0), FILL_RANDOM);
}

static void cases_linear(struct case_list *list)
{
    static const int shape[][3] = {{4, 512, 10}, {2, 2048, 1000}, {2, 25088, 64},
                                   {1, 7, 5},    {5, 33, 17},     {16, 64, 64},
                                   {1, 1, 1},    {3, 9216, 96},   {32, 256, 100}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i];
        for (int bias = 0; bias < 2; bias++) {
            struct op_desc forward =
                describe_linear(OP_LINEAR_FWD, s[0], s[1], s[2], bias ? WITH(B) : 0);
            cases_add(list, forward, FILL_RANDOM);
            forward.attr.linear.relu = true;
            cases_add(list, forward, FILL_RANDOM);
            cases_add(list,
                      describe_linear(OP_LINEAR_BWD_WEIGHTS, s[0], s[1], s[2], bias ? WITH(DB) : 0),
                      FILL_RANDOM);
        }
        cases_add(list, describe_linear(OP_LINEAR_BWD_DATA, s[0], s[1], s[2], 0), FILL_RANDOM);
    }
}

/* ResNets come first: a time limit ends a worker at later cases. */
void cases_conv(struct case_list *list)
{
    for (size_t i = 0; i < sizeof residual / sizeof *residual; i++) {
        add_forward(list, &residual[i], false, false);
        add_backward(list, &residual[i], false);
    }
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        add_backward(list, &small[i], false);
    for (size_t i = 0; i < sizeof biased / sizeof *biased; i++) {
        add_forward(list, &biased[i], true, true);
        add_backward(list, &biased[i], true);
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int bias = 0; bias < 2; bias++) {
            add_forward(list, &odd[i], bias, false);
            add_forward(list, &odd[i], bias, true);
            add_backward(list, &odd[i], bias);
        }
    cases_linear(list);
}

/* --- batch norm --- */

/* Every combination of fused operations, shapes from many values per channel
 * down to two, and inputs for which the variance would be inexact if it were computed as
 * E[x^2] - E[x]^2. */

/* n, c, h, w */
static const int bn_small[][4] = {{2, 64, 7, 7}, {3, 17, 9, 5}};
static const int bn_others[][4] = {
    {2, 64, 28, 28}, {1, 64, 56, 56}, {4, 32, 14, 14}, {4, 256, 2, 2},  {2, 64, 1, 1},
    {1, 16, 1, 2},   {2, 3, 1, 1},    {2, 3, 5, 7},    {16, 512, 1, 1}, {1, 8, 33, 31},
    {33, 16, 3, 3},  {2, 64, 25, 23}}; /* the last shape has more than CASES_STREAM_BYTES */

static void add_bn_forward(struct case_list *list, const int s[4], bool relu, uint64_t with,
                           enum fill fill)
{
    cases_add(list, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], relu, with), fill);
    cases_add(list, describe_bn(OP_BN_FWD_EVAL, s[0], s[1], s[2], s[3], relu, with), fill);
}

static void add_bn_backward(struct case_list *list, const int s[4], bool relu, uint64_t with,
                            enum fill fill)
{
    cases_add(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], relu, with), fill);
}

static void add_bn_all(struct case_list *list, const int s[4], enum fill fill)
{
    for (int relu = 0; relu < 2; relu++) {
        add_bn_forward(list, s, relu, 0, fill);
        add_bn_forward(list, s, relu, WITH(Z), fill);
        add_bn_backward(list, s, relu, 0, fill);
        add_bn_backward(list, s, relu, WITH(DY2), fill);
        add_bn_backward(list, s, relu, WITH(DZ), fill);
        add_bn_backward(list, s, relu, WITH(DY2) | WITH(DZ), fill);
    }
}

static void add_bn_some(struct case_list *list, const int s[4], enum fill fill)
{
    add_bn_forward(list, s, false, 0, fill);
    add_bn_forward(list, s, true, WITH(Z), fill);
    add_bn_backward(list, s, false, 0, fill);
    add_bn_backward(list, s, true, WITH(DY2) | WITH(DZ), fill);
}

void cases_bn(struct case_list *list)
{
    for (size_t i = 0; i < sizeof bn_small / sizeof *bn_small; i++)
        add_bn_all(list, bn_small[i], FILL_RANDOM);
    for (size_t i = 0; i < sizeof bn_others / sizeof *bn_others; i++)
        add_bn_some(list, bn_others[i], FILL_RANDOM);
    static const int hard[][4] = {
        {2, 64, 28, 28}, {8, 16, 7, 7}, {3, 5, 9, 9}, {16, 64, 1, 1}, {1, 16, 112, 112}};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        add_bn_some(list, hard[i], FILL_LARGE_MEAN);
    add_bn_some(list, (const int[]){2, 64, 5, 5}, FILL_CONSTANT);
    add_bn_some(list, (const int[]){2, 3, 4, 4}, FILL_CONSTANT);
    /* The ReLU must pass a NaN on to Y, and the NaN must not change other channels. */
    add_bn_forward(list, (const int[]){2, 32, 5, 5}, true, 0, FILL_NAN);
    add_bn_forward(list, (const int[]){2, 3, 4, 4}, true, WITH(Z), FILL_NAN);
}

/* --- fused convolution and batch norm --- */

/* Cases of fused convolution and batch norm, with tensors as the CUDA backend stores them: NHWC,
 * activations and weights of one type, weight gradients in fp32, rounded to that type. */

static void add_types(struct case_list *list, struct op_desc d)
{
    static const enum dtype type[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof type / sizeof *type; i++)
        cases_add_one(list, list->problems++, fused_of_type(d, type[i]), FILL_RANDOM,
                      layout_str(LAYOUT_NHWC));
}

/* Two batch norms whose results are added. */
static void add_two(struct case_list *list, const int s[4])
{
    static const struct {
        enum op_kind kind;
        uint64_t with;
    } form[] = {
        {OP_BN_FWD_TRAIN, WITH(Z) | WITH(Z_AFFINE)},
        {OP_BN_APPLY, WITH(Z) | WITH(Z_AFFINE)},
        {OP_BN_APPLY, WITH(Z) | WITH(Z_AFFINE) | WITH(MASK)},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ)},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ) | WITH(MASK)},
        {OP_BN_BWD, WITH_BN_OF_Z | WITH(DZ) | WITH(MASK) | WITH(DY2)},
        {OP_BN_BWD_APPLY, WITH(Z) | WITH(Z_EQ) | WITH(DZ)},
    };
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        add_types(list, describe_bn(form[i].kind, s[0], s[1], s[2], s[3], true, form[i].with));
}

/* The last window is not square; no kernel needs to support it. */
static void add_pooled(struct case_list *list)
{
    static const struct pool_attr window[] = {
        {{3, 3}, {2, 2}, {1, 1}}, {{2, 2}, {2, 2}, {0, 0}}, {{2, 3}, {1, 2}, {1, 0}}};
    static const int size[][4] = {{2, 16, 7, 6}, {3, 8, 4, 5}, {2, 24, 37, 20}, {2, 13, 5, 5}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (size_t k = 0; k < sizeof window / sizeof *window; k++) {
            const struct pool_attr *p = &window[k];
            const int *s = size[i];
            if (k == 0)
                add_types(list, describe_bn_pool(OP_BN_STATISTICS, s[0], s[1], s[2], s[3], p, 0));
            add_types(list, describe_bn_pool(OP_BN_POOL_FWD, s[0], s[1], s[2], s[3], p, 0));
            add_types(list, describe_bn_pool(OP_BN_POOL_BWD, s[0], s[1], s[2], s[3], p, 0));
            add_types(list, describe_bn_pool(OP_BN_POOL_BWD, s[0], s[1], s[2], s[3], p, WITH(DY2)));
        }
}

void cases_fused(struct case_list *list)
{
    add_pooled(list);
    static const struct conv_shape shape[] = {
        {2, 16, 6, 5, 8, {3, 3}, {1, 1}, {1, 1}, 1},
        {2, 8, 7, 7, 16, {3, 3}, {2, 2}, {1, 1}, 1},
        {1, 24, 4, 4, 8, {1, 1}, {1, 1}, {0, 0}, 1},
        {2, 64, 6, 6, 64, {3, 3}, {1, 1}, {1, 1}, 1},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const struct conv_shape *s = &shape[i];
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, 0));
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, WITH(AFFINE)));
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, WITH_END));
        add_types(list, describe_conv(OP_CONV_STATS_FWD, s, WITH_END | WITH(Z_AFFINE)));
        add_types(list, describe_conv(OP_CONV_APPLY_BWD_WEIGHTS, s, 0));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, 0));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, WITH(Z) | WITH(DY2)));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, WITH_DATA_BN_OF_Z));
        add_types(list, describe_conv(OP_CONV_BWD_DATA_BN, s, WITH_DATA_BN_OF_Z | WITH(DY2)));
    }
    static const int size[][4] = {{2, 16, 5, 4}, {3, 13, 3, 3}};
    for (int i = 0; i < 2; i++) {
        const int *s = size[i];
        const uint64_t gradients = WITH(MASK) | WITH(DY2) | WITH(DZ);
        add_types(list, describe_bn(OP_BN_FINALIZE, s[0], s[1], s[2], s[3], true, 0));
        add_types(list, describe_bn(OP_BN_FINALIZE, s[0], s[1], s[2], s[3], true, WITH(AFFINE)));
        add_types(list, describe_bn(OP_BN_APPLY, s[0], s[1], s[2], s[3], true, 0));
        add_types(list, describe_bn(OP_BN_APPLY, s[0], s[1], s[2], s[3], true, WITH(Z)));
        add_types(list,
                  describe_bn(OP_BN_APPLY, s[0], s[1], s[2], s[3], true, WITH(Z) | WITH(MASK)));
        add_types(list, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], true, WITH(MASK)));
        add_types(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], true, WITH(MASK)));
        add_types(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], true, gradients));
        add_types(list, describe_bn(OP_BN_BWD_APPLY, s[0], s[1], s[2], s[3], true, 0));
        add_two(list, s);
    }
}
