/* Compares operations in narrow precision with known values: the optimizer, the finite check,
 * labels, and a tensor in an opaque layout. Each test runs on the reference and on the CPU backend.
 */
#include "base/half.h"
#include "tests/kernels/known.h"
#include "verify/describe.h"

#include <float.h>

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

/* A tensor in an opaque layout of the library is rounded like any other tensor. */
static void opaque_tensors_are_rounded(void **state)
{
    static const struct conv_shape shape = {2, 24, 9, 9, 40, {3, 3}, {1, 1}, {1, 1}, 1};
    struct op_desc conv = describe_conv(OP_CONV_FWD, &shape, 0), d = {.kind = OP_ROUND};
    struct op_plan *plan;
    struct operands o;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (conv.t[r].ndim)
            conv.t[r] = in_layout(conv.t[r], LAYOUT_ANY);
    expect_ok(op_plan(*state, &conv, &plan));
    d.t[ROLE_X] = d.t[ROLE_Y] = plan->desc.t[ROLE_W];
    op_plan_free(plan);
    if (d.t[ROLE_X].layout != LAYOUT_OPAQUE)
        skip(); /* the library uses no opaque layout for these weights */
    d.t[ROLE_Y].rounds = DTYPE_F16;
    expect_ok(operands_new(&d, &o));
    int64_t n = operand_count(&d, ROLE_X);
    for (int64_t i = 0; i < n; i++)
        operand_f32(&o, ROLE_X)[i] = (float)(i + 1) / 7;
    expect_ok(run_once(*state, &d, &o));
    for (int64_t i = 0; i < n; i++)
        assert_true(operand_f32(&o, ROLE_Y)[i] == round_f16((float)(i + 1) / 7));
    operands_free(&o);
}

/* One step from V = 0 with a learning rate of 1/4, without weight decay. The gradients are 1.0001
 * (rounded to 1 in fp16 and bf16), 2^-25 (rounded to 0 in fp16), and 2^-14. The third weight
 * changes by 2^-16, which fp16 weights lose. */
static void optimizer(void **state)
{
    static const double rest = 1 - 0x1p-16; /* 1 - 2^-14 / 4 */
    const struct {
        struct sgd_segment segment;
        struct known_values out[3];
    } table[] = {
        /* O1: fp32 weights, cast. */
        {{0, 3, 0, DTYPE_F16, DTYPE_F32, DTYPE_F16},
         {VALUES(ROLE_W, 0.75, 0.5, rest), VALUES(ROLE_MOMENTUM, 1, 0, 0x1p-14),
          VALUES(ROLE_WCOPY, 0.75, 0.5, 1)}},
        /* O3: all fp16. */
        {{0, 3, 0, DTYPE_F16, DTYPE_F16, DTYPE_F16},
         {VALUES(ROLE_W, 0.75, 0.5, 1), VALUES(ROLE_MOMENTUM, 1, 0, 0x1p-14),
          VALUES(ROLE_WCOPY, 0.75, 0.5, 1)}},
        /* In bf16, 2^-25 is not rounded to 0. */
        {{0, 3, 0, DTYPE_BF16, DTYPE_F32, DTYPE_BF16},
         {VALUES(ROLE_W, 0.75, 0.5, rest), VALUES(ROLE_MOMENTUM, 1, 0x1p-25, 0x1p-14),
          VALUES(ROLE_WCOPY, 0.75, 0.5, 1)}},
        /* In TF32, only the copies are rounded. */
        {{0, 3, 0, DTYPE_F32, DTYPE_F32, DTYPE_TF32},
         {VALUES(ROLE_W, 0.749975, 0.5, rest), VALUES(ROLE_MOMENTUM, 1.0001, 0x1p-25, 0x1p-14),
          VALUES(ROLE_WCOPY, 0.75, 0.5, 1)}},
    };
    for (int i = 0; i < COUNT(table); i++) {
        struct sgd_attr attr = {.n_segments = 1, .segment = &table[i].segment};
        struct known row = {
            .d = describe_sgd(3, &attr),
            .in = {VALUES(ROLE_W, 1, 0.5, 1), VALUES(ROLE_DW, 1.0001, 0x1p-25, 0x1p-14)},
            .state = {.lr = 0.25f, .grad_scale = 1}};
        row.d.t[ROLE_WCOPY] = row.d.t[ROLE_W];
        memcpy(row.out, table[i].out, sizeof table[i].out);
        known_check(*state, &row);
    }
}

