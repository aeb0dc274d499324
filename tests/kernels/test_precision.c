/* Compares emulated precision with known values: overflow, ties and underflow; sums that are
 * computed in fp32 and rounded once; the optimizer and the finite check in each precision. Each
 * test runs on the reference and on the CPU backend. If the CPU backend does not support an
 * operation, the test is skipped there. */
#include "tests/kernels/group.h"
#include "tests/kernels/known.h"
#include "verify/describe.h"
#include "verify/precision.h"

#include "base/half.h"

#include <float.h>
#include <stdlib.h>

static int open_device(void **state, const char *spec)
{
    struct device *dev;
    if (device_open(spec, 2, &dev) != STATUS_OK)
        return -1;
    *state = dev;
    return 0;
}

static int open_ref(void **state)
{
    return open_device(state, "ref");
}

static int open_cpu(void **state)
{
    return open_device(state, "cpu");
}

static int close_device(void **state)
{
    device_close(*state);
    return 0;
}

/* Runs `d`. If the device does not support it, the test is skipped. */
static void run_or_skip(struct device *dev, const struct op_desc *d, struct operands *o)
{
    enum status st = run_once(dev, d, o);
    if (st == STATUS_UNSUPPORTED) {
        print_message("%s\n", status_message());
        operands_free(o);
        skip();
    }
    OK(st);
}

static void assert_same_float(float got, float want)
{
    bool same = memcmp(&got, &want, sizeof got) == 0 || (isnan(got) && isnan(want));
    if (!same)
        fail_msg("%a instead of %a", (double)got, (double)want);
}

/* --- rounding --- */

struct rounding {
    float x, f16, bf16, tf32;
};

