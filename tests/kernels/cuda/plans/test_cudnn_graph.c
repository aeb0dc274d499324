/* Tests devices that are described by text, the error messages of graph builders that are used
 * wrongly, and plans that are made again from stored choices. */
#include "described_gpu.h"
#include "kernels/cuda/cudnn_plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct plan_limits all = {.workspace = SIZE_MAX, .plans = PLANS_MAX};
static const struct conv_attr conv3x3 = {.stride = {1, 1}, .pad = {1, 1}, .groups = 1};

static bool says(const char *part)
{
    if (strstr(status_message(), part))
        return true;
    printf("message: %s\n", status_message());
    return false;
}

/* ---- devices ---- */

static void test_devices(void **state)
{
    static const struct {
        const char *name, *full;
        int sm;
    } known[] = {
        {"t4", "Tesla T4", 75},
        {"a10", "NVIDIA A10", 86},
        {"a100", "NVIDIA A100-SXM4-80GB", 80},
        {"l40", "NVIDIA L40S", 89},
        {"h100", "NVIDIA H100 80GB HBM3", 90},
        {"h200", "NVIDIA H200", 90},
        {"b200", "NVIDIA B200", 100},
        {"rtx5090", "NVIDIA GeForce RTX 5090", 120},
    };
    struct cudnn_device dev;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        described_gpu_open(known[i].name, &dev);
        assert_string_equal(dev.name, known[i].full);
        assert_int_equal(dev.sm, known[i].sm);
        described_gpu_close(&dev);
    }
}

/* ---- graphs ---- */

static struct cudnn_graph *graph_open(void)
{
    struct cudnn_graph *g;
    assert_int_equal(cg_open(&g), STATUS_OK);
    return g;
}

static void test_misuse(void **state)
{
    static const int64_t x[4] = {8, 64, 28, 28}, w[4] = {64, 64, 3, 3};
    (void)state;
    struct cudnn_graph *g = graph_open();
    cg_tensor(g, CG_X, DTYPE_F16, x);
    cg_tensor(g, CG_W, DTYPE_F16, w);
    cg_conv_fwd(g, CG_X, CG_W, CG_Y, &conv3x3); /* Y was forgotten */
    cg_relu(g, CG_DY, CG_DX);                   /* this error must not replace the first one */
    assert_int_equal(cg_finish(g), STATUS_INVALID);
    assert_true(says("'CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y' was not declared"));
    cg_close(g);

    g = graph_open();
    cg_tensor(g, CG_X, DTYPE_U8, x);
    assert_int_equal(cg_finish(g), STATUS_INVALID);
    assert_true(says("a tensor cannot have the type uint8"));
    cg_close(g);

    g = graph_open(); /* the library's message names the descriptor */
    cg_tensor(g, CG_X, DTYPE_F16, (int64_t[]){8, -1, 28, 28});
    assert_int_not_equal(cg_finish(g), STATUS_OK);
    assert_true(says("CUDNN_BACKEND_TENSOR_DESCRIPTOR"));
    cg_close(g);

    g = graph_open(); /* shapes that do not fit together */
    cg_tensor(g, CG_X, DTYPE_F16, x);
    cg_tensor(g, CG_W, DTYPE_F16, w);
    cg_tensor(g, CG_Y, DTYPE_F16, (int64_t[]){8, 64, 27, 28});
    cg_conv_fwd(g, CG_X, CG_W, CG_Y, &conv3x3);
    assert_int_not_equal(cg_finish(g), STATUS_OK);
    assert_true(says("cuDNN cannot finalize 'CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD"));
    cg_close(g);

    g = graph_open();
    for (int i = 0; i < 1000; i++)
        (void)cg_virtual(g, DTYPE_F32, x);
    assert_int_equal(cg_finish(g), STATUS_INVALID);
    assert_true(says("too many"));
    cg_close(g);
}

/* ---- plans ---- */

