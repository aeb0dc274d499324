/* Tests plans that cuDNN makes for described GPUs: a stored choice gives the same plan again,
 * limits hold, and the fastest plan is taken. Needs no GPU. */
#include "kernels/cuda/conv_plan.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

static const struct plan_limits all = {.workspace = SIZE_MAX, .plans = PLANS_MAX};

static void open_gpu(const char *name, struct cudnn_device *dev)
{
    struct gpu_description gpu;
    cudnn_keep_compiler();
    assert_int_equal(gpu_description_open(name, &gpu), STATUS_OK);
    assert_int_equal(cudnn_device_describe(&gpu, dev), STATUS_OK);
}

static struct op_desc conv_desc(enum dtype type, int64_t channels, int groups)
{
    struct op_desc d = {.kind = OP_CONV_FWD};
    d.t[ROLE_X] = tensor_4d(type, LAYOUT_NHWC, 64, channels, 28, 28);
    d.t[ROLE_W] = tensor_4d(type, LAYOUT_ANY, 64, channels / groups, 3, 3);
    d.t[ROLE_Y] = tensor_4d(type, LAYOUT_ANY, 64, 64, 28, 28);
    d.attr.conv = (struct conv_attr){.stride = {1, 1}, .pad = {1, 1}, .groups = groups};
    return d;
}

static struct cudnn_graph *conv_graph(const struct cudnn_device *dev, enum dtype type, int groups)
{
    struct op_desc d = conv_desc(type, 64, groups);
    struct conv_problem p;
    struct cudnn_graph *g;
    unsigned rest;
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(rest, 0);
    assert_int_equal(conv_form_graph(dev, &p, &g), STATUS_OK);
    return g;
}

/* --- plans --- */

static void check_again(const struct cudnn_device *dev, int groups)
{
    struct plan_list list;
    struct cudnn_plan plan;
    struct cudnn_graph *g = conv_graph(dev, DTYPE_F16, groups);
    assert_int_equal(plan_list_make(dev, g, &all, &list), STATUS_OK);
    assert_true(list.n > 1);
    for (int i = 0; i < list.n; i++) {
        const struct cudnn_plan *first = &list.plan[i];
        for (int j = 0; j < i; j++)
            assert_false(plan_choice_same(&first->choice, &list.plan[j].choice));
        assert_int_equal(plan_make(dev, g, &first->choice, &all, &plan), STATUS_OK);
        assert_int_equal(plan.workspace, first->workspace);
        assert_int_equal(plan.tensor_cores, first->tensor_cores);
        plan_close(&plan);
    }
    plan_list_close(&list);
    struct plan_choice none = {.engine = 100000};
    assert_int_not_equal(plan_make(dev, g, &none, &all, &plan), STATUS_OK);
    none = (struct plan_choice){.engine = 1, .n_knobs = 1, .knob = {{30000, -5}}};
    assert_int_not_equal(plan_make(dev, g, &none, &all, &plan), STATUS_OK);
    cg_close(g);
}

static void a_choice_gives_the_same_plan_again(void **state)
{
    struct cudnn_device dev;
    open_gpu("h200", &dev);
    check_again(&dev, 1);
    check_again(&dev, 32);
    cudnn_desc_destroy(&dev.props);
}

/* Checks each plan within the limits, and that `other`, which is not within them, is not made. */
static void check_limits(const struct cudnn_device *dev, const struct cudnn_graph *g,
                         const struct plan_limits *limits, const struct plan_choice *other)
{
    struct plan_list list;
    struct cudnn_plan plan;
    assert_int_equal(plan_list_make(dev, g, limits, &list), STATUS_OK);
    assert_in_range(list.n, 1, limits->plans);
    for (int i = 0; i < list.n; i++) {
        assert_true(list.plan[i].workspace <= limits->workspace);
        assert_true(list.plan[i].deterministic || !limits->deterministic);
        assert_false(list.plan[i].tensor_cores && limits->full_fp32);
        assert_false(excluded_engines_has(limits->excluded, list.plan[i].choice.engine));
    }
    plan_list_close(&list);
    if (other)
        assert_int_equal(plan_make(dev, g, other, limits, &plan), STATUS_UNSUPPORTED);
}

