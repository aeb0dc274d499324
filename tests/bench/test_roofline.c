/* Tests the bytes and bounds of operations, and peaks that are written, read and refused. */
#include "bench/roofline.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The peaks of a device, in round numbers. Its cache has 1000 bytes and ten times the bandwidth of
 * its memory. */
static const struct peaks round_peaks = {
    .device = "a device",
    .n_copies = 4,
    .copy = {{100, 5}, {1000, 100}, {10000, 10}, {100000, 12}},
    .flops_per_s = {[DTYPE_F32] = 50, [DTYPE_F16] = 800},
};

/* 2 images, 3 input and 5 output channels, 4 x 4 pixels, kernel 3 x 3. */
static struct op_desc conv(enum op_kind kind, enum dtype type)
{
    struct op_desc d = {.kind = kind, .attr.conv = {{1, 1}, {1, 1}, 1, false}};
    d.t[kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X] = tensor_4d(type, LAYOUT_NHWC, 2, 3, 4, 4);
    d.t[kind == OP_CONV_FWD ? ROLE_Y : ROLE_DY] = tensor_4d(type, LAYOUT_NHWC, 2, 5, 4, 4);
    if (kind == OP_CONV_BWD_WEIGHTS)
        d.t[ROLE_DW] = tensor_4d(DTYPE_F32, LAYOUT_NHWC, 5, 3, 3, 3);
    else
        d.t[ROLE_W] = tensor_4d(type, LAYOUT_NHWC, 5, 3, 3, 3);
    return d;
}

static void test_bytes(void **state)
{
    enum { X = 2 * 3 * 16, Y = 2 * 5 * 16, W = 5 * 3 * 9 }; /* elements of conv() */
    struct op_desc d = conv(OP_CONV_FWD, DTYPE_F32);
    assert_true(roofline_bytes(&d) == 4 * (X + Y + W));
    d = conv(OP_CONV_BWD_DATA, DTYPE_F16);
    assert_true(roofline_bytes(&d) == 2 * (X + Y + W));
    d = conv(OP_CONV_BWD_WEIGHTS, DTYPE_F16);
    assert_true(roofline_bytes(&d) == 2 * (X + Y) + 4 * W);
    struct op_desc strided = {.kind = OP_ADD_STRIDED, .attr.grid.stride = {2, 2}};
    strided.t[ROLE_X] = tensor_4d(DTYPE_F16, LAYOUT_NHWC, 2, 8, 3, 3);
    strided.t[ROLE_Y] = tensor_4d(DTYPE_F16, LAYOUT_NHWC, 2, 8, 6, 6);
    assert_true(roofline_bytes(&strided) == 3 * 2 * (2 * 8 * 9));
    /* The optimizer reads and writes weights and momentum. Each segment has its gradients in one of
     * two buffers, and only the bytes in that buffer are counted. */
    struct sgd_segment segment[] = {{.end = 60}, {.begin = 60, .end = 100}};
    struct op_desc sgd = {.kind = OP_SGD, .attr.sgd = {.n_segments = 2, .segment = segment}};
    sgd.t[ROLE_W] = sgd.t[ROLE_DW] = sgd.t[ROLE_MOMENTUM] = tensor_1d(DTYPE_F32, 100);
    assert_true(roofline_bytes(&sgd) == 100 * 5 * 4);
    sgd.t[ROLE_WCOPY] = sgd.t[ROLE_DW_HALF] = tensor_1d(DTYPE_F16, 100);
    segment[1].half = true;
    assert_true(roofline_bytes(&sgd) == 100 * (4 * 4 + 2) + 60 * 4 + 40 * 2);
}

/* Along an axis of 4 pixels, a kernel of 3 with padding 1 is on 2, 3, 3 and 2 pixels. With stride 2
 * on 5 pixels, it is on 2, 3 and 2; without padding, on 3 and 3. */
static void test_flops(void **state)
{
    static const enum op_kind kinds[] = {OP_CONV_FWD, OP_CONV_BWD_DATA, OP_CONV_BWD_WEIGHTS};
    struct op_desc d;
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        d = conv(kinds[i], DTYPE_F16);
        assert_true(fabs(roofline_flops(&d) - 2.0 * 2 * 3 * 5 * 10 * 10) < 1e-9);
    }
    d = conv(OP_CONV_FWD, DTYPE_F32);
    d.attr.conv = (struct conv_attr){.stride = {2, 2}, .pad = {1, 0}, .groups = 1};
    d.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_NHWC, 2, 3, 5, 5);
    d.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_NHWC, 2, 5, 3, 2);
    assert_true(fabs(roofline_flops(&d) - 2.0 * 2 * 3 * 5 * 7 * 6) < 1e-9);
    struct op_desc linear = {.kind = OP_LINEAR_FWD};
    linear.t[ROLE_X] = tensor_2d(DTYPE_F32, 2, 3);
    linear.t[ROLE_W] = tensor_2d(DTYPE_F32, 5, 3);
    linear.t[ROLE_Y] = tensor_2d(DTYPE_F32, 2, 5);
    assert_true(roofline_flops(&linear) == 2.0 * 2 * 3 * 5);
}

