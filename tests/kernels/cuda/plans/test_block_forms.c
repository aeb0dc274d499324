/* Checks that the fused forms at the end of a residual block have plans for the description of an
 * H200. The convolutions are those convolutions of ResNet-50 that have stride 1 and read the result
 * of a block, at batch 64 to 512. With cuDNN 9.19 each plan must be precompiled and deterministic.
 * Needs no GPU. */
#include "described_gpu.h"
#include "kernels/cuda/conv_plan.h"
#include "model/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IMAGE = 224, SHAPES = 7, BATCHES = 4 };

static const enum conv_form forms[] = {
    CONV_END_FWD_STATS,       CONV_END_TWO_FWD_STATS, CONV_BWD_DATA_ADD_BN,
    CONV_BWD_DATA_ADD_TWO_BN, CONV_BWD_DATA_TWO_BN,
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static const int64_t batches[BATCHES] = {64, 128, 256, 512};

/* Whether the convolution has stride 1 and reads the result of a block. */
static bool reads_block(const struct graph *g, const struct node *n)
{
    if (n->kind != NODE_CONV || n->kernel != 1 || n->stride != 1)
        return false;
    const struct node *relu = &g->node[n->in[0]];
    return relu->kind == NODE_RELU && g->node[relu->in[0]].kind == NODE_ADD;
}

static struct conv_problem problem_of(const struct graph *g, const struct node *n)
{
    const struct node *in = &g->node[n->in[0]];
    return (struct conv_problem){.type = DTYPE_F16,
                                 .c = in->c,
                                 .h = in->h,
                                 .w = in->w,
                                 .k = n->c,
                                 .r = 1,
                                 .s = 1,
                                 .p = n->h,
                                 .q = n->w,
                                 .conv = {.stride = {1, 1}, .groups = 1}};
}

static int find_shapes(const struct graph *g, struct conv_problem shape[SHAPES])
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (!reads_block(g, &g->node[i]))
            continue;
        struct conv_problem p = problem_of(g, &g->node[i]);
        bool seen = false;
        for (int k = 0; k < n; k++)
            seen = seen || (shape[k].c == p.c && shape[k].k == p.k);
        if (seen)
            continue;
        assert_true(n < SHAPES);
        shape[n++] = p;
    }
    return n;
}

static bool has_plan(const struct cudnn_device *dev, const struct conv_problem *p)
{
    static const struct plan_limits limits = {
        .workspace = (size_t)1 << 30, .plans = 1, .deterministic = true};
    struct conv_plan plan;
    if (conv_plan_open(dev, p, &limits, NULL, NULL, &plan) != STATUS_OK) {
        printf("no plan: %s\n", status_message());
        return false;
    }
    assert_false(plan.plan.runtime_compiled);
    assert_true(plan.plan.deterministic);
    conv_plan_close(&plan);
    return true;
}

static void test_forms(void **state)
{
    struct conv_problem shape[SHAPES];
    struct cudnn_device dev;
    struct graph *g;
    int missing = 0;
    (void)state;
    described_gpu_open("h200", &dev);
    assert_int_equal(graph_build("resnet50", 1000, IMAGE, &g), STATUS_OK);
    assert_int_equal(find_shapes(g, shape), SHAPES);
    for (int f = 0; f < N_FORMS; f++)
        for (int i = 0; i < SHAPES; i++)
            for (int b = 0; b < BATCHES; b++) {
                struct conv_problem p = shape[i];
                p.form = forms[f];
                p.n = batches[b];
                missing += !has_plan(&dev, &p);
            }
    printf("cuDNN %zu: %d of %d problems without a plan\n", cudnnGetVersion(), missing,
           N_FORMS * SHAPES * BATCHES);
    if (cudnnGetVersion() / 100 == 919)
        assert_int_equal(missing, 0);
    graph_free(g);
    described_gpu_close(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms)};
    cudnn_keep_compiler();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
