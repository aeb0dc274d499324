/* Tests which fused forms of convolution have a plan, by GPU and type. The choice of fusion depends
 * on this table. P: a precompiled plan, which the test makes; R: cuDNN offers only engines that are
 * compiled at run time; -: no engine. The test prints its results and compares them with those of
 * cuDNN 9.19. */
#include "described_gpu.h"
#include "driver.h"
#include "kernels/cuda/conv_plan.h"
#include "tests/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct layer {
    const char *name;
    int64_t c, h, k, r;
    int stride, pad;
} layers[] = {
    {"3x3 128 at 28", 128, 28, 128, 3, 1, 1},
    {"3x3 128 from 56, stride 2", 128, 56, 128, 3, 2, 1},
    {"stem of 4 channels", 4, 224, 64, 7, 2, 3},
};
enum { N_LAYERS = sizeof layers / sizeof *layers, N_TYPES = 3, BATCH = 256 };

static const char *const gpus[] = {"t4", "a10", "a100", "l40", "h100", "h200", "b200", "rtx5090"};
/* Under sanitizers only the first two GPUs are tested. The first GPU has no fused forms. Together,
 * these two GPUs execute the same code as all GPUs. */
enum { N_GPUS = SANITIZED ? 2 : sizeof gpus / sizeof *gpus };

static struct conv_problem problem_of(const struct layer *l, enum conv_form form, int type)
{
    static const enum dtype types[N_TYPES] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    int64_t out = (l->h + 2 * l->pad - l->r) / l->stride + 1;
    return (struct conv_problem){
        .form = form,
        .type = types[type],
        .tf32 = types[type] == DTYPE_F32,
        .n = BATCH,
        .c = l->c,
        .h = l->h,
        .w = l->h,
        .k = l->k,
        .r = l->r,
        .s = l->r,
        .p = out,
        .q = out,
        .conv = {.stride = {l->stride, l->stride}, .pad = {l->pad, l->pad}, .groups = 1}};
}

static char probe(const struct cudnn_device *dev, const struct conv_problem *problem)
{
    const struct plan_limits limits = {.workspace = (size_t)1 << 30, .plans = 1};
    struct cudnn_graph *g;
    struct plan_list list;
    assert_int_equal(conv_form_graph(dev, problem, &g), STATUS_OK);
    enum status st = conv_plan_candidates(dev, problem, g, &limits, &list);
    char found = st == STATUS_OK ? 'P' : list.runtime_compiled > 0 ? 'R' : '-';
    assert_true(st == STATUS_OK || st == STATUS_UNSUPPORTED);
    plan_list_close(&list);
    cg_close(g);
    return found;
}

/* The expected results: for each GPU above, one character for each of fp16, bf16 and tf32. */
static const char *const expected[N_LAYERS][CONV_FORM_COUNT] = {
    {
        [CONV_FWD] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_BWD_DATA] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_BWD_WEIGHTS] = "PRP PPP PPP PPP PPP PPP PPP PPP",
        [CONV_FWD_BIAS] = "R-P RRP RRP RRP RRP RRP RRP RRP",
        [CONV_FWD_BIAS_RELU] = "R-P RRP RRP RRP RRP RRP RRP RRP",
        [CONV_FWD_STATS] = "--- PRR PRR PRR PRR PRR PRR RRR",
        [CONV_APPLY_FWD_STATS] = "--- P-R P-R P-R P-R P-R --R --R",
        [CONV_END_FWD_STATS] = "--- --- --- --- --- --- --- ---",
        [CONV_END_TWO_FWD_STATS] = "--- --- --- --- --- --- --- ---",
        [CONV_APPLY_BWD_WEIGHTS] = "--- P-- P-- P-- P-- P-- P-- P--",
        [CONV_BWD_DATA_BN] = "--- P-- P-- P-- P-- P-- P-- P--",
        [CONV_BWD_DATA_ADD_BN] = "--- P-- P-- P-- P-- P-- P-- P--",
        [CONV_BWD_DATA_TWO_BN] = "--- P-- P-- P-- P-- P-- P-- P--",
        [CONV_BWD_DATA_ADD_TWO_BN] = "--- P-- P-- P-- P-- P-- P-- P--",
    },
    {
        [CONV_FWD] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_BWD_DATA] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_BWD_WEIGHTS] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_FWD_BIAS] = "R-P RRP RRP RRP RRP RRP RRP RRP",
        [CONV_FWD_BIAS_RELU] = "R-P RRP RRP RRP RRP RRP RRP RRP",
        [CONV_FWD_STATS] = "--- PRR PRR PRR PRR PRR PRR RRR",
        [CONV_APPLY_FWD_STATS] = "--- P-R P-R P-R P-R P-R --R --R",
        [CONV_END_FWD_STATS] = "--- --- --- --- --- --- --- ---",
        [CONV_END_TWO_FWD_STATS] = "--- --- --- --- --- --- --- ---",
        [CONV_APPLY_BWD_WEIGHTS] = "--- P-- P-- P-- P-- P-- P-- P--",
        [CONV_BWD_DATA_BN] = "--- P-- P-- P-- P-- P-- P-- P--",
        [CONV_BWD_DATA_ADD_BN] = "--- P-- P-- P-- --- --- P-- P--",
        [CONV_BWD_DATA_TWO_BN] = "--- P-- P-- P-- --- --- P-- P--",
        [CONV_BWD_DATA_ADD_TWO_BN] = "--- P-- P-- P-- --- --- P-- P--",
    },
    {
        [CONV_FWD] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_BWD_DATA] = "P-P PPP PPP PPP PPP PPP PPP PPP",
        [CONV_BWD_WEIGHTS] = "PRP PPP PPP PPP PPP PPP PPP PPP",
        [CONV_FWD_BIAS] = "R-P RRP RRP RRP RRP RRP RRP RRP",
        [CONV_FWD_BIAS_RELU] = "R-P RRP RRP RRP RRP RRP RRP RRP",
        [CONV_FWD_STATS] = "--- RRR RRR RRR RRR RRR RRR RRR",
        [CONV_APPLY_FWD_STATS] = "--- --R --R --R --R --R --R --R",
        [CONV_END_FWD_STATS] = "--- --- --- --- --- --- --- ---",
        [CONV_END_TWO_FWD_STATS] = "--- --- --- --- --- --- --- ---",
        [CONV_APPLY_BWD_WEIGHTS] = "--- --- --- --- --- --- --- ---",
        [CONV_BWD_DATA_BN] = "--- --- --- --- --- --- --- ---",
        [CONV_BWD_DATA_ADD_BN] = "--- --- --- --- --- --- --- ---",
        [CONV_BWD_DATA_TWO_BN] = "--- --- --- --- --- --- --- ---",
        [CONV_BWD_DATA_ADD_TWO_BN] = "--- --- --- --- --- --- --- ---",
    },
};