static const struct rounding roundings[] = {
    {0.0f, 0.0f, 0.0f, 0.0f},
    {-0.0f, -0.0f, -0.0f, -0.0f},
    {0.1f, 0x1.998p-4f, 0x1.9ap-4f, 0x1.998p-4f},
    {-1.0f / 3, -0x1.554p-2f, -0x1.56p-2f, -0x1.554p-2f},
    /* a tie is rounded to even, but in TF32 away from zero */
    {1 + 0x1p-11f, 1, 1, 1 + 0x1p-10f},
    {1 + 0x3p-11f, 1 + 0x1p-9f, 1, 1 + 0x1p-9f},
    {-(1 + 0x1p-8f), -(1 + 0x1p-8f), -1, -(1 + 0x1p-8f)},
    {1 + 0x3p-8f, 1 + 0x3p-8f, 1 + 0x1p-6f, 1 + 0x3p-8f},
    /* the end of fp16 */
    {65504, 65504, 65536, 65504},
    {65519.99f, 65504, 65536, 0x1.ffcp15f},
    {65520, INFINITY, 65536, 65536},
    {-65520, -INFINITY, -65536, -65536},
    {1e6f, INFINITY, 999424, 999936},
    /* subnormals of fp16, and smaller values */
    {0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f},
    {0x1.8p-24f, 0x1p-23f, 0x1.8p-24f, 0x1.8p-24f},
    {0x1p-25f, 0, 0x1p-25f, 0x1p-25f},
    {0x1.000002p-25f, 0x1p-24f, 0x1p-25f, 0x1p-25f},
    {-0x1p-26f, -0.0f, -0x1p-26f, -0x1p-26f},
    /* the ends of fp32 */
    {FLT_MAX, INFINITY, INFINITY, INFINITY},
    {0x1.fefffep127f, INFINITY, 0x1.fep127f, 0x1.ffp127f},
    {0x1p-149f, 0, 0, 0},
    {0x1p-133f, 0, 0x1p-133f, 0x1p-133f},
    {0x1.8p-134f, 0, 0x1p-133f, 0x1.8p-134f},
    {INFINITY, INFINITY, INFINITY, INFINITY},
    {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
    {NAN, NAN, NAN, NAN},
};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

/* The values are repeated, so each one is processed both in a vector and in the remainder. */
enum { REPEATED = 3 * ROUNDINGS };

static float rounded_to(const struct rounding *r, enum dtype type)
{
    return type == DTYPE_F16 ? r->f16 : type == DTYPE_BF16 ? r->bf16 : r->tf32;
}

static void test_round(void **state)
{
    static const enum dtype precision[] = {DTYPE_F16, DTYPE_BF16, DTYPE_TF32};
    for (int k = 0; k < 3; k++) {
        struct op_desc d = describe_like(OP_ROUND, tensor_1d(DTYPE_F32, REPEATED), 0);
        struct operands o;
        d.t[ROLE_Y].rounds = precision[k];
        OK(operands_new(&d, &o));
        for (int i = 0; i < REPEATED; i++)
            operand_f32(&o, ROLE_X)[i] = roundings[i % ROUNDINGS].x;
        run_or_skip(*state, &d, &o);
        for (int i = 0; i < REPEATED; i++)
            assert_same_float(operand_f32(&o, ROLE_Y)[i],
                              rounded_to(&roundings[i % ROUNDINGS], precision[k]));
        operands_free(&o);
    }
}

/* A tensor in an opaque layout of the library is rounded like any other tensor. */
static void test_round_opaque(void **state)
{
    static const struct conv_shape shape = {2, 24, 9, 9, 40, {3, 3}, {1, 1}, {1, 1}, 1};
    struct op_desc conv = describe_conv(OP_CONV_FWD, &shape, 0), d = {.kind = OP_ROUND};
    struct op_plan *plan;
    struct operands o;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (conv.t[r].ndim)
            conv.t[r] = in_layout(conv.t[r], LAYOUT_ANY);
    OK(op_plan(*state, &conv, &plan));
    d.t[ROLE_X] = d.t[ROLE_Y] = plan->desc.t[ROLE_W];
    op_plan_free(plan);
    if (d.t[ROLE_X].layout != LAYOUT_OPAQUE) {
        print_message("the library uses no opaque layout for these weights\n");
        skip();
    }
    d.t[ROLE_Y].rounds = DTYPE_F16;
    OK(operands_new(&d, &o));
    int64_t n = operand_count(&d, ROLE_X);
    for (int64_t i = 0; i < n; i++)
        operand_f32(&o, ROLE_X)[i] = (float)(i + 1) / 7;
    run_or_skip(*state, &d, &o);
    for (int64_t i = 0; i < n; i++)
        assert_same_float(operand_f32(&o, ROLE_Y)[i], round_f16((float)(i + 1) / 7));
    operands_free(&o);
}

/* A ReLU rounds inputs that are marked as unrounded. A gradient passes if the rounded Y is above
 * zero. In fp16, 2^-25 is rounded to zero. */
static void test_raw_inputs(void **state)
{
    struct op_desc d = describe_like(OP_RELU_BWD, tensor_1d(DTYPE_F32, 5), 0);
    struct operands o;
    d.t[ROLE_DY].rounds = d.t[ROLE_Y].rounds = d.t[ROLE_DX].rounds = DTYPE_F16;
    d.t[ROLE_DY].raw = d.t[ROLE_Y].raw = true;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_Y, 1, 0x1p-25f, 0x1.000002p-25f, 0, 1e6f);
    SET(&o, ROLE_DY, 0.1f, 1, 2, 3, -65520);
    run_or_skip(*state, &d, &o);
    static const float want[] = {0x1.998p-4f, 0, 2, 0, -INFINITY};
    for (int i = 0; i < 5; i++)
        assert_same_float(operand_f32(&o, ROLE_DX)[i], want[i]);
    operands_free(&o);
}

/* A sum is kept in fp32 and rounded once: 2048 + 1 + 1 + 1 is 2051, half-way between 2050 and 2052,
 * and is rounded to 2052. If each partial sum were rounded to fp16, the result would be 2048. */
