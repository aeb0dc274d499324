/* Plans the convolutions of resnet18, resnet50 and vgg16 on the GPU that the argument names, in
 * those of fp16, bf16, tf32 and fp32 that the GPU supports. Every convolution must have a plan. On
 * Hopper GPUs, all candidates of all forms are planned, also at batch 512: each convolution must
 * leave a choice, because another engine must take over if one fails on a GPU, and the choice must
 * not fall to engine 0, cuDNN's slow generic kernel. Prints a table of the plans. Needs no GPU. */
#include "described_gpu.h"
#include "kernels/cuda/conv_plan.h"
#include "model/graph.h"
#include "tests/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *gpu = "h200"; /* the argument */

enum { IMAGE = 224, SEEN_MAX = 8192, CHOICE = 3, SM_AMPERE = 80, SM_HOPPER = 90 };

static const struct precision {
    enum dtype type, rounds;
    const char *name;
} precisions[] = {{DTYPE_F16, DTYPE_F32, "fp16"},
                  {DTYPE_BF16, DTYPE_F32, "bf16"},
                  {DTYPE_F32, DTYPE_TF32, "tf32"},
                  {DTYPE_F32, DTYPE_F32, "fp32"}};
enum { N_PRECISIONS = 4 };

static const int64_t batches[] = {64, 256, 512};

/* The plans of one form in one precision. */
struct tally {
    int problems, plans;
    int fewest; /* plans of a problem that has any */
    int without, too_large;
};

