/* Tests Winograd's algorithm where the table of cases does not: sums over many tiles and their
 * division among threads, and which convolutions use it. */
#include "tests/kernels/group.h"
#include "verify/bounds.h"
#include "verify/describe.h"
#include "verify/fill.h"

/* More tiles than a thread transforms at a time and, for the gradient of the weights, so few pairs
 * of channels that threads divide the tiles. */
static const struct conv_shape many_tiles[] = {
    {20, 32, 18, 15, 32, {3, 3}, {1, 1}, {1, 1}, 1},
    {9, 32, 24, 24, 96, {3, 3}, {1, 1}, {0, 2}, 1},
    {2, 256, 7, 9, 160, {3, 3}, {1, 1}, {1, 1}, 1},
    {16, 32, 14, 10, 64, {3, 3}, {1, 1}, {1, 1}, 1}, /* tiles of several images in each direction */
    {6, 32, 1, 13, 32, {3, 3}, {1, 1}, {1, 1}, 1},
};
static const enum op_kind passes[] = {OP_CONV_FWD, OP_CONV_BWD_DATA, OP_CONV_BWD_WEIGHTS};
static const uint64_t optional[] = {WITH(B), 0, WITH(DB)};

static struct device *open_cpu(int threads, enum conv_algorithm algorithm)
{
    struct device *dev;
    expect_ok(device_open("cpu", threads, &dev));
    dev->conv_algorithm = algorithm;
    return dev;
}

/* A description that leaves all layouts to the plan. */
static struct op_desc free_layouts(struct op_desc d)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4)
            d.t[r] = in_layout(d.t[r], LAYOUT_ANY);
    return d;
}

static bool uses_winograd(struct device *dev, struct op_desc d)
{
    struct op_plan *plan;
    d = free_layouts(d);
    expect_ok(op_plan(dev, &d, &plan));
    bool found = strstr(plan->impl, "winograd") != NULL;
    op_plan_free(plan);
    return found;
}

/* The smallest vectors for which there are transforms have 8 floats. */
static void need_transforms(void)
{
    struct device *dev = open_cpu(1, CONV_WINOGRAD);
    bool has = uses_winograd(dev, describe_conv(OP_CONV_FWD, &many_tiles[0], 0));
    device_close(dev);
    if (has)
        return;
    print_message("skipped: the processor has no AVX2\n");
    skip();
}

static void any_number_of_threads(void **state)
{
    need_transforms();
    for (int i = 0; i < COUNT(many_tiles) * COUNT(passes); i++) {
        const enum op_kind kind = passes[i % COUNT(passes)];
        const struct op_desc d =
            describe_conv(kind, &many_tiles[i / COUNT(passes)], optional[i % COUNT(passes)]);
        const struct op_desc asked = free_layouts(d);
        struct operands in, want, got[3];
        struct bounds bounds;
        expect_ok(operands_new(&d, &in));
        expect_ok(fill_operands(*state, &d, FILL_RANDOM, (uint64_t)i, &in));
        expect_ok(operands_copy(&d, &in, &want));
        expect_ok(run_once(*state, &d, &want));
        expect_ok(bounds_new(*state, &d, false, true, &in, &bounds));
        for (int t = 0; t < COUNT(got); t++) {
            struct device *dev = open_cpu(t + 1, CONV_WINOGRAD);
            assert_true(uses_winograd(dev, d));
            expect_ok(operands_copy(&d, &in, &got[t]));
            expect_ok(run_once(dev, &asked, &got[t]));
            expect_ok(bounds_check(&d, &bounds, &want, &got[t]));
            device_close(dev);
        }
        /* Sums of weights' gradients are divided among threads; other sums are not. */
        for (int r = 0; r < ROLE_COUNT; r++)
            for (int t = 1; t < COUNT(got) && kind != OP_CONV_BWD_WEIGHTS; t++)
                if (op_roles(kind).writes >> r & 1 && want.p[r])
                    assert_memory_equal(got[t].p[r], got[0].p[r], operand_bytes(&d, (enum role)r));
        for (int t = 0; t < COUNT(got); t++)
            operands_free(&got[t]);
        bounds_free(&bounds);
        operands_free(&want);
        operands_free(&in);
    }
}

/* The layers of ResNets and VGG for which Winograd's algorithm is meant, and those for which it is
 * not: images that fill no tile, a batch too small to pay for the weights' transforms. */
static void auto_follows_the_shape(void **state)
{
    static const struct {
        struct conv_shape shape;
        bool winograd;
    } layer[] = {
        {{16, 64, 56, 56, 64, {3, 3}, {1, 1}, {1, 1}, 1}, true},
        {{16, 512, 7, 7, 512, {3, 3}, {1, 1}, {1, 1}, 1}, true},
        {{1, 64, 224, 224, 64, {3, 3}, {1, 1}, {1, 1}, 1}, true},
        {{64, 256, 4, 4, 256, {3, 3}, {1, 1}, {1, 1}, 1}, true},
        {{64, 512, 2, 2, 512, {3, 3}, {1, 1}, {1, 1}, 1}, false},
        {{1, 512, 7, 7, 512, {3, 3}, {1, 1}, {1, 1}, 1}, false},
    };
    need_transforms();
    struct device *by_shape = open_cpu(2, CONV_AUTO), *always = open_cpu(2, CONV_WINOGRAD);
    struct device *never = open_cpu(2, CONV_DIRECT);
    for (int i = 0; i < COUNT(layer) * COUNT(passes); i++) {
        const struct op_desc d =
            describe_conv(passes[i % COUNT(passes)], &layer[i / COUNT(passes)].shape, 0);
        assert_int_equal(uses_winograd(by_shape, d), layer[i / COUNT(passes)].winograd);
        assert_true(uses_winograd(always, d));
        assert_false(uses_winograd(never, d));
    }
    device_close(by_shape);
    device_close(always);
    device_close(never);
}

/* Strides, other kernels, groups, and 16-bit or emulated types, whose products are promised to be
 * exact, are convolved directly whatever was asked for. */
static void other_convolutions_stay_direct(void **state)
{
    static const struct conv_shape shape[] = {
        {16, 64, 56, 56, 64, {3, 3}, {2, 2}, {1, 1}, 1},
        {16, 64, 56, 56, 64, {1, 1}, {1, 1}, {0, 0}, 1},
        {16, 64, 56, 56, 64, {5, 5}, {1, 1}, {2, 2}, 1},
        {16, 64, 56, 56, 64, {3, 3}, {1, 1}, {1, 1}, 2},
        {16, 3, 56, 56, 64, {3, 3}, {1, 1}, {1, 1}, 1},
    };
    struct device *dev = open_cpu(2, CONV_WINOGRAD);
    for (int i = 0; i < COUNT(shape) * COUNT(passes); i++)
        assert_false(uses_winograd(
            dev, describe_conv(passes[i % COUNT(passes)], &shape[i / COUNT(passes)], 0)));
    static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_TF32};
    for (int i = 0; i < COUNT(types) * COUNT(passes); i++) {
        struct op_desc d = describe_conv(passes[i % COUNT(passes)], &many_tiles[0], 0);
        for (int r = 0; r < ROLE_COUNT; r++)
            if (d.t[r].ndim == 4 && r != ROLE_DW)
                d.t[r].rounds = types[i / COUNT(passes)];
        assert_false(uses_winograd(dev, d));
    }
    device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(auto_follows_the_shape),
        cmocka_unit_test(other_convolutions_stay_direct),
    };
    return cmocka_run_group_tests_name("winograd", tests, rig_group_setup, rig_group_teardown);
}