static void test_sums_round_once(void **state)
{
    struct op_desc d = describe_linear(OP_LINEAR_FWD, 1, 4, 2, WITH(B));
    struct operands o;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim)
            d.t[r].rounds = DTYPE_F16;
    OK(operands_new(&d, &o));
    SET(&o, ROLE_X, 2048, 1, 1, 1);
    SET(&o, ROLE_W, 1, 1, 1, 0, 1, 1, 1, 1);
    SET(&o, ROLE_B, 1, 60000);
    run_or_skip(*state, &d, &o);
    float y[2] = {operand_f32(&o, ROLE_Y)[0], operand_f32(&o, ROLE_Y)[1]};
    /* A library may leave its results unrounded. The next operation rounds them. */
    assert_same_float(round_f16(y[0]), 2052);
    assert_same_float(round_f16(y[1]), 62048);
    operands_free(&o);
}

/* Sums of two values in a narrow type, with expected results: ties, overflow, NaN. u is one unit in
 * the last place of 1. */
static void check_narrow_sums(struct device *dev, enum dtype type, float u)
{
    const float largest = type == DTYPE_F16 ? 65504 : 0x1.fep127f;
    const float sums[][3] = {
        {1, u, 1 + u},
        {1, u / 2, 1},
        {1 + u, u / 2, 1 + 2 * u},
        {-1, -u / 2, -1},
        {-1 - u, -u / 2, -1 - 2 * u},
        {largest, largest, INFINITY},
        {largest, largest * u / 4, largest},
        {-largest, -largest, -INFINITY},
        {INFINITY, -INFINITY, NAN},
        {NAN, 1, NAN},
        {0x1p-14f, -0x1p-14f, 0},
    };
    enum { SUMS = sizeof sums / sizeof *sums, N = 3 * SUMS /* vectors and their rest */ };
    struct op_desc d = describe_like(OP_ADD, tensor_1d(type, N), 0), wide = emulated_form(&d);
    struct operands in, narrow, out;
    OK(operands_new(&wide, &in));
    OK(operands_new(&wide, &out));
    for (int i = 0; i < N; i++) {
        operand_f32(&in, ROLE_X)[i] = sums[i % SUMS][0];
        operand_f32(&in, ROLE_Z)[i] = sums[i % SUMS][1];
    }
    OK(operands_narrow(&d, &in, &narrow));
    OK(run_once(dev, &d, &narrow));
    operands_widen(&d, &narrow, &out);
    for (int i = 0; i < N; i++)
        assert_same_float(operand_f32(&out, ROLE_Y)[i], sums[i % SUMS][2]);
    operands_free(&in);
    operands_free(&narrow);
    operands_free(&out);
}

static void test_narrow_tensors(void **state)
{
    check_narrow_sums(*state, DTYPE_F16, 0x1p-10f);
    check_narrow_sums(*state, DTYPE_BF16, 0x1p-7f);
}

/* --- the optimizer --- */

/* One step from V = 0 with a learning rate of 1/4, without weight decay. The gradients are 1.0001
 * (rounded to 1 in fp16 and bf16), 2^-25 (rounded to 0 in fp16), and 2^-14. The third weight
 * changes by 2^-16, which fp16 weights lose. */
static void check_step(struct device *dev, struct sgd_segment segment, const float w[3],
                       const float v[3], const float copy[3])
{
    struct sgd_attr attr = {.n_segments = 1, .segment = &segment};
    struct op_desc d = describe_sgd(3, &attr);
    struct operands o;
    segment.begin = 0;
    segment.end = 3;
    d.t[ROLE_WCOPY] = d.t[ROLE_W];
    OK(operands_new(&d, &o));
    *operand_state(&o) = (struct step_state){.lr = 0.25f, .grad_scale = 1};
    SET(&o, ROLE_W, 1, 0.5f, 1);
    SET(&o, ROLE_DW, 1.0001f, 0x1p-25f, 0x1p-14f);
    run_or_skip(dev, &d, &o);
    for (int i = 0; i < 3; i++) {
        assert_near(operand_f32(&o, ROLE_W)[i], w[i], 1e-7);
        assert_near(operand_f32(&o, ROLE_MOMENTUM)[i], v[i], 1e-7);
        assert_near(operand_f32(&o, ROLE_WCOPY)[i], copy[i], 0);
    }
    operands_free(&o);
}

