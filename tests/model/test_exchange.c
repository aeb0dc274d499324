/* Tests the functions that data parallel training uses. Flat buffers can be copied between
 * replicas; gradients are announced when they are complete, and rounded before they are summed. */
#include "exchange_rig.h"

#include "base/rng.h"
#include "model/exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- gradients as they are completed ---- */

struct watch {
    struct network *net;
    float *seen; /* copy of each range, made when the range was announced */
    int64_t end;
    int calls, stop_after;
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
    return ++w->calls == w->stop_after ? status_fail(STATUS_INTERRUPTED, "enough") : STATUS_OK;
}

static void check_announced(const char *device, const char *arch)
{
    struct program_config config = training("fp32");
    struct net_rig r;
    struct watch w = {0};
    size_t bytes;
    open_rig(&r, device, arch, &config);
    struct program *p = network_program(r.net, 0);
    const float *flat = network_flat(r.net, VALUE_GRADIENT, &bytes);
    net_rig_fill(&r);
    net_rig_input(&r, p, 0);
    run_until(p, PHASE_LOSS);
    w = (struct watch){.net = r.net, .seen = malloc(bytes)};
    assert_non_null(w.seen);
    assert_ok(program_backward(p, completed, &w));
    assert_int_equal(w.end * (int64_t)sizeof(float), bytes);
    /* nothing was written to a range after it was announced */
    assert_memory_equal(w.seen, flat, bytes);

    /* Running the phase without announcing gives the same gradients. */
    run_until(p, PHASE_LOSS);
    memset(network_flat(r.net, VALUE_GRADIENT, &bytes), 0, bytes);
    assert_ok(program_backward(p, NULL, NULL));
    assert_memory_equal(w.seen, flat, bytes);
    run_until(p, PHASE_BACKWARD);
    assert_memory_equal(w.seen, flat, bytes);
    free(w.seen);
    net_rig_close(&r);
}

static void gradients_are_announced_when_complete(void **state)
{
    (void)state;
    check_announced("cpu", "resnet8");
    check_announced("ref", "resnet8");
    check_announced("cpu", NULL);
}

static void a_failure_ends_the_backward_phase(void **state)
{
    (void)state;
    struct program_config config = training("fp32");
    struct net_rig r;
    size_t bytes;
    open_rig(&r, "cpu", "resnet8", &config);
    network_flat(r.net, VALUE_GRADIENT, &bytes);
    struct watch w = {.net = r.net, .seen = malloc(bytes), .stop_after = 2};
    assert_non_null(w.seen);
    net_rig_fill(&r);
    run_until(network_program(r.net, 0), PHASE_LOSS);
    assert_int_equal(program_backward(network_program(r.net, 0), completed, &w),
                     STATUS_INTERRUPTED);
    assert_string_equal(status_message(), "enough");
    assert_int_equal(w.calls, 2);
    free(w.seen);
    net_rig_close(&r);
}

/* ---- replicas ---- */

/* Copies weights and statistics of `a` to `b` by their flat buffers. */
static void replicate(const struct net_rig *a, const struct net_rig *b)
{
    size_t bytes, same;
    const void *from = network_flat(a->net, VALUE_WEIGHT, &bytes);
    void *to = network_flat(b->net, VALUE_WEIGHT, &same);
    assert_int_equal(bytes, same);
    device_copy(a, to, from, bytes);
    from = network_buffers(a->net, &bytes);
    to = network_buffers(b->net, &same);
    assert_int_equal(bytes, same);
    device_copy(a, to, from, bytes);
    network_touched(b->net);
}

/* A replica whose weights were copied as bytes computes the same as the original. In bf16, this
 * requires new half-precision copies of the weights. */
static void replicas_compute_the_same(void **state)
{
    (void)state;
    static const char *const precision[] = {"fp32", "bf16"};
    for (int k = 0; k < 2; k++) {
        struct program_config config = training(precision[k]);
        float want[BATCH * CLASSES], got[BATCH * CLASSES];
        struct net_rig r[2];
        for (int i = 0; i < 2; i++)
            open_rig(&r[i], "cpu", "resnet8", &config);
        net_rig_fill(&r[0]);
        assert_ok(network_init(r[1].net, 1));
        for (int i = 1; i >= 0; i--) { /* the replica first runs once with its own weights */
            net_rig_input(&r[i], network_program(r[i].net, 0), 0);
            run_until(network_program(r[i].net, 0), PHASE_UPDATE);
        }
        replicate(&r[0], &r[1]);
        for (int i = 0; i < 2; i++) {
            net_rig_input(&r[i], network_program(r[i].net, 0), 1);
            run_until(network_program(r[i].net, 0), PHASE_FORWARD);
            assert_ok(program_logits(network_program(r[i].net, 0), i ? got : want));
        }
        assert_memory_equal(got, want, sizeof want);
        for (int i = 0; i < 2; i++)
            net_rig_close(&r[i]);
    }
}

