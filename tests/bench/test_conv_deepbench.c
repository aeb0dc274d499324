/* Tests single convolutions: shapes, a wrong result, omitted passes, and the record. */
#include "bench/conv_deepbench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sizes, kernels, padding and strides that differ between height and width. */
static const struct deepbench_conv odd[] = {
    {.w = 11, .h = 7, .c = 3, .n = 2, .k = 8, .fw = 5, .fh = 2, .stride_w = 2, .stride_h = 1},
    {.w = 6,
     .h = 9,
     .c = 8,
     .n = 3,
     .k = 4,
     .fw = 3,
     .fh = 1,
     .pad_w = 1,
     .stride_w = 1,
     .stride_h = 2},
    {.w = 5,
     .h = 5,
     .c = 4,
     .n = 1,
     .k = 4,
     .fw = 1,
     .fh = 1,
     .pad_w = 3,
     .pad_h = 3,
     .stride_w = 2,
     .stride_h = 2},
};

static struct conv_deepbench_config quick(const char *devices)
{
    return (struct conv_deepbench_config){
        .options = {.devices = devices, .threads = 2, .timing = {.warmup = 1, .most = 2}},
        .type = DTYPE_F32};
}

/* The sum of the FLOPs of all shapes is known: it was computed from DeepBench's own file. */
static void test_problems(void **state)
{
    (void)state;
    double flops = 0;
    for (int i = 0; i < DEEPBENCH_CONVS; i++) {
        struct op_desc d = conv_deepbench_desc(&deepbench_conv[i], DTYPE_F32, 0);
        assert_true(d.t[ROLE_Y].dim[2] > 0 && d.t[ROLE_Y].dim[3] > 0);
        flops += op_flops(&d);
    }
    assert_true(flops == 562504360960);
    struct op_desc d = conv_deepbench_desc(&deepbench_conv[0], DTYPE_F32, 0);
    assert_int_equal(d.t[ROLE_Y].dim[2], (161 - 5) / 2 + 1);
    assert_int_equal(d.t[ROLE_Y].dim[3], (700 - 20) / 2 + 1);
    assert_int_equal(deepbench_sum[DEEPBENCH_SUMS - 1], 64500000);
}

static void test_types(void **state)
{
    (void)state;
    struct op_desc d = conv_deepbench_desc(&odd[0], DTYPE_F16, 2);
    assert_true(d.t[ROLE_DY].type == DTYPE_F16 && d.t[ROLE_X].type == DTYPE_F16);
    assert_int_equal(d.t[ROLE_DW].type, DTYPE_F32);
    d = conv_deepbench_desc(&odd[0], DTYPE_TF32, 1);
    assert_true(d.t[ROLE_DY].rounds == DTYPE_TF32 && d.t[ROLE_W].rounds == DTYPE_TF32);
    assert_int_equal(d.t[ROLE_DX].rounds, DTYPE_F32);
}

static void test_values(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    for (size_t k = 0; k < 2 * (sizeof odd / sizeof *odd); k++) {
        struct conv_deepbench_config c = quick(devices[k % 2]);
        struct conv_deepbench_row row;
        struct device *dev;
        struct stream *s;
        assert_int_equal(device_open(c.options.devices, c.options.threads, &dev), STATUS_OK);
        assert_int_equal(dev->backend->stream_open(dev, &s), STATUS_OK);
        assert_int_equal(conv_deepbench_measure(&c, s, 0, &odd[k / 2], &row), STATUS_OK);
        for (int i = 0; i < CONV_PASSES; i++) {
            assert_true(row.pass[i].measured && row.pass[i].time.n == 2);
            assert_int_equal(row.pass[i].wrong, 0);
        }
        assert_int_equal(conv_deepbench_measure(&c, s, 0.001, &odd[k / 2], &row), STATUS_OK);
        assert_non_null(strstr(row.why, "it needs "));
        for (int i = 0; i < CONV_PASSES; i++)
            assert_false(row.pass[i].measured);
        dev->backend->stream_close(s);
        device_close(dev);
    }
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
        struct op_desc d = conv_deepbench_desc(&odd[0], DTYPE_F32, pass);
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

static char *print(struct conv_deepbench_config c, struct conv_deepbench_row *row,
                   const struct peaks *peaks)
{
    char *text;
    size_t size;
    c.options.out = open_memstream(&text, &size);
    struct conv_deepbench_report r = {.config = &c, .device = "a device", .peaks = *peaks};
    conv_deepbench_begin(&r);
    conv_deepbench_row(&r, row);
    assert_int_equal(conv_deepbench_end(&r), STATUS_OK);
    fclose(c.options.out);
    return text;
}

/* 2e9 FLOPs in 1 ms are a quarter of the peak of 8e12 FLOP/s. The third pass was left out. */
static void test_report(void **state)
{
    (void)state;
    const struct peaks peaks = {.flops_per_s = {[DTYPE_F32] = 8e12}};
    struct conv_deepbench_row row = {.conv = &odd[0]};
    struct conv_deepbench_config c = quick("ref");
    for (int i = 0; i < 2; i++)
        row.pass[i] = (struct conv_deepbench_pass){
            .measured = true, .flops = 2e9, .time = {.n = 5, .median = 1e-3}, .wrong = i};
    snprintf(row.pass[2].why, sizeof row.pass[2].why, "too large");
    char *text = print(c, &row, &peaks);
    assert_non_null(strstr(text,
                           "  11    7     3   2     8   5   2  0  0  2  1      1000.0    "
                           "2.000  0.250        1000.0    2.000  0.250           n/a      n/a "
                           "   n/a         n/a      1\n"));
    assert_non_null(strstr(text, "bwd_params left out: too large\n"));
    assert_non_null(strstr(text, "1 convolutions, 1 passes left out, 1 elements wrong"));
    free(text);
    c.options.format = BENCH_CSV;
    text = print(c, &row, &peaks);
    assert_non_null(strstr(text, "\nfwd,11,7,3,2,8,5,2,0,0,2,1,fp32,5,0.001,0,0,2e+12,0\n"));
    free(text);
    c.options.format = BENCH_JSON;
    text = print(c, &row, &peaks);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    assert_int_equal(json_integer_value(json_object_get(o, "schema")), CONV_DEEPBENCH_SCHEMA);
    const json_t *first = json_array_get(json_object_get(o, "rows"), 0);
    const json_t *fwd = json_object_get(first, "fwd");
    assert_true(json_real_value(json_object_get(fwd, "share_of_peak")) == 0.25);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(first, "bwd_params"), "left_out")),
        "too large");
    json_decref(o);
    free(text);
}

/* The table is printed with its wrong rows before the command fails. */
static void test_run(void **state)
{
    (void)state;
    struct conv_deepbench_config c = quick("cpu");
    c.options.out = fopen("/dev/null", "w");
    assert_int_equal(bench_conv_deepbench(&c, 1, odd), STATUS_OK);
    c.options.peak = "/nonexistent";
    assert_int_not_equal(bench_conv_deepbench(&c, 1, odd), STATUS_OK);
    fclose(c.options.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problems), cmocka_unit_test(test_types),
        cmocka_unit_test(test_values),   cmocka_unit_test(test_wrong_is_seen),
        cmocka_unit_test(test_report),   cmocka_unit_test(test_groups_and_bias),
        cmocka_unit_test(test_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
