/* Tests gradients that stay in half precision until the optimizer reads them. Training gives the
 * same bits as with gradients that are converted to fp32, also in a step that overflows.
 *
 *     test_half_gradients [DEVICE]
 *
 * Without a device, runs on a reference whose backend claims hardware support for 16-bit types. */
#include "model/exchange.h"
#include "model/program.h"
#include "net_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2, SIDE = 16, CLASSES = 10, STEPS = 4, OVERFLOWS = 2 };

static const char *trains_on; /* NULL: the reference */

static const struct scaler_rule rule = {true, 1024, 2, 0.5, 100, 65536, 1};

static const struct variant {
    const char *precision;
    struct program_config config;
} variants[] = {
    {"O1", {.fuse = FUSE_NONE}},
    {"O2", {.fuse = FUSE_ALL, .clip = 0.5f}},
    {"bf16", {.fuse = FUSE_NONE, .lars = 0.02f, .nesterov = true}},
};

static bool has_all(struct device *dev, enum dtype type)
{
    (void)dev;
    return type != DTYPE_TF32;
}

struct rig {
    struct net_rig net;
    struct backend native;
};

static void open_device(struct rig *r)
{
    assert_ok(device_open(trains_on ? trains_on : "ref", 1, &r->net.dev));
    r->native = *r->net.dev->backend;
    r->native.native = has_all;
    if (!trains_on)
        r->net.dev->backend = &r->native;
    assert_ok(graph_build("resnet8", CLASSES, SIDE, &r->net.graph));
}

static struct program_config config_of(const struct variant *v)
{
    struct program_config c = v->config;
    assert_ok(policy_find(v->precision, -1, &c.policy));
    c.batch = BATCH;
    c.train = c.check_finite = c.float_input = true;
    c.momentum = 0.9f;
    c.weight_decay = 1e-4f;
    c.scaler = &rule;
    return c;
}

static void open_rig(struct rig *r, const struct variant *v, bool half)
{
    struct program_config c = config_of(v);
    const struct scaler_state begin = {.scale = rule.init};
    c.half_gradients = half;
    c.wgrad_stream = trains_on;
    open_device(r);
    assert_ok(network_open(r->net.dev, r->net.graph, &c, 1, &r->net.net));
    network_use_wgrad_stream(r->net.net, trains_on);
    net_rig_fill(&r->net);
    assert_ok(network_set_scaler(r->net.net, &begin));
}

/* The weight of a convolution in the middle of the network. */
static int some_weight(const struct graph *g)
{
    int at = -1;
    for (int i = 0, seen = 0; i < g->n_params; i++)
        if (g->param[i].kind == PARAM_CONV_WEIGHT && seen++ == 4)
            at = i;
    assert_true(at >= 0);
    return at;
}

static void make_infinite(struct rig *r)
{
    int i = some_weight(r->net.graph);
    float *g = net_rig_get(&r->net, VALUE_GRADIENT, i);
    g[param_count(&r->net.graph->param[i]) - 1] = -INFINITY;
    assert_ok(network_set(r->net.net, VALUE_GRADIENT, i, g));
    free(g);
}

static struct step_outcome step(struct rig *r, int number)
{
    struct program *p = network_program(r->net.net, 0);
    const struct step_state state = {
        .step = (uint64_t)number, .lr = 0.05f, .divisor = 1, .share = 1};
    struct step_outcome o;
    net_rig_input(&r->net, p, number);
    assert_ok(program_state(p, &state));
    for (int phase = PHASE_INPUT; phase < PHASE_COUNT; phase++) {
        assert_ok(program_run(p, (enum phase)phase));
        if (phase == PHASE_BACKWARD && number == OVERFLOWS)
            make_infinite(r);
    }
    assert_ok(program_fetch_outcome(p, &o));
    assert_ok(program_wait(p));
    return o;
}

static void check_equal(const struct rig *r, enum param_value v, int step)
{
    const struct graph *g = r->net.graph;
    for (int i = 0; i < g->n_params; i++) {
        if (v != VALUE_WEIGHT && !param_is_trained(&g->param[i]))
            continue;
        float *a = net_rig_get(&r[0].net, v, i), *b = net_rig_get(&r[1].net, v, i);
        if (memcmp(a, b, (size_t)param_count(&g->param[i]) * sizeof *a) != 0)
            fail_msg("step %d: value %d of '%s' differs", step, v, g->param[i].name);
        free(a);
        free(b);
    }
}

/* ---- plans ---- */