static void plans_are_within_the_limits(void **state)
{
    struct cudnn_device dev;
    struct plan_list list;
    open_gpu("a100", &dev);
    struct cudnn_graph *g = conv_graph(&dev, DTYPE_F32, 1);
    struct plan_limits limits = {.workspace = SIZE_MAX, .plans = 3};
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_OK);
    assert_int_equal(list.n, 3);
    assert_true(list.plan[0].tensor_cores); /* TF32 */
    const struct plan_choice tf32 = list.plan[0].choice;
    const struct excluded_engines first = {1, {tf32.engine}};
    plan_list_close(&list);
    check_limits(&dev, g,
                 &(struct plan_limits){.workspace = SIZE_MAX, .full_fp32 = true, .plans = 9},
                 &tf32);
    check_limits(&dev, g,
                 &(struct plan_limits){.workspace = SIZE_MAX, .excluded = &first, .plans = 9},
                 &tf32);
    check_limits(&dev, g, &(struct plan_limits){.deterministic = true, .plans = 9}, NULL);
    limits.plans = PLANS_MAX + 1;
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_INVALID);
    cg_close(g);
    cudnn_desc_destroy(&dev.props);
}

/* --- the choice --- */

/* A clock for which the first plan cannot be executed, and the third is the fastest. */
struct clock_double {
    int calls;
    bool broken;
    struct plan_choice fastest;
};

static enum status pretend(void *context, const struct cudnn_plan *plan, double *seconds)
{
    struct clock_double *c = context;
    int call = c->calls++;
    if (c->broken)
        return status_fail(STATUS_LIBRARY, "the clock stopped");
    if (call == 0)
        return status_fail(STATUS_UNSUPPORTED, "not on this GPU");
    *seconds = call == 2 ? 1e-3 : 2e-3;
    if (call == 2)
        c->fastest = plan->choice;
    return STATUS_OK;
}

static void the_fastest_plan_is_taken_and_kept(void **state)
{
    const struct op_desc d = conv_desc(DTYPE_F16, 64, 1);
    struct cudnn_device dev;
    struct conv_problem p;
    struct conv_plan plan;
    struct plan_cache *cache;
    struct clock_double c = {0};
    const struct plan_timer timer = {pretend, &c};
    const struct plan_limits strict = {
        .workspace = SIZE_MAX, .deterministic = true, .plans = PLANS_MAX};
    unsigned rest;
    open_gpu("h200", &dev);
    assert_int_equal(conv_problem_of(&d, &p, &rest), STATUS_OK);
    assert_int_equal(plan_cache_open(&cache), STATUS_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(conv_plan_open(&dev, &p, &all, &timer, cache, &plan), STATUS_OK);
        assert_true(plan_choice_same(&plan.plan.choice, &c.fastest));
        assert_true(plan.seconds == 1e-3 && plan.cached == again);
        conv_plan_close(&plan);
        c.broken = true;
    }
    assert_int_equal(conv_plan_open(&dev, &p, &all, &timer, NULL, &plan), STATUS_LIBRARY);
    c = (struct clock_double){0}; /* other limits, another choice */
    assert_int_equal(conv_plan_open(&dev, &p, &strict, &timer, cache, &plan), STATUS_OK);
    assert_true(plan.plan.deterministic && !plan.cached);
    char line[1024];
    int plans = 0;
    assert_int_equal(plan_cache_save(cache, "two_plans.txt"), STATUS_OK);
    FILE *in = fopen("two_plans.txt", "r");
    while (in && fgets(line, sizeof line, in))
        plans += strncmp(line, "plan ", 5) == 0;
    assert_true(in && plans == 2 && fclose(in) == 0 && remove("two_plans.txt") == 0);
    conv_plan_close(&plan);
    plan_cache_close(cache);
    cudnn_desc_destroy(&dev.props);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_gives_the_same_plan_again),
        cmocka_unit_test(plans_are_within_the_limits),
        cmocka_unit_test(the_fastest_plan_is_taken_and_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