/* The time of a small copy is mostly launch time, so its bandwidth is not a bound. */
static void test_bandwidth(void **state)
{
    static const double cases[][2] = {{1, 100}, {1000, 100}, {1001, 12}, {20000, 12}, {1e9, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(roofline_bandwidth(&round_peaks, cases[i][0]) == cases[i][1]);
}

static void test_types(void **state)
{
    struct peaks p = round_peaks;
    struct op_desc d = conv(OP_CONV_FWD, DTYPE_F32);
    assert_int_equal(roofline_type(&p, &d), DTYPE_F32);
    d.t[ROLE_X].rounds = DTYPE_F16; /* emulated: computed in fp32 */
    assert_int_equal(roofline_type(&p, &d), DTYPE_F32);
    d.t[ROLE_X].rounds = DTYPE_TF32; /* computed in TF32 only if the device has a TF32 peak */
    assert_int_equal(roofline_type(&p, &d), DTYPE_F32);
    p.flops_per_s[DTYPE_TF32] = 400;
    assert_int_equal(roofline_type(&p, &d), DTYPE_TF32);
    d = conv(OP_CONV_BWD_WEIGHTS, DTYPE_F16); /* stored in fp32, computed in fp16 */
    assert_int_equal(roofline_type(&p, &d), DTYPE_F16);
}

static void test_bounds(void **state)
{
    struct op_desc d = conv(OP_CONV_FWD, DTYPE_F32);
    double flops = 2.0 * 2 * 5 * 16 * 3 * 9, bytes = roofline_bytes(&d);
    struct bound b = roofline_bound(&round_peaks, &d, op_flops(&d));
    assert_true(b.compute && b.seconds == b.compute_s);
    assert_true(fabs(b.compute_s - flops / 50) < 1e-9);
    assert_true(fabs(b.memory_s - bytes / 12) < 1e-9);
    d = conv(OP_CONV_FWD, DTYPE_F16); /* fewer than 1000 bytes: all tensors fit in the cache */
    b = roofline_bound(&round_peaks, &d, op_flops(&d));
    assert_true(fabs(b.memory_s - roofline_bytes(&d) / 100) < 1e-9);
    struct op_desc add = {.kind = OP_ADD};
    add.t[ROLE_X] = add.t[ROLE_Z] = add.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_NHWC, 9, 8, 8, 8);
    b = roofline_bound(&round_peaks, &add, op_flops(&add));
    assert_true(!b.compute && b.compute_s == 0 && b.seconds == b.memory_s);
    d = conv(OP_CONV_FWD, DTYPE_BF16); /* a type without a measured peak */
    assert_true(isnan(roofline_bound(&round_peaks, &d, op_flops(&d)).seconds));
    const struct peaks nothing = {0};
    assert_true(isnan(roofline_bound(&nothing, &add, op_flops(&add)).seconds));
}

/* Data may lie in a faster cache than a copy of twice its size, but in none that was not measured.
 */
static void test_highest(void **state)
{
    static const struct peaks p = {.n_copies = 3,
                                   .copy = {{.bytes = 4, .bytes_per_s = 9}, {16, 5}, {64, 1}}};
    (void)state;
    assert_true(roofline_bandwidth(&p, 20) == 1 && roofline_highest(&p, 20) == 5);
    assert_true(roofline_highest(&p, 4) == 9 && roofline_highest(&p, 64) == 1);
    assert_true(roofline_highest(&p, 1000) == 1 && isinf(roofline_highest(&p, 3)));
}

static enum status read_text(const char *dir, const char *text, struct peaks *p)
{
    char path[SCRATCH_MAX + 16];
    snprintf(path, sizeof path, "%s/peak.json", dir);
    scratch_write(dir, "peak.json", text, strlen(text));
    return peaks_read(path, p);
}

static void test_round_trip(void **state)
{
    struct peaks p;
    struct peaks disturbed = round_peaks;
    disturbed.noise[DTYPE_F32] = (struct host_noise){.seconds = 2, .processors = 2, .others = 0.6};
    disturbed.copy[1].noise = disturbed.noise[DTYPE_F32];
    json_t *o = peaks_json(&disturbed);
    char *text = json_dumps(o, 0);
    assert_int_equal(read_text(*state, text, &p), STATUS_OK);
    assert_string_equal(p.device, "a device");
    assert_int_equal(p.n_copies, 4);
    assert_memory_equal(p.copy, disturbed.copy, sizeof p.copy);
    assert_true(p.noise[DTYPE_F32].others == 0.6);
    assert_memory_equal(p.flops_per_s, round_peaks.flops_per_s, sizeof p.flops_per_s);
    free(text);
    json_decref(o);
}

/* The fuzzer of records (tests/fuzz) reads damaged ones. Unknown types are ignored. */
static void test_wrong(void **state)
{
#define HEAD "{\"schema\":1,\"bench\":\"peak\",\"copy\":"
#define COPY "[{\"bytes\":1,\"bytes_per_s\":9}]"
    static const char *const cases[] = {
        "",
        "[]",
        "{\"bench\":\"step\"}",
        "{\"bench\":\"peak\",\"schema\":2}",
        HEAD "[]}",
        HEAD "3}",
        HEAD "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
        HEAD "[1]}",
        HEAD "[{\"bytes\":1,\"bytes_per_s\":0}]}",
        HEAD COPY ",\"flops\":[{\"type\":\"fp32\"}]}",
    };
    struct peaks p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(read_text(*state, cases[i], &p), STATUS_DATA);
    assert_int_equal(read_text(*state, HEAD COPY ",\"flops\":[{\"type\":\"fp8\"},7]}", &p),
                     STATUS_OK);
    json_t *old = peaks_json(&p); /* a file without noise says nothing of it */
    assert_null(json_object_get(json_array_get(json_object_get(old, "copy"), 0), "noise"));
    json_decref(old);
    assert_int_not_equal(peaks_read("/nonexistent", &p), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_flops),
        cmocka_unit_test(test_bandwidth), cmocka_unit_test(test_types),
        cmocka_unit_test(test_bounds),    cmocka_unit_test(test_highest),
        IN_FOLDER(test_round_trip),       IN_FOLDER(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
