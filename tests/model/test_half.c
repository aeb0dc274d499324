/* Tests weights and gradients that are kept in half precision next to fp32: copies of weights,
 * which the optimizer writes for the passes, and gradients, which the optimizer reads. Training
 * gives the same bits as without them, also in a step that overflows.
 *
 *     test_model half [DEVICE]
 *
 * Without a device, runs on a reference whose backend claims hardware support for 16-bit types. */
#include "model/exchange.h"
#include "model/program.h"
#include "net_rig.h"
#include "tests/suite.h"

#include <math.h>

enum { BATCH = 2, SIDE = 16, CLASSES = 10, STEPS = 4, OVERFLOWS = 2, RECORDS_MAX = 64 };

static const char *trains_on; /* NULL: the reference */

static const struct scaler_rule rule = {true, 1024, 2, 0.5, 100, 65536, 1};

/* What is kept in half precision in one of two networks that train. */
enum kept { HALF_GRADIENTS, COPIES };

static const struct variant {
    enum kept kept;
    const char *precision;
    struct program_config config;
} variants[] = {
    {HALF_GRADIENTS, "O1", {.fuse = FUSE_NONE}},
    {HALF_GRADIENTS, "O2", {.fuse = FUSE_ALL, .clip = 0.5f}},
    {HALF_GRADIENTS, "bf16", {.fuse = FUSE_NONE, .lars = 0.02f, .nesterov = true}},
    {COPIES, "O2", {.fuse = FUSE_NONE}},
    {COPIES, "O3", {.fuse = FUSE_NONE}},
    {COPIES, "bf16", {.fuse = FUSE_NONE}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

struct rig {
    struct net_rig net;
    struct backend backend; /* of the reference that claims 16-bit types */
    struct op_record record[RECORDS_MAX];
};

static bool has_all(struct device *dev, enum dtype type)
{
    (void)dev;
    return type != DTYPE_TF32;
}

static enum status refuse_copies(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan)
{
    const struct backend *ref;
    if (desc->t[ROLE_WCOPY].ndim)
        return status_fail(STATUS_UNSUPPORTED, "no copies here");
    TRY(backend_find("ref", &ref));
    return ref->record[0].plan(dev, desc, plan);
}

/* `copies`: the optimizer can write copies. */
static struct device *open_device(struct rig *r, bool copies)
{
    struct device *dev = net_rig_device(trains_on ? trains_on : "ref");
    dev->deterministic = true; /* else the fastest engine may add in any order */
    if (trains_on)
        return dev;
    r->backend = *dev->backend;
    r->backend.native = has_all;
    assert_in_range(r->backend.n_records, 1, RECORDS_MAX);
    memcpy(r->record, r->backend.record, (size_t)r->backend.n_records * sizeof r->record[0]);
    r->backend.record = r->record;
    for (int i = 0; i < r->backend.n_records && !copies; i++)
        r->record[i].plan = refuse_copies;
    dev->backend = &r->backend;
    return dev;
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

static void open_with(struct rig *r, const struct program_config *train, bool copies)
{
    struct program_config c[2] = {*train, *train};
    c[1].train = false;
    net_rig_open_on(&r->net, open_device(r, copies), net_rig_graph("resnet8", CLASSES, SIDE), c, 2);
}

/* `half`: the network keeps the variant's values in half precision. */
static void open_rig(struct rig *r, const struct variant *v, bool half)
{
    struct program_config c = config_of(v);
    const struct scaler_state begin = {.scale = rule.init};
    c.half_gradients = half && v->kept == HALF_GRADIENTS;
    c.wgrad_stream = trains_on;
    open_with(r, &c, half || v->kept != COPIES);
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

/* Sets element `k` of value `v` of parameter i; a negative `k` counts from the end. */
static void set_element(struct rig *r, enum param_value v, int i, int64_t k, float value)
{
    int64_t n = param_count(&r->net.graph->param[i]);
    float *plain = net_rig_get(&r->net, v, i);
    plain[k < 0 ? n + k : k] = value;
    assert_ok(network_set(r->net.net, v, i, plain));
    free(plain);
}

static void step(struct rig *r, int number, double scale)
{
    struct program *p = network_program(r->net.net, 0);
    const struct step_state state = {
        .step = (uint64_t)number, .lr = 0.05f, .divisor = 1, .share = 1};
    struct step_outcome o;
    net_rig_input(&r->net, p, number);
    net_rig_run(p, &state, PHASE_BACKWARD);
    if (number == OVERFLOWS)
        set_element(r, VALUE_GRADIENT, some_weight(r->net.graph), -1, -INFINITY);
    assert_ok(program_run(p, PHASE_CHECK));
    assert_ok(program_run(p, PHASE_UPDATE));
    assert_ok(program_fetch_outcome(p, &o));
    assert_ok(program_wait(p));
    assert_int_equal(o.state.found_inf, number == OVERFLOWS);
    assert_true(o.scaler.scale == scale);
}

/* Halves all weights through the flat buffer, as another replica's weights replace them. */
static void replace_weights(struct rig *r)
{
    struct stream *s = network_stream(r->net.net);
    const struct backend *b = r->net.dev->backend;
    size_t bytes;
    void *flat = network_flat(r->net.net, VALUE_WEIGHT, &bytes);
    float *host = malloc(bytes);
    assert_non_null(host);
    assert_ok(b->download(s, host, flat, bytes));
    assert_ok(b->stream_sync(s));
    for (size_t i = 0; i < bytes / sizeof *host; i++)
        host[i] /= 2;
    assert_ok(b->upload(s, flat, host, bytes));
    assert_ok(b->stream_sync(s));
    network_touched(r->net.net);
    free(host);
}

static void check_same(const struct rig r[2])
{
    static const struct step_state state = {.loss_scale = 1, .grad_scale = 1};
    float logits[2][BATCH * CLASSES];
    net_rig_assert_same(&r[0].net, &r[1].net, VALUE_GRADIENT);
    net_rig_assert_same(&r[0].net, &r[1].net, VALUE_WEIGHT);
    net_rig_assert_same(&r[0].net, &r[1].net, VALUE_MOMENTUM);
    for (int k = 0; k < 2; k++) { /* copies are not stale */
        struct net_rig net = r[k].net;
        net_rig_input(&net, network_program(net.net, 1), STEPS);
        net_rig_run(network_program(net.net, 1), &state, PHASE_FORWARD);
        assert_ok(program_logits(network_program(net.net, 1), logits[k]));
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

/* The networks differ in what they keep. Libraries load vectors of 16 bytes of gradients. */
static void check_kept(const struct rig r[2], enum kept kept)
{
    const struct network *half = r[0].net.net, *wide = r[1].net.net;
    const struct program *p = half->program[0];
    if (kept == COPIES) {
        assert_true(half->has_copies && !wide->has_copies);
        return;
    }
    assert_true(half->half_type != DTYPE_F32 && wide->half_type == DTYPE_F32);
    for (int i = 0; i < p->n_steps; i++)
        if (op_in(p->step[i].plan->desc.kind,
                  OP_SET(CONV_BWD_WEIGHTS) | OP_SET(CONV_APPLY_BWD_WEIGHTS)))
            assert_int_equal((uintptr_t)p->step[i].arg[ROLE_DW] % 16, 0);
}

static void no_bit_changes(void **state)
{
    for (int i = 0; i < VARIANTS; i++) {
        struct rig r[2];
        if (trains_on && i != 1)
            continue; /* the fake GPU is slow, and its optimizer always writes copies */
        for (int k = 0; k < 2; k++)
            open_rig(&r[k], &variants[i], k == 0);
        check_kept(r, variants[i].kept);
        double scale = rule.init;
        for (int n = 0; n < STEPS; n++) {
            scale *= n == OVERFLOWS ? 0.5 : 1;
            for (int k = 0; k < 2; k++)
                step(&r[k], n, scale);
            check_same(r);
            for (int k = 0; k < 2 && n == 0; k++)
                set_element(&r[k], VALUE_WEIGHT, some_weight(r[k].net.graph), 0, 1.25f);
            for (int k = 0; k < 2 && n == OVERFLOWS; k++)
                replace_weights(&r[k]);
            check_same(r);
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
    open_rig(&r, &variants[0], true);
    int i = some_weight(r.net.graph);
    set_element(&r, VALUE_GRADIENT, i, 0, 1);
    set_element(&r, VALUE_GRADIENT, i, 3, 1.5f);
    assert_ok(network_flip(r.net.net, VALUE_GRADIENT, i, 3 * 32 + 31));
    assert_ok(network_flip(r.net.net, VALUE_GRADIENT, i, 0));
    assert_true(element(&r, i, 3) == -1.5f && element(&r, i, 0) == 1 + 0x1p-10f);
    net_rig_close(&r.net);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bit_changes),
        cmocka_unit_test(a_flip_is_of_the_stored_bits),
    };
    trains_on = suite_argc > 1 ? suite_argv[1] : NULL;
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
