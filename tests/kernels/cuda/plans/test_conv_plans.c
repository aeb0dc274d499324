/* Plans the convolutions of networks on a described GPU, in those of fp16, bf16, tf32 and fp32 that
 * the GPU supports. Every convolution must have a plan. On Hopper GPUs, all forms are planned: each
 * convolution must leave a choice, because another engine must take over if one fails, and the
 * choice must not fall to engine 0, cuDNN's slow generic kernel. Needs no GPU.
 *
 *     conv_plans [GPU [all]]
 *
 * The default is an H200, one network and batch size, fp16 and fp32, and a few plans each. */
#include "kernels/cuda/conv_plan.h"
#include "model/graph.h"
#include "tests/suite.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE = 224, SEEN_MAX = 8192, CHOICE = 3, SM_AMPERE = 80, SM_HOPPER = 90 };

static const struct {
    enum dtype type, rounds;
} precisions[] = {{DTYPE_F16, DTYPE_F32},
                  {DTYPE_BF16, DTYPE_F32},
                  {DTYPE_F32, DTYPE_TF32},
                  {DTYPE_F32, DTYPE_F32}};
enum { N_PRECISIONS = 4 };

struct planning {
    struct cudnn_device dev;
    struct plan_limits limits;
    bool whole;
    int n_seen, wrong; /* networks have the same shapes several times */
    char seen[SEEN_MAX][CONV_TEXT_MAX];
};

static bool seen_before(struct planning *all, const char *text)
{
    for (int i = 0; i < all->n_seen; i++)
        if (strcmp(all->seen[i], text) == 0)
            return true;
    assert_true(all->n_seen < SEEN_MAX);
    snprintf(all->seen[all->n_seen++], CONV_TEXT_MAX, "%s", text);
    return false;
}

/* --- the convolutions of networks --- */

static struct tensor_desc tensor_of(int precision, int64_t n, int64_t c, int64_t h, int64_t w)
{
    struct tensor_desc t = tensor_4d(precisions[precision].type, LAYOUT_NHWC, n, c, h, w);
    t.rounds = precisions[precision].rounds;
    return t;
}

static struct conv_problem problem_of(const struct graph *g, const struct node *node, int precision,
                                      int64_t batch)
{
    const struct node *in = &g->node[node->in[0]];
    struct op_desc d = {.kind = OP_CONV_FWD};
    struct conv_problem problem;
    unsigned rest;
    d.attr.conv = (struct conv_attr){.stride = {node->stride, node->stride},
                                     .pad = {node->pad, node->pad},
                                     .groups = node->groups};
    d.t[ROLE_X] = tensor_of(precision, batch, in->c, in->h, in->w);
    d.t[ROLE_W] = tensor_of(precision, node->c, in->c / node->groups, node->kernel, node->kernel);
    d.t[ROLE_Y] = tensor_of(precision, batch, node->c, node->h, node->w);
    assert_int_equal(conv_problem_of(&d, &problem, &rest), STATUS_OK);
    return problem;
}

/* Whether the convolution has stride 1 and reads the result of a residual block. */
static bool reads_block(const struct graph *g, const struct node *n)
{
    const struct node *in = &g->node[n->in[0]];
    return n->kernel == 1 && n->stride == 1 && in->kind == NODE_RELU &&
           g->node[in->in[0]].kind == NODE_ADD;
}

/* Whether training can use a form for a convolution. */
static bool is_form_of(const struct graph *g, const struct node *n, enum conv_form form)
{
    bool first = g->node[n->in[0]].kind == NODE_INPUT;
    switch (form) {
    case CONV_FWD:
    case CONV_BWD_WEIGHTS:
    case CONV_FWD_STATS:
        return true;
    case CONV_END_FWD_STATS:
    case CONV_END_TWO_FWD_STATS:
    case CONV_BWD_DATA_ADD_BN:
    case CONV_BWD_DATA_TWO_BN:
    case CONV_BWD_DATA_ADD_TWO_BN:
        return reads_block(g, n);
    default:
        return !first; /* the network's input has no gradient and no batch norm */
    }
}

/* --- plans --- */

/* Whether the plans of a problem are what training needs. With cuDNN 9.19, each fused form with
 * batch norm has a deterministic plan in fp16, except for the sums of ResNet's first convolution,
 * whose input has 4 channels. A grouped convolution has no fused plans. */
