/* Tests fusion: which operations of convolution and batch norm are fused, where and on what
 * condition, and that a fused network trains like an unfused one.
 *
 *     test_fuse [DEVICE]
 *
 * With a device, tests only the training, on that device and in the types that it supports. */
#include "planned.h"
#include "tests/sanitized.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- counts of operations ---- */

struct plan_counts {
    int n[OP_KIND_COUNT];
    int masks;
    int shortcuts;        /* operations that apply the batch norms of both branches */
    int joined_shortcuts; /* data gradients that compute the sums of two batch norms */
    int outputs;          /* convolutions that also write the output of the previous block */
    size_t arena;         /* bytes */
};

static struct plan_counts plan_counts_of(const struct program *p)
{
    struct plan_counts c = {.arena = p->arena_bytes};
    for (int i = 0; i < p->n_steps; i++) {
        const struct op_desc *d = &p->step[i].plan->desc;
        c.n[d->kind]++;
        c.masks += d->kind == OP_BN_BWD && d->t[ROLE_MASK].ndim > 0;
        c.shortcuts += d->t[ROLE_Z_AFFINE].ndim || d->t[ROLE_Z_GAMMA].ndim;
        c.outputs += d->t[ROLE_APPLIED].ndim > 0;
        c.joined_shortcuts += d->kind == OP_CONV_BWD_DATA_BN && d->t[ROLE_Z_GAMMA].ndim;
    }
    return c;
}

static struct plan_counts planned_counts(const char *arch, const char *precision, enum fuse fuse,
                                         int program)
{
    struct net_rig r;
    struct policy policy;
    assert_ok(policy_find(precision, -1, &policy));
    planned_open_one(&r, arch, &policy, fuse, program);
    struct plan_counts c = plan_counts_of(r.net->program[0]);
    net_rig_close(&r);
    return c;
}

/* ResNet-50 has 53 convolutions, each with a batch norm, and 16 blocks with two batch norms between
 * convolutions. Convolutions read the outputs of 15 blocks. 3 projections skip pixels, and 4
 * shortcuts have a batch norm. Of the three normalised tensors of a block, fusion does not store
 * the inner two. This saves at least a sixth of the memory of a block. */