/* The hash changes if a parameter moves, and if it gets another layout of the same size. */
static void check_layout_changes(const struct net_rig *r, struct placement *at)
{
    uint64_t before = layout_hash(r);
    struct placement was = *at;
    at->offset += 64;
    assert_true(layout_hash(r) != before);
    *at = was;
    at->desc.layout = at->desc.layout == LAYOUT_PLAIN ? LAYOUT_NHWC : LAYOUT_PLAIN;
    assert_true(layout_hash(r) != before);
    *at = was;
    assert_true(layout_hash(r) == before);
}

static void layouts_are_told_apart(void **state)
{
    (void)state;
    struct program_config config = training("fp32");
    struct net_rig a, b, ref;
    open_rig(&a, "cpu", "resnet8", &config);
    open_rig(&b, "cpu", "resnet8", &config);
    open_rig(&ref, "ref", "resnet8", &config);
    net_rig_fill(&a); /* values do not matter */
    assert_true(layout_hash(&a) == layout_hash(&b));
    for (int i = 0; i < b.graph->n_params; i += 5)
        check_layout_changes(&b, &b.net->place[i]);
    /* All weights have the plain layout on the reference. With oneDNN, no weight has it. */
    assert_true(layout_hash(&a) != layout_hash(&ref));
    net_rig_close(&ref);
    net_rig_close(&b);
    net_rig_close(&a);
}

/* A device numbers a library's layouts in the order in which it meets them. The same layout may
 * therefore have different numbers on two devices. */
static void numbers_of_opaque_layouts_do_not_matter(void **state)
{
    (void)state;
    struct program_config config = training("fp32");
    struct net_rig alone, second;
    struct network *first;
    struct graph *other = draw_plain_graph();
    open_rig(&alone, "cpu", "resnet8", &config);
    assert_ok(device_open("cpu", 2, &second.dev));
    assert_ok(graph_build("resnet8", CLASSES, SIZE, &second.graph));
    assert_ok(network_open(second.dev, other, &config, 1, &first));
    assert_ok(network_open(second.dev, second.graph, &config, 1, &second.net));
    assert_true(layout_hash(&alone) == layout_hash(&second));
    network_close(first);
    graph_free(other);
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
    (void)state;
    static const char *const device[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        struct program_config config = training("amp"); /* batch norm stays fp32 */
        struct rounding *none;
        struct net_rig r;
        size_t bytes;
        open_rig(&r, device[d], "resnet8", &config);
        network_flat(r.net, VALUE_GRADIENT, &bytes);
        int64_t n = (int64_t)(bytes / sizeof(float));
        check_rounding(r.net, 0, n);
        check_rounding(r.net, 0, 1);
        check_rounding(r.net, 7, 1000);
        check_rounding(r.net, n / 3, n - 5);
        check_rounding(r.net, 5, 5);
        assert_int_equal(network_plan_rounding(r.net, 0, n + 1, &none), STATUS_INVALID);
        assert_int_equal(network_plan_rounding(r.net, 3, 2, &none), STATUS_INVALID);
        net_rig_close(&r);
    }
}

/* 1 + 2^-13 is not an fp16 number: if gradients are rounded, the update is 1. A gradient beyond
 * fp16's range stays finite only if gradients are not rounded. */
static void averages_are_not_rounded_again(void **state)
{
    (void)state;
    static const char *const precision[] = {"O1", "O3"};
    for (int k = 0; k < 2; k++) {
        for (int reduced = 0; reduced < 2; reduced++) {
            struct program_config config = training(precision[k]);
            config.reduced = reduced;
            config.check_finite = true;
            struct net_rig r;
            size_t bytes;
            bool rounds =
                !reduced ||
                k == 1; /* O3's master weights are fp16, so its gradients are always rounded */
            open_rig(&r, "cpu", "resnet8", &config);
            struct program *p = network_program(r.net, 0);
            float *g = network_flat(r.net, VALUE_GRADIENT, &bytes);
            const float *v = network_flat(r.net, VALUE_MOMENTUM, &bytes);
            assert_ok(program_state(p, &plain_state));
            g[0] = 1e6f;
            assert_ok(program_run(p, PHASE_CHECK));
            assert_int_equal(((const struct step_state *)r.net->state)->found_inf, rounds);
            g[0] = 1 + 0x1p-13f;
            assert_ok(program_run(p, PHASE_CHECK));
            assert_ok(program_run(p, PHASE_UPDATE));
            assert_ok(program_wait(p));
            assert_true(v[0] == (rounds ? 1 : 1 + 0x1p-13f));
            net_rig_close(&r);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_announced_when_complete),
        cmocka_unit_test(a_failure_ends_the_backward_phase),
        cmocka_unit_test(replicas_compute_the_same),
        cmocka_unit_test(layouts_are_told_apart),
        cmocka_unit_test(numbers_of_opaque_layouts_do_not_matter),
        cmocka_unit_test(ranges_are_rounded_to_their_types),
        cmocka_unit_test(averages_are_not_rounded_again),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
