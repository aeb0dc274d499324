/* Tests the check of a convolution's passes. */
#include "bench/conv_pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A convolution whose sizes, kernel and stride differ between height and width. */
static struct op_desc odd(int pass)
{
    struct op_desc fwd = {.kind = OP_CONV_FWD, .attr.conv = {.stride = {1, 2}, .groups = 1}};
    fwd.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 3, 7, 11);
    fwd.t[ROLE_W] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 8, 3, 2, 5);
    fwd.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 8, 6, 4);
    return conv_pass(&fwd, pass);
}

/* First only the last element is wrong, then all elements are. The check samples 17 elements. */
static void test_wrong_is_seen(void **state)
{
    (void)state;
    static const enum role result[CONV_PASSES] = {ROLE_Y, ROLE_DX, ROLE_DW};
    struct device *dev;
    struct stream *s;
    assert_int_equal(device_open("ref", 1, &dev), STATUS_OK);
    assert_int_equal(dev->backend->stream_open(dev, &s), STATUS_OK);
    for (int pass = 0; pass < CONV_PASSES; pass++) {
        struct timed_op t;
        int64_t wrong;
        struct op_desc d = odd(pass);
        assert_int_equal(timed_op_open(&t, s, &d), STATUS_OK);
        assert_int_equal(timed_op_warm(&t), STATUS_OK);
        const struct tensor_desc *r = &t.plan->desc.t[result[pass]];
        float *x = t.arg[result[pass]]; /* the reference device uses host memory */
        assert_int_equal(conv_pass_check(&t, &wrong), STATUS_OK);
        assert_int_equal(wrong, 0);
        x[r->bytes / sizeof *x - 1] *= 1.001f;
        assert_int_equal(conv_pass_check(&t, &wrong), STATUS_OK);
        assert_int_equal(wrong, 1);
        memset(x, 0xff, r->bytes);
        assert_int_equal(conv_pass_check(&t, &wrong), STATUS_OK);
        assert_int_equal(wrong, 17);
        timed_op_close(&t);
    }
    dev->backend->stream_close(s);
    device_close(dev);
}

/* A convolution with 4 input channels, 6 output channels, 2 groups and a bias. */
static struct op_desc grouped(int pass)
{
    struct op_desc fwd = {.kind = OP_CONV_FWD,
                          .attr.conv = {.stride = {2, 1}, .pad = {1, 0}, .groups = 2}};
    fwd.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 4, 5, 6);
    fwd.t[ROLE_W] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 6, 2, 3, 2);
    fwd.t[ROLE_B] = tensor_1d(DTYPE_F32, 6);
    fwd.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 6, 3, 5);
    return conv_pass(&fwd, pass);
}

static void test_groups_and_bias(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    for (int k = 0; k < 2 * CONV_PASSES; k++) {
        struct op_desc d = grouped(k / 2);
        struct device *dev;
        struct stream *s;
        struct timed_op t;
        int64_t wrong;
        assert_int_equal(device_open(devices[k % 2], 1, &dev), STATUS_OK);
        assert_int_equal(dev->backend->stream_open(dev, &s), STATUS_OK);
        assert_int_equal(timed_op_open(&t, s, &d), STATUS_OK);
        assert_int_equal(timed_op_warm(&t), STATUS_OK);
        assert_int_equal(conv_pass_check(&t, &wrong), STATUS_OK);
        assert_int_equal(wrong, 0);
        if (k / 2 == 2) { /* a bias gradient has the same layout on every device */
            ((float *)t.arg[ROLE_DB])[5] += 1;
            assert_int_equal(conv_pass_check(&t, &wrong), STATUS_OK);
            assert_true(wrong >= 1);
        }
        timed_op_close(&t);
        dev->backend->stream_close(s);
        device_close(dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_is_seen),
        cmocka_unit_test(test_groups_and_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