static void levels_add_up(void **state)
{
    enum {
        CONVS = 53,
        BLOCKS = 16,
        POOLED = 1,
        RELUS = POOLED + 3 * BLOCKS,
        STRIDED = 3,
        SHORTCUTS = 4
    };
    (void)state;
    struct plan_counts none = planned_counts("resnet50", "O2", FUSE_NONE, TRAIN);
    assert_int_equal(none.n[OP_CONV_FWD], CONVS);
    assert_int_equal(none.n[OP_BN_FWD_TRAIN], CONVS);
    assert_int_equal(none.n[OP_BN_BWD], CONVS);
    assert_int_equal(none.masks, 0);
    assert_int_equal(none.n[OP_ADD_STRIDED], 0);

    struct plan_counts stats = planned_counts("resnet50", "O2", FUSE_STATS, TRAIN);
    assert_int_equal(stats.n[OP_CONV_FWD], 0);
    assert_int_equal(stats.n[OP_CONV_STATS_FWD], CONVS);
    assert_int_equal(stats.n[OP_BN_FINALIZE], CONVS);
    assert_int_equal(stats.n[OP_BN_APPLY], CONVS - POOLED);
    assert_int_equal(stats.n[OP_BN_BWD], CONVS - POOLED);
    assert_int_equal(stats.n[OP_BN_POOL_FWD], POOLED);
    assert_int_equal(stats.n[OP_BN_POOL_BWD], POOLED);
    assert_int_equal(stats.n[OP_MAXPOOL_FWD] + stats.n[OP_MAXPOOL_BWD], 0);
    assert_int_equal(stats.n[OP_BN_STATISTICS], 0); /* the convolution computes the sums */
    assert_int_equal(stats.masks, RELUS - POOLED);
    assert_int_equal(stats.n[OP_ADD_STRIDED], STRIDED);

    struct plan_counts apply = planned_counts("resnet50", "O2", FUSE_APPLY, TRAIN);
    assert_int_equal(apply.n[OP_BN_FINALIZE], CONVS);
    assert_int_equal(apply.n[OP_BN_APPLY], CONVS - 2 * BLOCKS - SHORTCUTS - POOLED);
    assert_int_equal(apply.n[OP_BN_BWD], CONVS - 2 * BLOCKS - SHORTCUTS - POOLED);
    assert_int_equal(apply.shortcuts, 2 * SHORTCUTS); /* forward and backward */
    assert_int_equal(apply.n[OP_CONV_APPLY_BWD_WEIGHTS], 2 * BLOCKS);
    assert_int_equal(apply.n[OP_CONV_BWD_DATA_BN], 2 * BLOCKS);
    assert_int_equal(apply.n[OP_BN_BWD_APPLY], 2 * BLOCKS);
    assert_int_equal(apply.masks, RELUS - 2 * BLOCKS - POOLED);
    assert_true(apply.arena * 6 < none.arena * 5);

    struct plan_counts all = planned_counts("resnet50", "O2", FUSE_ALL, TRAIN);
    assert_int_equal(all.n[OP_CONV_APPLY_BWD_WEIGHTS], 2 * BLOCKS);
    assert_int_equal(all.n[OP_CONV_BWD_DATA_BN], 3 * BLOCKS - 1);
    assert_int_equal(all.masks, RELUS - 3 * BLOCKS + 1 - POOLED);
    assert_int_equal(all.shortcuts, 2 * SHORTCUTS);
    assert_int_equal(all.joined_shortcuts, SHORTCUTS);
    assert_int_equal(all.outputs, BLOCKS - 1);
    assert_int_equal(all.n[OP_BN_APPLY], apply.n[OP_BN_APPLY] - (BLOCKS - 1));
    /* a fused operation reads the strided gradient directly */
    assert_int_equal(all.n[OP_ADD_STRIDED], 0);
}

/* TF32 multiplies rounded values, so they have to be stored. */
static void tf32_stores_what_it_multiplies(void **state)
{
    (void)state;
    struct plan_counts c = planned_counts("resnet18", "tf32", FUSE_ALL, TRAIN);
    assert_int_equal(c.n[OP_CONV_APPLY_BWD_WEIGHTS], 0);
    assert_int_equal(c.n[OP_CONV_STATS_FWD], 20);
    assert_true(c.n[OP_CONV_BWD_DATA_BN] > 0);
}

static bool same_operations(const struct plan_counts *a, const struct plan_counts *b)
{
    return memcmp(a->n, b->n, sizeof a->n) == 0 && a->masks == b->masks &&
           a->shortcuts == b->shortcuts;
}

static void nothing_is_fused_without_need(void **state)
{
    (void)state;
    /* --fuse auto fuses nothing on the reference, which cannot time operations. */
    struct plan_counts none = planned_counts("resnet18", "fp32", FUSE_NONE, TRAIN);
    struct plan_counts automatic = planned_counts("resnet18", "fp32", FUSE_AUTO, TRAIN);
    assert_true(same_operations(&none, &automatic));
    /* Evaluation computes no batch statistics. */
    none = planned_counts("resnet18", "fp32", FUSE_NONE, EVAL);
    struct plan_counts all = planned_counts("resnet18", "fp32", FUSE_ALL, EVAL);
    assert_true(same_operations(&none, &all));
    /* AlexNet has no batch norm. */
    none = planned_counts("alexnet", "fp32", FUSE_NONE, TRAIN);
    all = planned_counts("alexnet", "fp32", FUSE_ALL, TRAIN);
    assert_true(same_operations(&none, &all));
    /* Convolutions with a bias compute no sums, but are fused in the backward pass. */
    all = planned_counts("vgg11_bn", "fp32", FUSE_ALL, TRAIN);
    assert_int_equal(all.n[OP_CONV_STATS_FWD], 0);
    assert_int_equal(all.n[OP_CONV_BWD_DATA_BN], 3); /* pooling follows 5 of 8 convolutions */
    assert_int_equal(all.n[OP_BN_POOL_FWD], 5);
    assert_int_equal(all.n[OP_BN_STATISTICS], 5);
}