/* Finds the results for one form on one layer: a row of the table. */
static void find_row(const struct cudnn_device dev[N_GPUS], const struct layer *l,
                     enum conv_form form, char row[N_GPUS * (N_TYPES + 1)])
{
    char *out = row;
    for (int g = 0; g < N_GPUS; g++) {
        for (int t = 0; t < N_TYPES; t++) {
            struct conv_problem p = problem_of(l, form, t);
            *out++ = probe(&dev[g], &p);
        }
        *out++ = g + 1 < N_GPUS ? ' ' : '\0';
    }
}

static bool row_is(const char *found, const char *wanted, bool driver)
{
    for (; *found; found++, wanted++)
        if (*found != (*wanted == 'R' && !driver ? '-' : *wanted))
            return false;
    return N_GPUS < sizeof gpus / sizeof *gpus || *wanted == '\0';
}

/* Returns whether the project needs a form. These forms must have a plan in every version of cuDNN.
 */
static bool must_exist(enum conv_form form, int gpu, int type)
{
    return form <= CONV_BWD_WEIGHTS && (gpu > 0 || type == 0);
}

static void test_table(void **state)
{
    struct cudnn_device dev[N_GPUS];
    const bool known = cudnnGetVersion() / 100 == 919, driver = driver_loads();
    int wrong = 0;
    (void)state;
    cudnn_keep_compiler();
    for (int g = 0; g < N_GPUS; g++)
        described_gpu_open(gpus[g], &dev[g]);
    printf("cuDNN %zu%s; fp16, bf16 and tf32 on", cudnnGetVersion(),
           driver ? "" : " without a driver library, so R cannot be found");
    for (int g = 0; g < N_GPUS; g++)
        printf(" %s", gpus[g]);
    printf("\n");
    for (int i = 0; i < N_LAYERS; i++) {
        printf("%s, batch %d\n", layers[i].name, BATCH);
        for (int f = 0; f < CONV_FORM_COUNT; f++) {
            char row[N_GPUS * (N_TYPES + 1)];
            find_row(dev, &layers[i], (enum conv_form)f, row);
            bool right = !known || row_is(row, expected[i][f], driver);
            printf("  %-20s %s%s%s\n", conv_form_str((enum conv_form)f), row,
                   right ? "" : "  expected ", right ? "" : expected[i][f]);
            wrong += !right;
            for (int at = 0; at < N_GPUS * N_TYPES; at++)
                if (must_exist((enum conv_form)f, at / N_TYPES, at % N_TYPES))
                    wrong += row[at / N_TYPES * (N_TYPES + 1) + at % N_TYPES] != 'P';
        }
    }
    for (int g = 0; g < N_GPUS; g++)
        described_gpu_close(&dev[g]);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
