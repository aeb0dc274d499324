/* Tests the choice of one plan for a described convolution: the accepted engines, shapes for which
 * the heuristics return other engines, the choice by time, and the use of the cache. The clock is a
 * fake. */
#include "described_gpu.h"
#include "kernels/cuda/conv_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct plan_limits limits = {.workspace = (size_t)1 << 30, .plans = PLANS_MAX};

static struct op_desc conv_desc(enum dtype type, int64_t channels)
{
    struct op_desc d = {.kind = OP_CONV_FWD};
    d.t[ROLE_X] = tensor_4d(type, LAYOUT_NHWC, 64, channels, 28, 28);
    d.t[ROLE_W] = tensor_4d(type, LAYOUT_ANY, 64, channels, 3, 3);
    d.t[ROLE_Y] = tensor_4d(type, LAYOUT_ANY, 64, 64, 28, 28);
    d.attr.conv = (struct conv_attr){.stride = {1, 1}, .pad = {1, 1}, .groups = 1};
    return d;
}

/* ---- descriptions ---- */

static void test_problem(void **state)
{
    struct conv_problem p;
    unsigned rest;
    char text[CONV_TEXT_MAX];
    (void)state;
    struct op_desc d = conv_desc(DTYPE_F16, 64);
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(rest, 0);
    conv_problem_text(&p, text, sizeof text);
    assert_string_equal(text, "fwd fp16 n64 c64 h28 w28 k64 r3x3 s1x1 p1x1 g1");

    d = conv_desc(DTYPE_F32, 3);
    d.t[ROLE_X].rounds = d.t[ROLE_W].rounds = DTYPE_TF32;
    d.t[ROLE_B] = tensor_1d(DTYPE_F32, 64);
    d.attr.conv.relu = true;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(rest, CONV_REST_BIAS | CONV_REST_RELU | CONV_REST_PAD);
    conv_problem_text(&p, text, sizeof text);
    assert_string_equal(text, "fwd tf32 n64 c4 h28 w28 k64 r3x3 s1x1 p1x1 g1");

    d = conv_desc(DTYPE_BF16, 64);
    d.kind = OP_CONV_BWD_WEIGHTS;
    d.t[ROLE_DW] = d.t[ROLE_W];
    d.t[ROLE_DY] = d.t[ROLE_Y];
    d.t[ROLE_W].ndim = d.t[ROLE_Y].ndim = 0;
    d.t[ROLE_DB] = tensor_1d(DTYPE_F32, 64);
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(rest, CONV_REST_DB);
    assert_int_equal(p.form, CONV_BWD_WEIGHTS);
    d.t[ROLE_DW].type = DTYPE_F32; /* kernels/ops.h requires DW in fp32; the problem has X's type */
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(p.type, DTYPE_BF16);
}

/* A convolution with 32 groups of 2 channels. The weights have 2 input channels, and no channel is
 * padded. The choice of the plan must differ from the choice for one group. */
static void test_groups(void **state)
{
    struct cudnn_device dev;
    struct conv_problem p;
    struct conv_plan grouped, whole;
    unsigned rest;
    (void)state;
    struct op_desc d = conv_desc(DTYPE_F16, 64);
    d.t[ROLE_W] = tensor_4d(DTYPE_F16, LAYOUT_NHWC, 64, 2, 3, 3);
    d.attr.conv.groups = 32;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(rest, 0);
    described_gpu_open("h200", &dev);
    assert_int_equal(conv_plan_open(&dev, &p, &limits, NULL, NULL, &grouped), STATUS_OK);
    p.conv.groups = 1;
    assert_int_equal(conv_plan_open(&dev, &p, &limits, NULL, NULL, &whole), STATUS_OK);
    assert_false(plan_choice_same(&grouped.plan.choice, &whole.plan.choice));
    conv_plan_close(&grouped);
    conv_plan_close(&whole);
    described_gpu_close(&dev);
}

static void test_refused(void **state)
{
    struct conv_problem p;
    unsigned rest;
    (void)state;
    struct op_desc d = conv_desc(DTYPE_F16, 64);
    d.t[ROLE_X] = tensor_4d(DTYPE_F16, LAYOUT_PLAIN, 64, 64, 28, 28);
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_UNSUPPORTED);
    d = conv_desc(DTYPE_F16, 64);
    d.t[ROLE_Y].type = DTYPE_F32;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_UNSUPPORTED);
    d = conv_desc(DTYPE_F16, 3);
    d.t[ROLE_X].layout =
        LAYOUT_OPAQUE; /* an opaque X must have four channels in memory; eight are refused */
    d.t[ROLE_X].opaque = 8;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_UNSUPPORTED);
    d.t[ROLE_X].opaque = 4;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    d = conv_desc(DTYPE_F16, 64);
    d.t[ROLE_Y].dim[1] = 63;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_INVALID);
}

/* ---- the clock ---- */

struct clock_double {
    int calls;
    int fastest; /* number of the call that measures the least time; -1: no plan can be executed */
    int broken;  /* number of the call at which the clock fails; -1: none */
    int64_t engine; /* engine of the fastest plan */
    size_t knobs;
};