static struct cudnn_graph *conv_graph(enum dtype type)
{
    static const int64_t x[4] = {64, 128, 28, 28}, w[4] = {128, 128, 3, 3};
    struct cudnn_graph *g = graph_open();
    cg_tensor(g, CG_X, type, x);
    cg_tensor(g, CG_W, type, w);
    cg_tensor(g, CG_Y, type, x);
    cg_conv_fwd(g, CG_X, CG_W, CG_Y, &conv3x3);
    assert_int_equal(cg_finish(g), STATUS_OK);
    return g;
}

static void test_plan_again(void **state)
{
    struct cudnn_device dev;
    struct plan_list list;
    struct cudnn_plan plan;
    (void)state;
    described_gpu_open("h200", &dev);
    struct cudnn_graph *g = conv_graph(DTYPE_F16);
    assert_int_equal(plan_list_make(&dev, g, &all, &list), STATUS_OK);
    assert_int_equal(list.n, PLANS_MAX);
    bool knobs = false;
    for (int i = 0; i < list.n; i++) {
        const struct cudnn_plan *first = &list.plan[i];
        for (int j = 0; j < i; j++)
            assert_false(plan_choice_same(&first->choice, &list.plan[j].choice));
        assert_int_equal(plan_make(&dev, g, &first->choice, &all, &plan), STATUS_OK);
        assert_int_equal(plan.workspace, first->workspace);
        assert_int_equal(plan.tensor_cores, first->tensor_cores);
        knobs |= first->choice.n_knobs > 0;
        plan_close(&plan);
    }
    assert_true(knobs);
    plan_list_close(&list);

    struct plan_choice none = {.engine = 100000};
    assert_int_not_equal(plan_make(&dev, g, &none, &all, &plan), STATUS_OK);
    none = (struct plan_choice){.engine = 1, .n_knobs = 1, .knob = {{30000, -5}}};
    assert_int_not_equal(plan_make(&dev, g, &none, &all, &plan), STATUS_OK);
    assert_null(plan.desc.raw);
    cg_close(g);
    described_gpu_close(&dev);
}

static void test_limits(void **state)
{
    struct cudnn_device dev;
    struct plan_list list;
    struct cudnn_plan plan;
    (void)state;
    described_gpu_open("a100", &dev);
    struct cudnn_graph *g = conv_graph(DTYPE_F32);
    struct plan_limits limits = all;
    limits.plans = 3;
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_OK);
    assert_int_equal(list.n, 3);
    assert_true(list.plan[0].tensor_cores); /* TF32 */
    struct plan_choice tf32 = list.plan[0].choice;
    plan_list_close(&list);

    limits.full_fp32 = true;
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_OK);
    for (int i = 0; i < list.n; i++)
        assert_false(list.plan[i].tensor_cores);
    plan_list_close(&list);
    assert_int_equal(plan_make(&dev, g, &tf32, &limits, &plan), STATUS_UNSUPPORTED);

    const struct excluded_engines first = {1, {tf32.engine}};
    limits = all;
    limits.excluded = &first;
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_OK);
    assert_true(list.excluded > 0);
    for (int i = 0; i < list.n; i++)
        assert_int_not_equal(list.plan[i].choice.engine, tf32.engine);
    plan_list_close(&list);
    assert_int_equal(plan_make(&dev, g, &tf32, &limits, &plan), STATUS_UNSUPPORTED);

    limits = (struct plan_limits){.workspace = 0, .deterministic = true, .plans = PLANS_MAX};
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_OK);
    for (int i = 0; i < list.n; i++) {
        assert_int_equal(list.plan[i].workspace, 0);
        assert_true(list.plan[i].deterministic);
    }
    plan_list_close(&list);
    limits.plans = PLANS_MAX + 1;
    assert_int_equal(plan_list_make(&dev, g, &limits, &list), STATUS_INVALID);
    cg_close(g);
    described_gpu_close(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_plan_again),
        cmocka_unit_test(test_limits),
    };
    cudnn_keep_compiler();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