/* A skipped step does not even round: the values are none that the types can represent. */
static void skipped_steps(void **state)
{
    static const struct sgd_segment whole = {0, 20, 0.1f, DTYPE_F16, DTYPE_F16, DTYPE_F16};
    static const struct sgd_attr attr = {.momentum = 0.9f, .n_segments = 1, .segment = &whole};
    double kept[20], lost[20];
    for (int i = 0; i < 20; i++) {
        kept[i] = (double)((float)i + 0.0001f);
        lost[i] = (double)INFINITY;
    }
    struct known row = {
        .d = describe_sgd(20, &attr),
        .in = {{ROLE_DW, 20, lost}, {ROLE_W, 20, kept}, {ROLE_MOMENTUM, 20, kept}},
        .out = {{ROLE_W, 20, kept}, {ROLE_MOMENTUM, 20, kept}, {ROLE_WCOPY, 20, kept}},
        .state = {.lr = 1, .grad_scale = 1, .found_inf = 1}};
    row.d.t[ROLE_WCOPY] = row.d.t[ROLE_W];
    row.in[3] = row.out[2];
    known_check(*state, &row);
}

enum { CHECKED = 1000 };

/* Runs the finite check on a buffer of ones with `value` at `place`, and returns found_inf. Each
 * third of the buffer is a segment; the middle one has the type `gradient`. found_inf is `before`
 * when the check begins. */
static int found(struct device *dev, float value, int place, enum dtype gradient, int before)
{
    struct sgd_segment third[3] = {{0, 333, 0}, {333, 666, 0, gradient}, {666, CHECKED, 0}};
    struct op_desc d = describe_check_finite(CHECKED, 3, third);
    struct operands o;
    expect_ok(operands_new(&d, &o));
    for (int i = 0; i < CHECKED; i++)
        operand_f32(&o, ROLE_DW)[i] = 1;
    operand_f32(&o, ROLE_DW)[place] = value;
    *operand_state(&o) = (struct step_state){
        .seed = 1, .step = 2, .lr = 4, .loss_scale = 5, .grad_scale = 6, .found_inf = before};
    expect_ok(run_once(dev, &d, &o));
    struct step_state after = *operand_state(&o);
    operands_free(&o);
    assert_true(after.seed == 1 && after.step == 2 && after.lr == 4);
    assert_true(after.loss_scale == 5 && after.grad_scale == 6);
    return after.found_inf;
}

static void finite_checks(void **state)
{
    static const struct {
        float value;
        int f32, f16, bf16;
    } table[] = {
        {0, 0, 0, 0},       {65519.99f, 0, 0, 0},       {65520, 0, 1, 0},
        {-65520, 0, 1, 0},  {0x1.fefffep127f, 0, 1, 0}, {0x1.ffp127f, 0, 1, 1},
        {FLT_MAX, 0, 1, 1}, {0x1p-149f, 0, 0, 0},       {-INFINITY, 1, 1, 1},
        {NAN, 1, 1, 1},
    };
    for (int i = 0; i < COUNT(table); i++) {
        assert_int_equal(found(*state, table[i].value, 400, DTYPE_F32, 0), table[i].f32);
        assert_int_equal(found(*state, table[i].value, 400, DTYPE_F16, 0), table[i].f16);
        assert_int_equal(found(*state, table[i].value, 400, DTYPE_BF16, 0), table[i].bf16);
        /* the segments before and after are fp32 */
        assert_int_equal(found(*state, table[i].value, 332, DTYPE_F16, 0), table[i].f32);
        assert_int_equal(found(*state, table[i].value, 666, DTYPE_F16, 0), table[i].f32);
    }
    /* The value must be found at every place, whatever the previous result was. */
    static const int place[] = {0, 1, 15, 16, 331, 333, 500, 665, 997, 998, 999};
    for (int i = 0; i < COUNT(place); i++) {
        assert_int_equal(found(*state, NAN, place[i], DTYPE_F16, 0), 1);
        assert_int_equal(found(*state, -INFINITY, place[i], DTYPE_F16, 1), 1);
        assert_int_equal(found(*state, 2, place[i], DTYPE_F16, 1), 0);
    }
}

