/* Tests the functions that data parallel training uses. Replicas
 * have equal layouts; gradients are announced when they are complete, and rounded before they are
 * summed. */
#include "model/exchange.h"
#include "model/program.h"
#include "net_rig.h"

#include "base/rng.h"

enum { CLASSES = 10, SIZE = 16, BATCH = 4 };

static const struct step_state plain_state = {.lr = 0.1f, .loss_scale = 1, .grad_scale = 1};

static struct program_config training(const char *precision)
{
    struct program_config c = {.batch = BATCH,
                               .train = true,
                               .float_input = true,
                               .label_smoothing = 0.1f,
                               .momentum = 0.9f};
    assert_ok(policy_find(precision, -1, &c.policy));
    return c;
}

/* `arch`: NULL for crossroads_graph(). */
static struct program *open_rig(struct net_rig *r, const char *device, const char *arch,
                                const struct program_config *config)
{
    net_rig_open_on(r, net_rig_device(device),
                    arch ? net_rig_graph(arch, CLASSES, SIZE) : crossroads_graph(), config, 1);
    return network_program(r->net, 0);
}

/* ---- gradients as they are completed ---- */

struct watch {
    struct network *net;
    float *seen; /* copy of each range, made when the range was announced */
    int64_t end;
};

static enum status completed(void *context, int64_t begin, int64_t end)
{
    struct watch *w = context;
    size_t bytes;
    const float *flat = network_flat(w->net, VALUE_GRADIENT, &bytes);
    assert_int_equal(begin, w->end);
    assert_true(end > begin && end * (int64_t)sizeof(float) <= (int64_t)bytes);
    memcpy(w->seen + begin, flat + begin, (size_t)(end - begin) * sizeof(float));
    w->end = end;
    return STATUS_OK;
}

/* Nothing is written to a range after it was announced. Running the phase without announcing gives
 * the same gradients. */
static void check_announced(const char *device, const char *arch, enum fuse fuse)
{
    struct program_config config = training("fp32");
    struct net_rig r;
    size_t bytes;
    config.fuse = fuse;
    struct program *p = open_rig(&r, device, arch, &config);
    float *flat = network_flat(r.net, VALUE_GRADIENT, &bytes);
    struct watch w = {.net = r.net, .seen = malloc(bytes)};
    assert_non_null(w.seen);
    net_rig_fill(&r);
    net_rig_input(&r, p, 0);
    net_rig_run(p, &plain_state, PHASE_LOSS);
    assert_ok(program_backward(p, completed, &w));
    assert_int_equal(w.end * (int64_t)sizeof(float), bytes);
    assert_memory_equal(w.seen, flat, bytes);

    net_rig_run(p, &plain_state, PHASE_LOSS);
    memset(flat, 0, bytes);
    assert_ok(program_backward(p, NULL, NULL));
    assert_memory_equal(w.seen, flat, bytes);

    free(w.seen);
    net_rig_close(&r);
}

static void gradients_are_announced_when_complete(void **state)
{
    check_announced("cpu", "resnet8", FUSE_AUTO);
    check_announced("ref", "resnet8", FUSE_ALL);
    check_announced("ref", NULL, FUSE_NONE);
}

/* ---- layouts ---- */

static uint64_t layout_hash(const struct net_rig *r)
{
    uint64_t hash;
    assert_ok(network_layout_hash(r->net, &hash));
    return hash;
}

/* A device numbers a library's layouts in the order in which it meets them. The same layout may
 * therefore have different numbers on two devices, which does not change the hash. */
static void layouts_are_told_apart(void **state)
{
    struct program_config config = training("fp32");
    struct net_rig alone, second, ref;
    struct network *first;
    struct graph *other = crossroads_graph();
    open_rig(&alone, "cpu", "resnet8", &config);
    open_rig(&ref, "ref", "resnet8", &config);
    struct device *dev = net_rig_device("cpu");
    assert_ok(network_open(dev, other, &config, 1, &first));
    net_rig_open_on(&second, dev, net_rig_graph("resnet8", CLASSES, SIZE), &config, 1);
    net_rig_fill(&alone); /* values do not matter */
    assert_true(layout_hash(&alone) == layout_hash(&second));
    /* All weights have the plain layout on the reference. With oneDNN, no weight has it. */
    assert_true(layout_hash(&alone) != layout_hash(&ref));
    network_close(first);
    graph_free(other);
    net_rig_close(&ref);
    net_rig_close(&second);
    net_rig_close(&alone);
}

