/* Tests fusion: a fused network trains like an unfused one and takes less memory, and --fuse auto
 * fuses what is faster. */
#include "model/program.h"
#include "net_rig.h"

#include <math.h>

/* ---- plans ---- */

static double arena_of(const char *device, const char *arch, const char *precision, enum fuse fuse)
{
    struct program_config c = {
        .batch = 2, .train = true, .std = {1, 1, 1}, .fuse = fuse, .emulate = true};
    struct net_rig r;
    assert_ok(policy_find(precision, -1, &c.policy));
    net_rig_open_lazy(&r, device, arch, 10, 64, &c, 1);
    double bytes = (double)r.net->program[0]->arena_bytes;
    net_rig_close(&r);
    return bytes;
}

/* Of the three normalised tensors of a ResNet-50 block, fusion does not store the inner two: at
 * least a sixth of the memory of a block. Of the fused forms, the CPU backend supports only masks,
 * with which the backward pass does not need the output of the first batch norm: only the pooling
 * reads it. */
static void fusion_saves_memory(void **state)
{
    static const struct {
        const char *device, *arch, *precision;
        enum fuse more, less;
        double share;
    } cases[] = {
        {"ref", "resnet50", "O2", FUSE_APPLY, FUSE_NONE, 5.0 / 6},
        {"ref", "resnet50", "O2", FUSE_ALL, FUSE_NONE, 5.0 / 6},
        {"cpu", "resnet18", "fp32", FUSE_ALL, FUSE_NONE, 0.99},
        {"cpu", "resnet18", "fp32", FUSE_AUTO, FUSE_NONE, 0.99},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double more = arena_of(cases[i].device, cases[i].arch, cases[i].precision, cases[i].more);
        double less = arena_of(cases[i].device, cases[i].arch, cases[i].precision, cases[i].less);
        if (!(more < cases[i].share * less))
            fail_msg("case %zu: %g bytes, %g with less fusion", i, more, less);
    }
}

/* ---- choice by time ---- */

/* A reference that returns a configured time for each kind of operation. */
static struct backend priced;
static struct op_record priced_record[64];
static double price[OP_KIND_COUNT + 1]; /* the last: time factor of an operation with a mask */

static enum status set_price(struct op_plan *plan, double *seconds)
{
    *seconds = price[plan->desc.kind] * (plan->desc.t[ROLE_MASK].ndim ? price[OP_KIND_COUNT] : 1);
    return STATUS_OK;
}

static enum status priced_plan(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    const struct backend *ref;
    TRY(backend_find("ref", &ref));
    TRY(ref->record[0].plan(dev, desc, plan));
    (*plan)->seconds = set_price;
    return STATUS_OK;
}

/* Each choice must follow from the recorded times. A gain of up to 2 % may be an error of
 * measurement. */
static void check_choices(const struct program *p)
{
    int n;
    const struct fusion *c = program_fusions(p, &n);
    for (int i = 0; i < n; i++)
        assert_true(c[i].taken == (c[i].fused > 0 && c[i].fused * 1.02 < c[i].parts));
}

static void open_priced(struct net_rig *r)
{
    const struct program_config config = {
        .batch = 2, .train = true, .std = {1, 1, 1}, .fuse = FUSE_AUTO};
    struct device *dev = net_rig_device("ref");
    priced = *dev->backend;
    assert_true(priced.n_records <= (int)(sizeof priced_record / sizeof *priced_record));
    for (int i = 0; i < priced.n_records; i++) {
        priced_record[i] = priced.record[i];
        priced_record[i].plan = priced_plan;
    }
    priced.record = priced_record;
    dev->backend = &priced;
    net_rig_open_on(r, dev, net_rig_graph("resnet18", 10, 32), &config, 1);
    check_choices(r->net->program[0]);
}

/* Whether a program has an operation of this kind; OP_KIND_COUNT: any with a mask. */
static bool has(const struct program *p, enum op_kind kind)
{
    for (int i = 0; i < p->n_steps; i++) {
        const struct op_desc *d = &p->step[i].plan->desc;
        if (d->kind == kind || (kind == OP_KIND_COUNT && d->t[ROLE_MASK].ndim))
            return true;
    }
    return false;
}

/* From case to case, the prices change one by one. An operation costs 1 at first. */
static void the_clock_decides(void **state)
{
    static const struct {
        enum op_kind kind; /* its price changes */
        double price;
        enum op_kind fused;
        bool used;
    } cases[] = {
        {OP_CONV_FWD, 1, OP_CONV_STATS_FWD, false},   /* 3 operations instead of 2 */
        {OP_CONV_FWD, 1, OP_CONV_BWD_DATA_BN, false}, /* 2 operations instead of 2 */
        {OP_CONV_FWD, 1, OP_BN_POOL_FWD, true},       /* 2 operations instead of 4 */
        {OP_CONV_FWD, 1, OP_KIND_COUNT, false},
        {OP_KIND_COUNT, 0.9, OP_KIND_COUNT, true},
        {OP_KIND_COUNT, 1, OP_KIND_COUNT, false},
        {OP_BN_BWD_APPLY, 0.97, OP_CONV_BWD_DATA_BN, false},
        {OP_BN_BWD_APPLY, 0.9, OP_CONV_BWD_DATA_BN, true},
        {OP_BN_FINALIZE, 0.1, OP_CONV_FWD, true},
        {OP_BN_APPLY, 0.5, OP_CONV_FWD, false},
        {OP_BN_APPLY, 0.5, OP_CONV_APPLY_BWD_WEIGHTS, true},
        {OP_CONV_BWD_DATA_BN, 2, OP_CONV_BWD_DATA_BN, false},
        {OP_CONV_BWD_DATA_BN, 2, OP_CONV_STATS_FWD, true},
        {OP_BN_POOL_BWD, 3, OP_BN_POOL_FWD, false},
        {OP_BN_FINALIZE, 0, OP_CONV_STATS_FWD, false}, /* 0: the time is unknown */
    };
    struct net_rig r;
    for (int k = 0; k <= OP_KIND_COUNT; k++)
        price[k] = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        price[cases[i].kind] = cases[i].price;
        open_priced(&r);
        if (has(r.net->program[0], cases[i].fused) != cases[i].used)
            fail_msg("case %zu", i);
        net_rig_close(&r);
    }
}