/* A label that is not the index of a class is refused, and nothing is written. */
static void labels_that_are_no_class(void **state)
{
    static const int32_t labels[][2] = {{3, 0}, {0, 3}, {2, INT32_MAX}};
    struct op_desc d = describe_xent(2, 3, 0, WITH(DX));
    for (int i = 0; i < COUNT(labels); i++) {
        struct operands o;
        expect_ok(operands_new(&d, &o));
        memcpy(o.p[ROLE_LABEL], labels[i], sizeof labels[i]);
        assert_int_equal(run_once(*state, &d, &o), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "the network has 3 classes"));
        operands_free(&o);
    }
}

/* --- the loss scaler --- */

static const struct scaler_rule rule = {
    .dynamic = true, .growth = 2, .backoff = 0.5, .interval = 3, .max = 16, .min = 1};

/* Executes an operation of the loss scaler. For ref and cpu, the devices' memory is host memory. */
static void execute(struct device *dev, const struct op_desc *d, struct step_state *at,
                    struct scaler_state *scaler)
{
    void *const arg[ROLE_COUNT] = {[ROLE_STATE] = at, [ROLE_SCALER] = scaler};
    struct op_plan *plan;
    expect_ok(op_plan(dev, d, &plan));
    assert_int_equal(plan->workspace, 0);
    expect_ok(op_execute(plan, arg, NULL));
    op_plan_free(plan);
}

static void assert_state(const struct step_state *got, const struct step_state *want)
{
    assert_int_equal(got->seed, want->seed);
    assert_int_equal(got->step, want->step);
    assert_int_equal(got->sample0, want->sample0);
    assert_true(got->divisor == want->divisor && got->share == want->share);
    assert_true(got->lr == want->lr && got->loss_scale == want->loss_scale);
    assert_true(got->grad_scale == want->grad_scale);
    assert_int_equal(got->found_inf, want->found_inf);
}

/* Tests loss scales that are not powers of two, and gradient factors other than 1. */
static void scale_set(void **state)
{
    static const double scales[] = {65536, 3, 1e-3, 1.0 / 3, 16777217};
    const struct op_desc set = {.kind = OP_SCALE_SET};
    for (int i = 0; i < COUNT(scales); i++) {
        struct step_state got = {.seed = 1,
                                 .step = 2,
                                 .sample0 = 3,
                                 .divisor = 6,
                                 .share = 0.4f,
                                 .lr = 0.5f,
                                 .loss_scale = -1,
                                 .grad_scale = -1,
                                 .found_inf = 7};
        struct step_state want = got;
        struct scaler_state scaler = {.scale = scales[i]};
        float scale = (float)scales[i];
        want.loss_scale = scale * 0.4f;
        want.grad_scale = (float)(1 / ((double)scale * 6));
        execute(*state, &set, &got, &scaler);
        assert_state(&got, &want);
        assert_true(scaler.scale == scales[i]);
    }
}

/* Compares with the host's state machine. In the string, X is an overflow. The scale grows to its
 * maximum, falls to its minimum, and stays there. */
static void scale_update(void **state)
{
    const struct op_desc update = {.kind = OP_SCALE_UPDATE, .attr.scaler = rule};
    struct scaler_state want = {.scale = 8}, got = want;
    for (const char *step = ".....X..X.........XXXXX.X..."; *step; step++) {
        struct step_state before = {.lr = 2, .found_inf = *step == 'X'}, after = before;
        execute(*state, &update, &after, &got);
        assert_state(&after, &before);
        scaler_advance(&rule, &want, *step == 'X');
        assert_true(got.scale == want.scale);
        assert_int_equal(got.clean, want.clean);
        assert_int_equal(got.skipped, want.skipped);
        assert_int_equal(got.collapsed, want.collapsed);
    }
    assert_true(want.scale == 1 && want.collapsed == 1 && want.skipped == 7);
}

#define ON_BOTH(test)                                                                              \
    cmocka_unit_test_setup_teardown(test, open_ref, rig_group_teardown),                           \
        cmocka_unit_test_setup_teardown(test, open_cpu, rig_group_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(optimizer),
        ON_BOTH(skipped_steps),
        ON_BOTH(finite_checks),
        ON_BOTH(labels_that_are_no_class),
        ON_BOTH(scale_set),
        ON_BOTH(scale_update),
        cmocka_unit_test_setup_teardown(opaque_tensors_are_rounded, open_cpu, rig_group_teardown),
    };
    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
