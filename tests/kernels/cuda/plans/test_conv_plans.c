/* Checks that every convolution of resnet18, resnet50 and vgg16 has a plan on the GPU that the
 * argument names. The checks cover the forward pass and both gradients, two batch sizes, and those
 * of fp16, bf16, tf32 and fp32 that the GPU supports. Needs no GPU. */
#include "described_gpu.h"
#include "kernels/cuda/conv_plan.h"
#include "model/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *gpu = "h200"; /* the argument */

enum { IMAGE = 224, SEEN_MAX = 2048 };

enum precision { PRECISION_F16, PRECISION_BF16, PRECISION_TF32, PRECISION_F32, N_PRECISIONS };

/* Problems that already have been planned. Networks have the same shapes several times. */
struct seen {
    int n;
    char text[SEEN_MAX][CONV_TEXT_MAX];
    size_t workspace; /* largest workspace of the problems' first plans, in bytes */
    char hungriest[CONV_TEXT_MAX];
    int missing;
};

static bool seen_before(struct seen *s, const struct conv_problem *p)
{
    char text[CONV_TEXT_MAX];
    conv_problem_text(p, text, sizeof text);
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->text[i], text) == 0)
            return true;
    assert_true(s->n < SEEN_MAX);
    memcpy(s->text[s->n++], text, sizeof text);
    return false;
}

static struct tensor_desc tensor_of(enum precision precision, const int64_t dim[4])
{
    static const enum dtype types[N_PRECISIONS] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F32};
    struct tensor_desc t = tensor_4d(types[precision], LAYOUT_NHWC, dim[0], dim[1], dim[2], dim[3]);
    t.rounds = precision == PRECISION_TF32 ? DTYPE_TF32 : DTYPE_F32;
    return t;
}

/* Returns the operation `kind` (forward or a gradient) of a layer's convolution. */
static struct op_desc conv_op(const struct graph *g, const struct node *node, enum op_kind kind,
                              enum precision precision, int64_t batch)
{
    const struct node *in = &g->node[node->in[0]];
    const int64_t k = node->kernel;
    struct tensor_desc x = tensor_of(precision, (int64_t[]){batch, in->c, in->h, in->w});
    struct tensor_desc w = tensor_of(precision, (int64_t[]){node->c, in->c / node->groups, k, k});
    struct tensor_desc y = tensor_of(precision, (int64_t[]){batch, node->c, node->h, node->w});
    struct op_desc d = {.kind = kind};
    d.attr.conv = (struct conv_attr){.stride = {node->stride, node->stride},
                                     .pad = {node->pad, node->pad},
                                     .groups = node->groups};
    d.t[kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X] = x;
    d.t[kind == OP_CONV_BWD_WEIGHTS ? ROLE_DW : ROLE_W] = w;
    d.t[kind == OP_CONV_FWD ? ROLE_Y : ROLE_DY] = y;
    return d;
}

static void check_op(const struct cudnn_device *dev, const struct op_desc *d, struct seen *s)
{
    static const struct plan_limits limits = {.workspace = (size_t)1 << 30, .plans = 1};
    struct conv_problem p;
    unsigned rest;
    struct conv_plan plan;
    assert_int_equal(conv_problem_of(d, &p, &rest), STATUS_OK);
    if (seen_before(s, &p))
        return;
    if (conv_plan_open(dev, &p, &limits, NULL, NULL, &plan) != STATUS_OK) {
        printf("no plan: %s\n", status_message());
        s->missing++;
        return;
    }
    assert_false(plan.plan.runtime_compiled);
    if (p.type == DTYPE_F32 && !p.tf32)
        assert_false(plan.plan.tensor_cores);
    if (plan.plan.workspace > s->workspace) {
        s->workspace = plan.plan.workspace;
        conv_problem_text(&p, s->hungriest, sizeof s->hungriest);
    }
    conv_plan_close(&plan);
}

static void check_layer(const struct cudnn_device *dev, const struct graph *g,
                        const struct node *node, struct seen *s)
{
    static const int64_t batches[] = {64, 256};
    static const enum op_kind kinds[] = {OP_CONV_FWD, OP_CONV_BWD_DATA, OP_CONV_BWD_WEIGHTS};
    bool first = g->node[node->in[0]].kind == NODE_INPUT; /* the network's input has no gradient */
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 3; k++)
            for (int p = 0; p < N_PRECISIONS && !(first && kinds[k] == OP_CONV_BWD_DATA); p++) {
                if (dev->sm < 80 && (p == PRECISION_BF16 || p == PRECISION_TF32))
                    continue; /* GPUs before Ampere support neither type */
                struct op_desc d = conv_op(g, node, kinds[k], (enum precision)p, batches[b]);
                check_op(dev, &d, s);
            }
}

static void test_networks(void **state)
{
    static const char *const archs[] = {"resnet18", "resnet50", "vgg16"};
    struct cudnn_device dev;
    struct seen *s = calloc(1, sizeof *s);
    (void)state;
    assert_non_null(s);
    described_gpu_open(gpu, &dev);
    int layers = 0;
    for (int a = 0; a < 3; a++) {
        struct graph *g;
        assert_int_equal(graph_build(archs[a], 1000, IMAGE, &g), STATUS_OK);
        for (int i = 0; i < g->n_nodes; i++)
            if (g->node[i].kind == NODE_CONV) {
                check_layer(&dev, g, &g->node[i], s);
                layers++;
            }
        graph_free(g);
    }
    printf("%s: %d layers, %d distinct problems, %d without a plan; most workspace %.1f MB (%s)\n",
           dev.name, layers, s->n, s->missing, (double)s->workspace / 1e6, s->hungriest);
    assert_int_equal(layers, 20 + 53 + 13);
    assert_int_equal(s->missing, 0);
    described_gpu_close(&dev);
    free(s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
    if (argc > 1)
        gpu = argv[1];
    cudnn_keep_compiler();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
