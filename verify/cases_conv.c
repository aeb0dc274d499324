/* Adds cases of convolution and linear: layers of real networks at small sizes, and odd shapes. */
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