static void test_sgd_precisions(void **state)
{
    static const float rest = 1 - 0x1p-16f; /* 1 - 2^-14 / 4 */
    /* O1: fp32 weights, cast. */
    check_step(*state, (struct sgd_segment){0, 0, 0, DTYPE_F16, DTYPE_F32, DTYPE_F16},
               (const float[]){0.75f, 0.5f, rest}, (const float[]){1, 0, 0x1p-14f},
               (const float[]){0.75f, 0.5f, 1});
    /* O3: all fp16. */
    check_step(*state, (struct sgd_segment){0, 0, 0, DTYPE_F16, DTYPE_F16, DTYPE_F16},
               (const float[]){0.75f, 0.5f, 1}, (const float[]){1, 0, 0x1p-14f},
               (const float[]){0.75f, 0.5f, 1});
    /* In bf16, 2^-25 is not rounded to 0. */
    check_step(*state, (struct sgd_segment){0, 0, 0, DTYPE_BF16, DTYPE_F32, DTYPE_BF16},
               (const float[]){0.75f, 0.5f, rest}, (const float[]){1, 0x1p-25f, 0x1p-14f},
               (const float[]){0.75f, 0.5f, 1});
    /* In TF32, only the copies are rounded. */
    check_step(*state, (struct sgd_segment){0, 0, 0, DTYPE_F32, DTYPE_F32, DTYPE_TF32},
               (const float[]){0.749975f, 0.5f, rest}, (const float[]){1.0001f, 0x1p-25f, 0x1p-14f},
               (const float[]){0x1.8p-1f, 0.5f, 1});
}

static void test_skipped_step(void **state)
{
    static const struct sgd_segment whole[] = {{0, 20, 0.1f, DTYPE_F16, DTYPE_F16, DTYPE_F16}};
    struct sgd_attr attr = {.momentum = 0.9f, .n_segments = 1, .segment = whole};
    struct op_desc d = describe_sgd(20, &attr);
    struct operands o;
    d.t[ROLE_WCOPY] = d.t[ROLE_W];
    OK(operands_new(&d, &o));
    *operand_state(&o) = (struct step_state){.lr = 1, .grad_scale = 1, .found_inf = 1};
    static const enum role kept[] = {ROLE_W, ROLE_MOMENTUM, ROLE_WCOPY};
    for (int i = 0; i < 20; i++) {
        operand_f32(&o, ROLE_DW)[i] = INFINITY;
        /* a value that the type cannot represent, so rounding would change it */
        for (int k = 0; k < 3; k++)
            operand_f32(&o, kept[k])[i] = (float)(100 * k + i) + 0.0001f;
    }
    run_or_skip(*state, &d, &o);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 3; k++)
            assert_same_float(operand_f32(&o, kept[k])[i], (float)(100 * k + i) + 0.0001f);
    operands_free(&o);
}

/* --- the check --- */

enum { CHECKED = 1000 };

/* Runs the finite check on a buffer of ones with `value` at `place`, and returns found_inf. Each
 * third of the buffer is a segment; the middle one has the type `gradient`. found_inf is `before`
 * when the check begins. */