/* ---- rounding before a reduction ---- */

/* The type of the gradient at element `e` of the flat buffer. */
static enum dtype type_at(const struct network *net, int64_t e)
{
    int k = 0;
    while (k + 1 < net->n_trained &&
           net->place[net->order[k + 1]].offset <= (size_t)e * sizeof(float))
        k++;
    return net->place[net->order[k]].types.gradient;
}

static void check_rounding(struct network *net, int64_t begin, int64_t end)
{
    size_t bytes;
    float *flat = network_flat(net, VALUE_GRADIENT, &bytes);
    struct rng rng = rng_at(1, RNG_TEST, (uint64_t)begin, (uint64_t)end);
    struct rounding *r;
    int64_t n = (int64_t)(bytes / sizeof(float));
    float *drawn = malloc(bytes);
    assert_non_null(drawn);
    for (int64_t e = 0; e < n; e++)
        flat[e] = drawn[e] = (float)rng_normal(&rng);
    assert_ok(network_plan_rounding(net, begin, end, &r));
    for (int twice = 0; twice < 2; twice++)
        assert_ok(rounding_execute(r));
    for (int64_t e = 0; e < n; e++) {
        bool inside = e >= begin && e < end;
        assert_true(flat[e] == (inside ? dtype_round(type_at(net, e), drawn[e]) : drawn[e]));
    }
    rounding_free(r);
    free(drawn);
}

static void ranges_are_rounded_to_their_types(void **state)
{
    static const char *const device[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        struct program_config config = training("amp"); /* batch norm stays fp32 */
        struct net_rig r;
        size_t bytes;
        open_rig(&r, device[d], "resnet8", &config);
        network_flat(r.net, VALUE_GRADIENT, &bytes);
        int64_t n = (int64_t)(bytes / sizeof(float));
        check_rounding(r.net, 0, n);
        check_rounding(r.net, 7, 1000);
        check_rounding(r.net, n / 3, n - 5);
        check_rounding(r.net, 5, 5);
        net_rig_close(&r);
    }
}

/* 1 + 2^-13 is not an fp16 number: if gradients are rounded, the update is 1. A gradient beyond
 * fp16's range stays finite only if gradients are not rounded. O3's master weights are fp16, so its
 * gradients are always rounded. */
static void averages_are_not_rounded_again(void **state)
{
    static const struct {
        const char *precision;
        bool reduced, rounds;
    } cases[] = {{"O1", false, true}, {"O1", true, false}, {"O3", true, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct program_config config = training(cases[k].precision);
        config.reduced = cases[k].reduced;
        config.check_finite = true;
        struct net_rig r;
        size_t bytes;
        struct program *p = open_rig(&r, "cpu", "resnet8", &config);
        float *g = network_flat(r.net, VALUE_GRADIENT, &bytes);
        const float *v = network_flat(r.net, VALUE_MOMENTUM, &bytes);
        assert_ok(program_state(p, &plain_state));
        g[0] = 1e6f;
        assert_ok(program_run(p, PHASE_CHECK));
        assert_int_equal(((const struct step_state *)r.net->state)->found_inf, cases[k].rounds);
        g[0] = 1 + 0x1p-13f;
        assert_ok(program_run(p, PHASE_CHECK));
        assert_ok(program_run(p, PHASE_UPDATE));
        assert_ok(program_wait(p));
        assert_true(v[0] == (cases[k].rounds ? 1 : 1 + 0x1p-13f));
        net_rig_close(&r);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_announced_when_complete),
        cmocka_unit_test(layouts_are_told_apart),
        cmocka_unit_test(ranges_are_rounded_to_their_types),
        cmocka_unit_test(averages_are_not_rounded_again),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