/* Of the fused forms, the CPU backend supports only masks. With masks, the backward pass does not
 * need the output of the first batch norm, because only the pooling reads this output. It does not
 * need the output of the first batch norm of each block either: this output is recomputed. */
static void the_cpu_backend_takes_masks_alone(void **state)
{
    static const struct program_config configs[] = {
        {.batch = 2, .train = true, .std = {1, 1, 1}, .fuse = FUSE_NONE},
        {.batch = 2, .train = true, .std = {1, 1, 1}, .fuse = FUSE_ALL},
        {.batch = 2, .train = true, .std = {1, 1, 1}},
    };
    enum { RELUS = 17, BLOCKS = 8 };
    struct net_rig r;
    (void)state;
    net_rig_open(&r, "cpu", "resnet18", 10, 64, configs, 3);
    struct plan_counts none = plan_counts_of(r.net->program[0]);
    assert_int_equal(none.masks, 0);
    for (int i = 1; i < 3; i++) {
        struct plan_counts c = plan_counts_of(r.net->program[i]);
        assert_int_equal(c.masks, RELUS);
        assert_int_equal(c.n[OP_BN_APPLY], BLOCKS);
        c.n[OP_BN_APPLY] = 0;
        assert_memory_equal(c.n, none.n, sizeof c.n);
        assert_true(c.arena < none.arena);
    }
    net_rig_close(&r);
}

/* ---- choice by time ---- */

/* A reference that returns a configured time for each kind of operation. */
static struct backend priced;
static struct op_record priced_record[64];
static double price[OP_KIND_COUNT];
static enum op_kind broken = OP_KIND_COUNT; /* kind whose planning fails */
static int asked;                           /* number of requests for a price */
static double masked = 1;                   /* time factor of an operation with a mask */

static enum status set_price(struct op_plan *plan, double *seconds)
{
    asked++;
    *seconds = price[plan->desc.kind] * (plan->desc.t[ROLE_MASK].ndim ? masked : 1);
    return STATUS_OK;
}

static enum status priced_plan(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    const struct backend *ref;
    if (desc->kind == broken)
        return status_fail(STATUS_LIBRARY, "the library fails");
    TRY(backend_find("ref", &ref));
    TRY(ref->record[0].plan(dev, desc, plan));
    (*plan)->seconds = set_price;
    return STATUS_OK;
}

/* Each choice must follow from the recorded times, and a chain that is not fused because of the
 * library has its message. */
static void check_choices(const struct program *p)
{
    int n;
    const struct fusion *c = program_fusions(p, &n);
    for (int i = 0; i < n; i++) {
        bool needs_it = strcmp(c[i].form, "apply") == 0 || strcmp(c[i].form, "join") == 0;
        assert_string_equal(c[i].why,
                            broken != OP_KIND_COUNT && needs_it ? "the library fails" : "");
        assert_true(c[i].taken == (c[i].fused > 0 && c[i].fused * 1.02 < c[i].parts));
        assert_non_null(c[i].layer);
        assert_true(strlen(c[i].form) >= strlen("mask"));
    }
}

static struct plan_counts priced_counts_of(enum fuse fuse)
{
    const struct program_config config = {
        .batch = 2, .train = true, .std = {1, 1, 1}, .fuse = fuse};
    struct net_rig r;
    assert_ok(device_open("ref", 1, &r.dev));
    priced = *r.dev->backend;
    assert_true(priced.n_records <= (int)(sizeof priced_record / sizeof *priced_record));
    for (int i = 0; i < priced.n_records; i++) {
        priced_record[i] = priced.record[i];
        priced_record[i].plan = priced_plan;
    }
    priced.record = priced_record;
    r.dev->backend = &priced;
    assert_ok(graph_build("resnet18", 10, 32, &r.graph));
    assert_ok(network_open(r.dev, r.graph, &config, 1, &r.net));
    struct plan_counts c = plan_counts_of(r.net->program[0]);
    check_choices(r.net->program[0]);
    net_rig_close(&r);
    return c;
}