static enum status pretend(void *context, const struct cudnn_plan *plan, double *seconds)
{
    struct clock_double *c = context;
    int call = c->calls++;
    assert_non_null(plan->desc.raw);
    if (call == c->broken)
        return status_fail(STATUS_LIBRARY, "the clock stopped");
    if (c->fastest < 0 || call == 1) /* plans that cannot be executed */
        return status_fail(STATUS_UNSUPPORTED, "not on this GPU");
    *seconds = call == c->fastest ? 1e-3 : 2e-3;
    if (call == c->fastest) {
        c->engine = plan->choice.engine;
        c->knobs = (size_t)plan->choice.n_knobs;
    }
    return STATUS_OK;
}

struct rig {
    struct cudnn_device dev;
    struct conv_problem problem;
    struct plan_cache *cache;
};

static void rig_open(struct rig *r)
{
    struct op_desc d = conv_desc(DTYPE_F16, 64);
    unsigned rest;
    described_gpu_open("h200", &r->dev);
    assert_int_equal(conv_problem_of(&d, &r->problem, &rest), STATUS_OK);
    assert_int_equal(plan_cache_open(&r->cache), STATUS_OK);
}

static void rig_close(struct rig *r)
{
    plan_cache_close(r->cache);
    described_gpu_close(&r->dev);
}

static void test_fastest_is_kept(void **state)
{
    struct rig r;
    struct conv_plan plan;
    struct clock_double c = {.fastest = 6, .broken = -1};
    const struct plan_timer timer = {pretend, &c};
    (void)state;
    rig_open(&r);
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, &timer, r.cache, &plan),
                     STATUS_OK);
    assert_int_equal(c.calls, PLANS_MAX);
    assert_int_equal(plan.plan.choice.engine, c.engine);
    assert_int_equal(plan.plan.choice.n_knobs, c.knobs);
    assert_true(plan.seconds == 1e-3);
    assert_false(plan.cached);
    struct plan_choice kept = plan.plan.choice;
    conv_plan_close(&plan);

    /* The cache has a choice for this shape, so no plan is timed again. */
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, &timer, r.cache, &plan),
                     STATUS_OK);
    assert_int_equal(c.calls, PLANS_MAX);
    assert_true(plan.cached && plan_choice_same(&plan.plan.choice, &kept));
    conv_plan_close(&plan);

    /* Under another rule (deterministic plans only), the same shape is timed again. */
    struct plan_limits strict = limits;
    strict.deterministic = true;
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &strict, &timer, r.cache, &plan),
                     STATUS_OK);
    assert_false(plan.cached);
    conv_plan_close(&plan);
    assert_int_equal(plan_cache_count(r.cache), 2);
    rig_close(&r);
}

static void test_useless_choice(void **state)
{
    struct rig r;
    struct conv_plan plan;
    struct clock_double c = {.fastest = 0, .broken = -1};
    const struct plan_timer timer = {pretend, &c};
    const struct plan_choice useless = {.engine = 12345};
    char key[PLAN_KEY_MAX];
    (void)state;
    rig_open(&r);
    conv_plan_key(&r.dev, &r.problem, &limits, key);
    assert_non_null(strstr(key, "NVIDIA H200 sm90 cudnn"));
    assert_int_equal(plan_cache_put(r.cache, key, &useless), STATUS_OK);
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, &timer, r.cache, &plan),
                     STATUS_OK);
    assert_false(plan.cached);
    assert_true(c.calls > 0);
    assert_true(plan_choice_same(plan_cache_find(r.cache, key), &plan.plan.choice));
    conv_plan_close(&plan);
    rig_close(&r);
}

static void test_clock_fails(void **state)
{
    struct rig r;
    struct conv_plan plan;
    struct clock_double c = {.fastest = -1, .broken = -1};
    const struct plan_timer timer = {pretend, &c};
    (void)state;
    rig_open(&r);
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, &timer, r.cache, &plan),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "none of cuDNN's 20 plans can be executed"));
    c = (struct clock_double){.fastest = 3, .broken = 4};
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, &timer, r.cache, &plan),
                     STATUS_LIBRARY);
    assert_int_equal(plan_cache_count(r.cache), 0);

    /* Without a clock the first plan of the heuristics is used, and the cache does not store this
     * choice. */
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, NULL, r.cache, &plan), STATUS_OK);
    assert_non_null(plan.plan.desc.raw);
    assert_int_equal(plan_cache_count(r.cache), 0);
    conv_plan_close(&plan);
    rig_close(&r);
}

static void test_no_plan(void **state)
{
    struct rig r;
    struct conv_plan plan;
    (void)state;
    rig_open(&r);
    r.problem.type = DTYPE_BF16;
    r.problem.form = CONV_BWD_DATA_BN;
    assert_int_equal(conv_plan_open(&r.dev, &r.problem, &limits, NULL, NULL, &plan),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "'dgrad+drelu+bn bf16 n64 "));
    assert_non_null(strstr(status_message(), "no plan on GPU 'NVIDIA H200'"));
    assert_null(plan.graph);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problem),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_groups),         cmocka_unit_test(test_fastest_is_kept),
        cmocka_unit_test(test_useless_choice), cmocka_unit_test(test_clock_fails),
        cmocka_unit_test(test_no_plan),
    };
    cudnn_keep_compiler();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
