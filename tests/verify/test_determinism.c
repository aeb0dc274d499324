/* Tests repeated steps. The check passes on deterministic devices. It finds and names a flipped bit
 * in any weight or gradient, in any step and repeat. */
#include "verify/determinism.h"

#include "base/rng.h"
#include "tests/kernels/group.h"
#include "tests/kernels/stream_backend.h"

#include <stdio.h>
#include <string.h>

enum { FLIPS = 60, STEPS = 2, REPEATS = 3 };

static const struct determinism_case tiny = {.arch = "resnet8",
                                             .precision = "fp32",
                                             .classes = 5,
                                             .image_size = 8,
                                             .batch = 2,
                                             .steps = STEPS,
                                             .repeats = REPEATS};

/* Returns the bits of the results. */
static uint64_t check_holds(struct device *dev, struct determinism_case c)
{
    struct determinism_result first, second, other;
    expect_ok(determinism_check(dev, &c, &first));
    expect_ok(determinism_check(dev, &c, &second));
    assert_true(first.bits == second.bits && first.loss == second.loss && first.bytes > 0);
    c.seed++;
    expect_ok(determinism_check(dev, &c, &other));
    assert_true(first.bits != other.bits && first.loss != other.loss);
    return first.bits;
}

/* The asynchronous device computes the same bits as the reference device, because it executes the
 * reference's operations. */
static void devices_and_precisions_hold(void **state)
{
    static const char *const precisions[] = {"fp32", "tf32", "amp", "O2", "O3", "bf16"};
    struct stream_backend streams;
    struct device *ref, *cpu, *async;
    stream_backend_make(&streams);
    expect_ok(device_open("ref", 1, &ref));
    expect_ok(device_open("cpu", 1, &cpu));
    expect_ok(streams.base.open(&streams.base, 0, 1, &async));
    for (int p = 0; p < COUNT(precisions); p++) {
        struct determinism_case c = tiny;
        c.precision = precisions[p];
        check_holds(cpu, c);
    }
    assert_true(check_holds(ref, tiny) == check_holds(async, tiny));
    device_close(async);
    device_close(cpu);
    device_close(ref);
}

/* Chooses a bit of an element of a trained parameter, a step, and a repeat. */
static struct determinism_fault any_fault(const struct graph *g, struct rng *rng)
{
    struct determinism_fault f = {.step = (int)rng_below(rng, STEPS),
                                  .repeat = (int)rng_below(rng, REPEATS),
                                  .value = rng_below(rng, 2) ? VALUE_WEIGHT : VALUE_GRADIENT};
    do
        f.param = (int)rng_below(rng, (uint32_t)g->n_params);
    while (!param_is_trained(&g->param[f.param]));
    f.bit = rng_below(rng, (uint32_t)(param_count(&g->param[f.param]) * 32));
    return f;
}

static void see(struct device *dev, const struct graph *g, struct determinism_case c,
                const struct determinism_fault *f)
{
    char named[128];
    struct determinism_result r;
    c.fault = f;
    enum status st = determinism_check(dev, &c, &r);
    /* A flip in a gradient of repeat 0 is reported for repeat 1, the first repeat that is compared
     * with repeat 0. */
    int seen_in = f->value == VALUE_GRADIENT && f->repeat == 0 ? 1 : f->repeat;
    snprintf(named, sizeof named, "step %d, repeat %d: the %s of '%s' differs", f->step, seen_in,
             f->value == VALUE_WEIGHT ? "weight" : "gradient", g->param[f->param].name);
    if (st != STATUS_MISMATCH || !strstr(status_message(), named))
        fail_msg("bit %lld: not '%s' but '%s'", (long long)f->bit, named,
                 st == STATUS_OK ? "no difference" : status_message());
    snprintf(named, sizeof named, "bit %d of", (int)(f->bit % 32));
    assert_non_null(strstr(status_message(), named));
}

static void every_flipped_bit_is_seen(void **state)
{
    static const char *const precisions[] = {"fp32", "amp", "bf16"};
    struct rng rng = rng_at(7, RNG_TEST, 0, 0);
    struct device *dev;
    struct graph *g;
    expect_ok(graph_build(tiny.arch, tiny.classes, tiny.image_size, &g));
    expect_ok(device_open("cpu", 1, &dev));
    for (int i = 0; i < FLIPS; i++) {
        struct determinism_case c = tiny;
        struct determinism_fault f = any_fault(g, &rng);
        c.precision = precisions[i % 3];
        see(dev, g, c, &f);
    }
    device_close(dev);
    graph_free(g);
}

static void what_cannot_flip_is_refused(void **state)
{
    const struct determinism_fault beyond = {.value = VALUE_WEIGHT, .bit = INT64_C(1) << 40};
    struct determinism_case cases[] = {tiny, tiny, tiny};
    static const enum status want[] = {STATUS_INVALID, STATUS_INVALID, STATUS_USAGE};
    struct determinism_result r;
    struct device *dev;
    cases[0].fault = &beyond;
    cases[1].repeats = 1;
    cases[2].precision = "fp8";
    expect_ok(device_open("cpu", 1, &dev));
    for (int i = 0; i < 3; i++)
        assert_int_equal(determinism_check(dev, &cases[i], &r), want[i]);
    device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_and_precisions_hold),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(what_cannot_flip_is_refused),
    };
    return cmocka_run_group_tests_name("determinism", tests, NULL, NULL);
}