static int found(struct device *dev, float value, int place, enum dtype gradient, int before)
{
    struct sgd_segment third[3] = {{0, 333, 0}, {333, 666, 0, gradient}, {666, CHECKED, 0}};
    struct op_desc d = describe_check_finite(CHECKED, 3, third);
    struct operands o;
    OK(operands_new(&d, &o));
    for (int i = 0; i < CHECKED; i++)
        operand_f32(&o, ROLE_DW)[i] = 1;
    operand_f32(&o, ROLE_DW)[place] = value;
    *operand_state(&o) = (struct step_state){
        .seed = 1,
        .step = 2,
        .sample0 = 3,
        .lr = 4,
        .loss_scale = 5,
        .grad_scale = 6,
        .found_inf = before,
    };
    run_or_skip(dev, &d, &o);
    struct step_state after = *operand_state(&o);
    operands_free(&o);
    assert_true(after.seed == 1 && after.step == 2 && after.sample0 == 3);
    assert_true(after.lr == 4 && after.loss_scale == 5 && after.grad_scale == 6);
    return after.found_inf;
}

static void test_check_finite(void **state)
{
    static const struct {
        float value;
        int f32, f16, bf16;
    } table[] = {
        {0, 0, 0, 0},           {65504, 0, 0, 0},
        {65519.99f, 0, 0, 0},   {65520, 0, 1, 0},
        {-65520, 0, 1, 0},      {-65519.99f, 0, 0, 0},
        {1e30f, 0, 1, 0},       {0x1.fefffep127f, 0, 1, 0},
        {0x1.ffp127f, 0, 1, 1}, {FLT_MAX, 0, 1, 1},
        {0x1p-149f, 0, 0, 0},   {INFINITY, 1, 1, 1},
        {-INFINITY, 1, 1, 1},   {NAN, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(found(*state, table[i].value, 400, DTYPE_F32, 0), table[i].f32);
        assert_int_equal(found(*state, table[i].value, 400, DTYPE_F16, 0), table[i].f16);
        assert_int_equal(found(*state, table[i].value, 400, DTYPE_BF16, 0), table[i].bf16);
        /* the segments before and after are fp32 */
        assert_int_equal(found(*state, table[i].value, 332, DTYPE_F16, 0), table[i].f32);
        assert_int_equal(found(*state, table[i].value, 666, DTYPE_F16, 0), table[i].f32);
    }
    /* The value must be found at every place, whatever the previous result was. */
    static const int place[] = {0, 1, 15, 16, 331, 333, 500, 665, 997, 998, 999};
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        assert_int_equal(found(*state, NAN, place[i], DTYPE_F16, 0), 1);
        assert_int_equal(found(*state, -INFINITY, place[i], DTYPE_F16, 1), 1);
        assert_int_equal(found(*state, 2, place[i], DTYPE_F16, 1), 0);
    }
}

/* --- labels --- */

/* Both backends must refuse a label that is not the index of a class, in any precision, and write
 * nothing. */
static void test_label_that_is_no_class(void **state)
{
    static const int32_t labels[][2] = {{3, 0}, {0, 3}, {2, INT32_MAX}};
    struct op_desc d = describe_xent(2, 3, 0, WITH(DX));
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        struct operands o;
        OK(operands_new(&d, &o));
        memcpy(o.p[ROLE_LABEL], labels[i], sizeof labels[i]);
        assert_int_equal(run_once(*state, &d, &o), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "the network has 3 classes"));
        operands_free(&o);
    }
}

#define ON_BOTH(test)                                                                              \
    cmocka_unit_test_setup_teardown(test, open_ref, close_device),                                 \
        cmocka_unit_test_setup_teardown(test, open_cpu, close_device)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_round),
        ON_BOTH(test_raw_inputs),
        ON_BOTH(test_sums_round_once),
        ON_BOTH(test_narrow_tensors),
        ON_BOTH(test_sgd_precisions),
        ON_BOTH(test_skipped_step),
        ON_BOTH(test_check_finite),
        ON_BOTH(test_label_that_is_no_class),
        cmocka_unit_test_setup_teardown(test_round_opaque, open_cpu, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