/* ---- results of training ---- */

/* FUSE_NONE and the levels of fusion. */
enum { LEVELS = FUSE_COUNT - FUSE_NONE, STEPS = 2 };

/* Allowed differences, as fractions. */
struct tolerance {
    double loss, gradient, statistic, weight;
};

static double train(struct net_rig *r, int step)
{
    const struct step_state state = {
        .step = (uint64_t)step, .lr = 1e-5f, .loss_scale = 1, .grad_scale = 1};
    struct program *p = network_program(r->net, 0);
    struct loss_metrics m;
    net_rig_input(r, p, step);
    net_rig_run(p, &state, PHASE_UPDATE);
    assert_ok(program_metrics(p, &m));
    return m.loss_sum;
}

/* The norm of all gradients. */
static double gradient_size(const struct net_rig *r)
{
    double all = 0;
    for (int i = 0; i < r->graph->n_params; i++)
        if (param_is_trained(&r->graph->param[i])) {
            float *g = net_rig_get(r, VALUE_GRADIENT, i);
            all = hypot(all, net_rig_norm(g, NULL, param_count(&r->graph->param[i])));
            free(g);
        }
    return all;
}

static void check_step(const struct net_rig *fused, const struct net_rig *plain, int step,
                       const struct tolerance *t)
{
    double all = gradient_size(plain);
    for (int i = 0; i < plain->graph->n_params; i++) {
        bool trained = param_is_trained(&plain->graph->param[i]);
        if (step == 0 && trained)
            net_rig_assert_close(fused, plain, i, VALUE_GRADIENT, t->gradient, 1e-3 * all);
        net_rig_assert_close(fused, plain, i, VALUE_WEIGHT,
                             trained || step > 0 ? t->weight : t->statistic, 0);
    }
}

/* Compares training at each fusion level with training without fusion. `arch`: NULL for
 * crossroads_graph(). */
static void compare(const char *arch, struct program_config config, const struct tolerance *t)
{
    struct net_rig r[LEVELS];
    for (int l = 0; l < LEVELS; l++) {
        config.fuse = (enum fuse)(FUSE_NONE + l);
        net_rig_open_on(&r[l], net_rig_device("ref"),
                        arch ? net_rig_graph(arch, 10, 16) : crossroads_graph(), &config, 1);
        net_rig_fill(&r[l]);
        const struct program *p = r[l].net->program[0];
        assert_true((has(p, OP_CONV_STATS_FWD) || has(p, OP_BN_POOL_FWD)) == (l > 0));
    }
    for (int k = 0; k < STEPS; k++) {
        double plain = train(&r[0], k);
        for (int l = 1; l < LEVELS; l++) {
            double loss = train(&r[l], k);
            if (!(fabs(loss - plain) <= t->loss * plain))
                fail_msg("level %d: loss %d is %.9g, not %.9g", l, k, loss, plain);
            check_step(&r[l], &r[0], k, t);
        }
    }
    for (int l = 0; l < LEVELS; l++)
        net_rig_close(&r[l]);
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

/* A rounding difference can change the sign of a ReLU's input. This changes gradients by about
 *     1 / sqrt(units of the layer of the ReLU)
 * or two percent, and later losses with them. A wrong operation changes gradients by about 100 %.
 */
static const struct tolerance fp32 = {1e-4, 2e-2, 1e-5, 1e-4};

static void training_is_the_same(void **state)
{
    static const struct tolerance tf32 = {1e-3, 5e-2, 1e-3, 1e-3};
    static const struct tolerance fp16 = {1e-3, 1e-1, 1e-3, 1e-3};
    static const struct tolerance bf16 = {1e-2, 4e-1, 1e-2, 1e-2};
    compare("resnet8", training("fp32"), &fp32);
    compare(NULL, training("fp32"), &fp32);
    compare("resnet8", training("O2"), &fp16);
    compare("resnet8", training("bf16"), &bf16);
    compare("resnet8", training("tf32"), &tf32);
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
    config.sync = &sync;
    compare("resnet8", config, &fp32);
    assert_true(calls > 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(fusion_saves_memory),
        cmocka_unit_test(the_clock_decides),
        cmocka_unit_test(training_is_the_same),
        cmocka_unit_test(statistics_over_ranks_are_kept),
    };
    return cmocka_run_group_tests_name("fuse", tests, NULL, NULL);
}