static bool is_right(const struct planning *all, const struct conv_problem *p,
                     const struct plan_list *list)
{
    bool plain = p->form <= CONV_BWD_WEIGHTS, batch_norm = p->form > CONV_FWD_BIAS_RELU;
    bool known = cudnnGetVersion() / 100 == 919;
    for (int i = 0; i < list->n; i++)
        if (list->plan[i].runtime_compiled ||
            (list->plan[i].tensor_cores && p->type == DTYPE_F32 && !p->tf32))
            return false;
    if (all->dev.sm != SM_HOPPER || p->conv.groups > 1)
        return !plain || list->n > 0;
    if (plain)
        return list->n >= CHOICE && list->too_large == 0 && list->plan[0].choice.engine != 0;
    for (int i = 0; i < list->n; i++)
        if (list->plan[i].deterministic)
            return list->too_large == 0;
    return !known || !batch_norm || p->type != DTYPE_F16 || p->c == 4;
}

static void plan_problem(struct planning *all, const struct conv_problem *p)
{
    struct cudnn_graph *g;
    struct plan_list list;
    char text[CONV_TEXT_MAX];
    conv_problem_text(p, text, sizeof text);
    if (seen_before(all, text))
        return;
    assert_int_equal(conv_form_graph(&all->dev, p, &g), STATUS_OK);
    enum status st = conv_plan_candidates(&all->dev, p, g, &all->limits, &list);
    if (st != STATUS_OK && st != STATUS_UNSUPPORTED)
        fail_msg("%s", status_message());
    if (!is_right(all, p, &list)) {
        printf("%s: %d plans, %d need too much workspace, the first engine is %lld%s%s\n", text,
               list.n, list.too_large, list.n ? (long long)list.plan[0].choice.engine : -1,
               st == STATUS_OK ? "" : ": ", st == STATUS_OK ? "" : status_message());
        all->wrong++;
    }
    plan_list_close(&list);
    cg_close(g);
}

static void plan_layer(struct planning *all, const struct graph *g, const struct node *n)
{
    static const int64_t batches[] = {256, 64, 512};
    const int n_batches = all->whole ? 3 : 1;
    const int n_forms = all->dev.sm == SM_HOPPER ? CONV_FORM_COUNT : CONV_BWD_WEIGHTS + 1;
    for (int b = 0; b < n_batches; b++)
        for (int k = 0; k < N_PRECISIONS; k += all->whole ? 1 : N_PRECISIONS - 1) {
            bool narrow = precisions[k].type == DTYPE_F16 || precisions[k].rounds == DTYPE_F32;
            if (all->dev.sm < SM_AMPERE && (!narrow || precisions[k].type == DTYPE_BF16))
                continue; /* GPUs before Ampere support neither bf16 nor TF32 */
            struct conv_problem problem = problem_of(g, n, k, batches[b]);
            for (int f = 0; f < n_forms; f++)
                if (is_form_of(g, n, problem.form = (enum conv_form)f))
                    plan_problem(all, &problem);
        }
}

static void every_convolution_has_a_plan(void **state)
{
    static const char *const archs[] = {"resnet50", "resnet18", "vgg16", "resnext50_32x4d"};
    const char *gpu = suite_argc > 1 ? suite_argv[1] : "h200";
    struct gpu_description described;
    struct planning *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->whole = suite_argc > 2;
    cudnn_keep_compiler();
    assert_int_equal(gpu_description_open(gpu, &described), STATUS_OK);
    assert_int_equal(cudnn_device_describe(&described, &all->dev), STATUS_OK);
    bool hopper = all->dev.sm == SM_HOPPER;
    all->limits = (struct plan_limits){.workspace = plan_workspace_max((size_t)described.memory),
                                       .plans = !hopper      ? 1
                                                : all->whole ? PLANS_MAX
                                                             : CHOICE};
    for (int a = 0; a < (all->whole ? 4 : 1); a++) {
        struct graph *g;
        assert_int_equal(graph_build(archs[a], 1000, IMAGE, &g), STATUS_OK);
        for (int i = 0; i < g->n_nodes; i++)
            if (g->node[i].kind == NODE_CONV)
                plan_layer(all, g, &g->node[i]);
        graph_free(g);
    }
    printf("cuDNN %zu, %s: %d problems\n", cudnnGetVersion(), all->dev.name, all->n_seen);
    assert_true(all->n_seen > 100);
    assert_int_equal(all->wrong, 0);
    cudnn_desc_destroy(&all->dev.props);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_convolution_has_a_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