struct planning {
    struct cudnn_device dev;
    struct plan_limits limits;
    struct tally tally[CONV_FORM_COUNT][N_PRECISIONS];
    /* Problems that have already been planned. Networks have the same shapes several times. */
    int n_seen, wrong;
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

static struct tensor_desc tensor_of(const struct precision *p, int64_t n, int64_t c, int64_t h,
                                    int64_t w)
{
    struct tensor_desc t = tensor_4d(p->type, LAYOUT_NHWC, n, c, h, w);
    t.rounds = p->rounds;
    return t;
}

static struct conv_problem problem_of(const struct graph *g, const struct node *node,
                                      const struct precision *p, int64_t batch)
{
    const struct node *in = &g->node[node->in[0]];
    struct op_desc d = {.kind = OP_CONV_FWD};
    struct conv_problem problem;
    unsigned rest;
    d.attr.conv = (struct conv_attr){.stride = {node->stride, node->stride},
                                     .pad = {node->pad, node->pad},
                                     .groups = node->groups};
    d.t[ROLE_X] = tensor_of(p, batch, in->c, in->h, in->w);
    d.t[ROLE_W] = tensor_of(p, node->c, in->c / node->groups, node->kernel, node->kernel);
    d.t[ROLE_Y] = tensor_of(p, batch, node->c, node->h, node->w);
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

static void check_plan(const struct conv_problem *p, const struct cudnn_plan *plan)
{
    assert_false(plan->runtime_compiled);
    assert_true(p->type != DTYPE_F32 || p->tf32 || !plan->tensor_cores);
}

static bool is_hopper(const struct planning *all)
{
    return all->dev.sm == SM_HOPPER && !SANITIZED;
}

/* Whether the plans of a problem are what training needs. With cuDNN 9.19, each fused form with
 * batch norm has a deterministic plan in fp16, except for the sums of ResNet's first convolution,
 * whose input has 4 channels. */
static bool is_right(const struct planning *all, const struct conv_problem *p,
                     const struct plan_list *list)
{
    bool plain = p->form <= CONV_BWD_WEIGHTS, batch_norm = p->form > CONV_FWD_BIAS_RELU;
    bool known = cudnnGetVersion() / 100 == 919;
    if (!is_hopper(all))
        return !plain || list->n > 0;
    if (plain)
        return list->n >= CHOICE && list->too_large == 0 && list->plan[0].choice.engine != 0;
    for (int i = 0; i < list->n; i++)
        if (list->plan[i].deterministic)
            return list->too_large == 0;
    return !known || !batch_norm || p->type != DTYPE_F16 || p->c == 4;
}

static void plan_problem(struct planning *all, const struct conv_problem *p, struct tally *t)
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
    for (int i = 0; i < list.n; i++)
        check_plan(p, &list.plan[i]);
    if (!is_right(all, p, &list)) {
        printf("%s: %d plans, %d need too much workspace, the first engine is %lld%s%s\n", text,
               list.n, list.too_large, list.n ? (long long)list.plan[0].choice.engine : -1,
               st == STATUS_OK ? "" : ": ", st == STATUS_OK ? "" : status_message());
        all->wrong++;
    }
    t->problems++;
    t->plans += list.n;
    t->without += list.n == 0;
    t->too_large += list.too_large;
    if (list.n > 0 && (t->fewest == 0 || list.n < t->fewest))
        t->fewest = list.n;
    plan_list_close(&list);
    cg_close(g);
}

static void plan_layer(struct planning *all, const struct graph *g, const struct node *n)
{
    const int n_batches = is_hopper(all) ? 3 : 2;
    const int n_forms = is_hopper(all) ? CONV_FORM_COUNT : CONV_BWD_WEIGHTS + 1;
    for (int b = 0; b < n_batches; b++)
        for (int k = 0; k < N_PRECISIONS; k++) {
            const struct precision *p = &precisions[k];
            if (all->dev.sm < SM_AMPERE && (p->type == DTYPE_BF16 || p->rounds == DTYPE_TF32))
                continue; /* GPUs before Ampere support neither type */
            struct conv_problem problem = problem_of(g, n, p, batches[b]);
            for (int f = 0; f < n_forms; f++)
                if (is_form_of(g, n, problem.form = (enum conv_form)f))
                    plan_problem(all, &problem, &all->tally[f][k]);
        }
}

static void print_table(const struct planning *all)
{
    printf("cuDNN %zu, %s: problems / plans / fewest plans / problems without a plan / plans that "
           "need too much workspace\n%-24s",
           cudnnGetVersion(), all->dev.name, "");
    for (int k = 0; k < N_PRECISIONS; k++)
        printf("%-24s", precisions[k].name);
    for (int f = 0; f < CONV_FORM_COUNT && all->tally[f][0].problems > 0; f++) {
        printf("\n%-24s", conv_form_str((enum conv_form)f));
        for (int k = 0; k < N_PRECISIONS; k++) {
            const struct tally *t = &all->tally[f][k];
            char text[64];
            snprintf(text, sizeof text, "%d / %d / %d / %d / %d", t->problems, t->plans, t->fewest,
                     t->without, t->too_large);
            printf("%-24s", text);
        }
    }
    printf("\n");
}

static void test_networks(void **state)
{
    static const char *const archs[] = {"resnet18", "resnet50", "vgg16"};
    struct gpu_description described;
    struct planning *all = calloc(1, sizeof *all);
    int layers = 0;
    (void)state;
    assert_non_null(all);
    assert_int_equal(gpu_description_open(gpu, &described), STATUS_OK);
    described_gpu_open(gpu, &all->dev);
    all->limits = (struct plan_limits){.workspace = plan_workspace_max((size_t)described.memory),
                                       .plans = is_hopper(all) ? PLANS_MAX : 1};
    for (int a = 0; a < 3; a++) {
        struct graph *g;
        assert_int_equal(graph_build(archs[a], 1000, IMAGE, &g), STATUS_OK);
        for (int i = 0; i < g->n_nodes; i++)
            if (g->node[i].kind == NODE_CONV) {
                plan_layer(all, g, &g->node[i]);
                layers++;
            }
        graph_free(g);
    }
    print_table(all);
    assert_int_equal(layers, 20 + 53 + 13);
    assert_int_equal(all->wrong, 0);
    described_gpu_close(&all->dev);
    free(all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
    if (argc > 1)
        gpu = argv[1];
    cudnn_keep_compiler();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