static void check_planned(const struct rig *r, const struct variant *v)
{
    struct program_config c = config_of(v);
    const struct network *net = r->net.net;
    const struct program *p = net->program[0];
    const uint64_t convolution = OP_SET(CONV_BWD_WEIGHTS) | OP_SET(CONV_APPLY_BWD_WEIGHTS);
    int convolutions = 0;
    assert_int_equal(net->half_type, c.policy.weight);
    for (int i = 0; i < p->n_steps; i++) {
        const struct op_desc *d = &p->step[i].plan->desc;
        const char *dw = p->step[i].arg[ROLE_DW];
        if (op_in(d->kind, convolution)) {
            assert_int_equal(d->t[ROLE_DW].type, net->half_type);
            assert_true(dw >= net->half_gradients &&
                        dw + d->t[ROLE_DW].bytes <= net->half_gradients + network_half_bytes(net));
            assert_int_equal((uintptr_t)dw % 16, 0); /* libraries load vectors of 16 bytes */
            convolutions++;
        } else if (d->t[ROLE_DW].ndim) {
            assert_int_equal(d->t[ROLE_DW].type, DTYPE_F32);
        }
        if (op_in(d->kind, OPS_SGD))
            assert_int_equal(d->t[ROLE_DW_HALF].type, net->half_type);
    }
    assert_int_equal(convolutions, 9);
}

/* ---- values ---- */

static void no_bit_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        struct rig r[2];
        for (int k = 0; k < 2; k++)
            open_rig(&r[k], &variants[i], k == 0);
        check_planned(&r[0], &variants[i]);
        assert_int_equal(r[1].net.net->half_type, DTYPE_F32);
        double scale = rule.init;
        for (int n = 0; n < STEPS; n++) {
            struct step_outcome half = step(&r[0], n), wide = step(&r[1], n);
            scale *= n == OVERFLOWS ? 0.5 : 1;
            assert_int_equal(half.state.found_inf, n == OVERFLOWS);
            assert_int_equal(wide.state.found_inf, n == OVERFLOWS);
            assert_true(half.scaler.scale == scale && wide.scaler.scale == scale);
            check_equal(r, VALUE_GRADIENT, n);
            check_equal(r, VALUE_WEIGHT, n);
            check_equal(r, VALUE_MOMENTUM, n);
        }
        net_rig_close(&r[0].net);
        net_rig_close(&r[1].net);
    }
}

static float element(const struct rig *r, int i, int64_t k)
{
    float *g = net_rig_get(&r->net, VALUE_GRADIENT, i);
    float x = g[k];
    free(g);
    return x;
}

static void a_flip_is_of_the_stored_bits(void **state)
{
    struct rig r;
    (void)state;
    open_rig(&r, &variants[0], true);
    int i = some_weight(r.net.graph);
    float *g = net_rig_get(&r.net, VALUE_GRADIENT, i);
    g[0] = 1;
    g[3] = 1.5f;
    assert_ok(network_set(r.net.net, VALUE_GRADIENT, i, g));
    free(g);
    assert_ok(network_flip(r.net.net, VALUE_GRADIENT, i, 3 * 32 + 31));
    assert_ok(network_flip(r.net.net, VALUE_GRADIENT, i, 0));
    assert_true(element(&r, i, 3) == -1.5f && element(&r, i, 0) == 1 + 0x1p-10f);
    net_rig_close(&r.net);
}

/* ---- where gradients are converted to fp32 ---- */

static enum dtype half_type_with(const struct program_config *c)
{
    struct rig r;
    open_device(&r);
    assert_ok(network_open(r.net.dev, r.net.graph, c, 1, &r.net.net));
    enum dtype type = r.net.net->half_type;
    assert_true((type == DTYPE_F32) == !r.net.net->half_gradients);
    net_rig_close(&r.net);
    return type;
}

static void other_precisions_have_none(void **state)
{
    static const char *const precision[] = {"fp32", "tf32"};
    struct program_config c;
    (void)state;
    for (int i = 0; i < 2; i++) {
        c = config_of(&(struct variant){precision[i], {.half_gradients = true}});
        assert_int_equal(half_type_with(&c), DTYPE_F32);
    }
    c = config_of(&(struct variant){"O1", {.half_gradients = true, .emulate = true}});
    assert_int_equal(half_type_with(&c), DTYPE_F32);
    c.emulate = false;
    assert_int_equal(half_type_with(&c), DTYPE_F16);
}

static void reductions_refuse_them(void **state)
{
    struct rig r;
    struct rounding *rounding;
    struct program_config c =
        config_of(&(struct variant){"O1", {.half_gradients = true, .reduced = true}});
    (void)state;
    open_device(&r);
    assert_int_equal(network_open(r.net.dev, r.net.graph, &c, 1, &r.net.net), STATUS_INVALID);
    c.reduced = false;
    assert_ok(network_open(r.net.dev, r.net.graph, &c, 1, &r.net.net));
    assert_int_equal(network_plan_rounding(r.net.net, 0, 16, &rounding), STATUS_INVALID);
    net_rig_close(&r.net);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bit_changes),
        cmocka_unit_test(a_flip_is_of_the_stored_bits),
        cmocka_unit_test(other_precisions_have_none),
        cmocka_unit_test(reductions_refuse_them),
    };
    trains_on = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests_name("half gradients", tests, NULL, NULL);
}