static struct plan_counts priced_counts(void)
{
    return priced_counts_of(FUSE_AUTO);
}

static void the_clock_decides(void **state)
{
    (void)state;
    for (int k = 0; k < OP_KIND_COUNT; k++)
        price[k] = 1;
    asked = 0;
    priced_counts_of(FUSE_ALL);
    priced_counts_of(FUSE_NONE);
    assert_int_equal(asked, 0); /* an explicit level measures no times */
    struct plan_counts c = priced_counts();
    /* the fused form has three operations, and the unfused form has two operations */
    assert_int_equal(c.n[OP_CONV_STATS_FWD], 0);
    /* the fused and the unfused form have two operations each, so fusion gains nothing */
    assert_int_equal(c.n[OP_CONV_BWD_DATA_BN], 0);
    assert_int_equal(c.masks, 0);
    masked = 0.9;
    assert_true(priced_counts().masks > 0);
    masked = 1;
    price[OP_BN_BWD_APPLY] = 0.97;
    c = priced_counts(); /* a gain of 1.5 % is within the measurement error */
    assert_int_equal(c.n[OP_CONV_BWD_DATA_BN], 0);
    price[OP_BN_BWD_APPLY] = 0.9;
    c = priced_counts();
    /* 8 blocks have 16 batch norms. Pooling follows the last batch norm, so it is not fused. */
    assert_int_equal(c.n[OP_CONV_BWD_DATA_BN], 16 - 1);

    price[OP_BN_FINALIZE] = 0.1;
    price[OP_BN_APPLY] = 0.5;
    c = priced_counts();
    assert_int_equal(c.n[OP_CONV_STATS_FWD], 20);
    assert_int_equal(c.n[OP_CONV_APPLY_BWD_WEIGHTS], 8);

    /* Three blocks have a projection. Except for one or two operations, their fused operations are
     * those of the other blocks. These three blocks are therefore fused too. */
    assert_int_equal(c.shortcuts, 2 * 3);

    price[OP_CONV_BWD_DATA_BN] = 2;
    c = priced_counts();
    assert_int_equal(c.n[OP_CONV_STATS_FWD], 20);
    assert_int_equal(c.n[OP_CONV_APPLY_BWD_WEIGHTS], 0);
    assert_int_equal(c.n[OP_CONV_BWD_DATA_BN], 0);

    /* the fused form has two operations, and the unfused form has four operations */
    assert_int_equal(c.n[OP_BN_POOL_FWD], 1);
    price[OP_BN_POOL_BWD] = 3;
    assert_int_equal(priced_counts().n[OP_BN_POOL_FWD], 0);
    assert_int_equal(priced_counts().n[OP_MAXPOOL_FWD], 1);

    price[OP_BN_FINALIZE] = 0; /* a price of 0 means that the time is unknown */
    assert_int_equal(priced_counts().n[OP_CONV_STATS_FWD], 0);
}

/* A network must train even if planning a fused form fails. */
static void what_fails_is_not_fused(void **state)
{
    (void)state;
    for (int k = 0; k < OP_KIND_COUNT; k++)
        price[k] = 1;
    price[OP_BN_FINALIZE] = 0.1;
    price[OP_BN_APPLY] = 0.5;
    broken = OP_CONV_BWD_DATA_BN;
    struct plan_counts c = priced_counts();
    broken = OP_KIND_COUNT;
    assert_int_equal(c.n[OP_CONV_STATS_FWD], 20);
    assert_int_equal(c.n[OP_CONV_APPLY_BWD_WEIGHTS], 0);
    assert_int_equal(c.n[OP_CONV_BWD_DATA], 20 - 1);
}

/* ---- results of training ---- */

/* Where networks train. */
static const char *trains_on = "ref";

/* Some steps of training. */
struct outcome {
    enum { STEPS = 2 } steps;
    double loss[STEPS];
    int n_params;
    float **first;  /* gradients of the first step; running statistics after the first step */
    float **weight; /* after the last step */
};

static float **values_of(const struct net_rig *r, enum param_value of_trained)
{
    float **v = calloc((size_t)r->graph->n_params, sizeof *v);
    assert_non_null(v);
    for (int i = 0; i < r->graph->n_params; i++)
        v[i] = net_rig_get(r, param_is_trained(&r->graph->param[i]) ? of_trained : VALUE_WEIGHT, i);
    return v;
}

static void train(struct outcome *o, const char *arch, int size,
                  const struct program_config *config)
{
    struct net_rig r;
    net_rig_open(&r, trains_on, arch, 10, size, config, 1);
    struct program *p = network_program(r.net, 0);
    net_rig_fill(&r);
    o->n_params = r.graph->n_params;
    for (int k = 0; k < STEPS; k++) {
        const struct step_state state = {
            .step = (uint64_t)k, .lr = 1e-5f, .loss_scale = 1, .grad_scale = 1};
        struct loss_metrics m;
        net_rig_input(&r, p, k);
        assert_ok(program_state(p, &state));
        for (int phase = PHASE_INPUT; phase <= PHASE_UPDATE; phase++)
            assert_ok(program_run(p, (enum phase)phase));
        assert_ok(program_metrics(p, &m));
        o->loss[k] = m.loss_sum;
        if (k == 0)
            o->first = values_of(&r, VALUE_GRADIENT);
    }
    o->weight = values_of(&r, VALUE_WEIGHT);
    net_rig_close(&r);
}

static void outcome_free(struct outcome *o)
{
    for (int i = 0; i < o->n_params; i++) {
        free(o->first[i]);
        free(o->weight[i]);
    }
    free(o->first);
    free(o->weight);
}

static double norm(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

/* Allowed differences between two outcomes, as fractions. */
struct tolerance {
    double loss, gradient, statistic, weight;
};

static void assert_close(const struct graph *g, const struct outcome *got,
                         const struct outcome *want, const struct tolerance *t)
{
    double all = 0;
    for (int i = 0; i < g->n_params; i++)
        if (param_is_trained(&g->param[i]))
            all = hypot(all, norm(want->first[i], NULL, param_count(&g->param[i])));
    for (int k = 0; k < STEPS; k++)
        if (!(fabs(got->loss[k] - want->loss[k]) <= t->loss * want->loss[k]))
            fail_msg("%s: loss %d is %.9g, not %.9g", g->arch, k, got->loss[k], want->loss[k]);
    for (int i = 0; i < g->n_params; i++) {
        const struct param *p = &g->param[i];
        int64_t n = param_count(p);
        double size = norm(want->first[i], NULL, n), off = norm(got->first[i], want->first[i], n);
        double may = param_is_trained(p) ? t->gradient * (size + 1e-3 * all) : t->statistic * size;
        if (!(off <= may))
            fail_msg("%s: '%s': error %.3g, norm %.3g", g->arch, p->name, off, size);
        size = norm(want->weight[i], NULL, n);
        off = norm(got->weight[i], want->weight[i], n);
        if (!(off <= t->weight * size))
            fail_msg("%s: '%s': final error %.3g, norm %.3g", g->arch, p->name, off, size);
    }
}

/* Compares training at each fusion level from `first` on with training without fusion. Under
 * sanitizers, narrow types are tested only at the highest level. */
static void compare(const char *arch, int size, struct program_config config, enum fuse first,
                    const struct tolerance *tolerance)
{
    struct outcome plain, fused;
    struct graph *g;
    if (SANITIZED && config.policy.operand != DTYPE_F32)
        first = FUSE_ALL;
    assert_ok(graph_build(arch, 10, size, &g));
    config.fuse = FUSE_NONE;
    train(&plain, arch, size, &config);
    for (int f = (int)first; f <= FUSE_ALL; f++) {
        config.fuse = (enum fuse)f;
        train(&fused, arch, size, &config);
        assert_close(g, &fused, &plain, tolerance);
        outcome_free(&fused);
    }
    outcome_free(&plain);
    graph_free(g);
}

static struct program_config training(const char *precision)
{
    struct program_config c = {.batch = 4,
                               .train = true,
                               .float_input = true,
                               .momentum = 0.9f,
                               .weight_decay = 1e-4f,
                               .emulate = true};
    assert_ok(policy_find(precision, -1, &c.policy));
    return c;
}

/* A rounding difference can change the sign of a ReLU's input. This changes gradients by about one
 * percent (tests/model/test_network.c), and later losses with them. */
static const struct tolerance fp32 = {1e-4, 2e-2, 1e-5, 1e-4};

static void training_is_the_same_in_fp32(void **state)
{
    (void)state;
    compare("resnet8", 16, training("fp32"), FUSE_STATS, &fp32);
    if (!SANITIZED)
        compare("resnet18", 32, training("fp32"), FUSE_ALL, &fp32);
}

static void training_is_the_same_in_narrow_types(void **state)
{
    static const struct tolerance tf32 = {1e-3, 5e-2, 1e-3, 1e-3};
    static const struct tolerance fp16 = {1e-3, 1e-1, 1e-3, 1e-3};
    static const struct tolerance bf16 = {1e-2, 4e-1, 1e-2, 1e-2};
    (void)state;
    compare("resnet8", 16, training("O2"), FUSE_STATS, &fp16);
    compare("resnet8", 16, training("bf16"), FUSE_STATS, &bf16);
    compare("resnet8", 16, training("tf32"), FUSE_STATS, &tf32);
}

/* Sums over two ranks that have the same images: doubles each value. */
static enum status twice(void *context, double *values, int64_t n)
{
    ++*(int *)context;
    for (int64_t i = 0; i < n; i++)
        values[i] *= 2;
    return STATUS_OK;
}

static void statistics_over_ranks_are_kept(void **state)
{
    int calls = 0;
    const struct bn_sync sync = {twice, &calls};
    struct program_config config = training("fp32");
    (void)state;
    config.sync = &sync;
    compare("resnet8", 16, config, FUSE_STATS, &fp32);
    assert_int_equal(calls, 4 * STEPS * 2 * 9); /* forward and backward, for 9 batch norms */
}

/* On a device that supports 16-bit types, fused operations are planned, and training gives the same
 * values. */
static void devices_train_the_same(void **state)
{
    static const struct tolerance fp16 = {1e-2, 1e-1, 1e-3, 1e-3};
    struct program_config config = training("fp32");
    (void)state;
    config.emulate = false;
    compare("resnet8", 16, config, FUSE_STATS, &fp32);
    config = training("O2");
    config.emulate = false;
    compare("resnet8", 16, config, FUSE_STATS, &fp16);

    struct net_rig r;
    config.fuse = FUSE_ALL;
    net_rig_open(&r, trains_on, "resnet8", 10, 16, &config, 1);
    struct plan_counts c = plan_counts_of(r.net->program[0]);
    assert_true(c.n[OP_CONV_STATS_FWD] > 0 && c.n[OP_CONV_APPLY_BWD_WEIGHTS] > 0);
    assert_true(c.n[OP_CONV_BWD_DATA_BN] > c.n[OP_CONV_APPLY_BWD_WEIGHTS] && c.masks > 0);
    /* Two of three blocks have a projection. Pooling follows the last block. */
    assert_int_equal(c.shortcuts, 2 * 2);
    assert_true(c.joined_shortcuts > 0 && c.outputs == 2);
    net_rig_close(&r);
}

static int train_on(const char *device)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(devices_train_the_same)};
    trains_on = device;
    return cmocka_run_group_tests_name("fuse", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return train_on(argv[1]);
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_add_up),
        cmocka_unit_test(tf32_stores_what_it_multiplies),
        cmocka_unit_test(nothing_is_fused_without_need),
        cmocka_unit_test(the_cpu_backend_takes_masks_alone),
        cmocka_unit_test(the_clock_decides),
        cmocka_unit_test(what_fails_is_not_fused),
        cmocka_unit_test(training_is_the_same_in_fp32),
        cmocka_unit_test(training_is_the_same_in_narrow_types),
        cmocka_unit_test(statistics_over_ranks_are_kept),
    };
    return cmocka_run_group_tests_name("fuse", tests, NULL, NULL);
}
