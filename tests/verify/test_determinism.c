/* Tests repeated steps. The check passes on deterministic devices. It finds and names a flipped bit
 * in any weight or gradient, in any step and repeat. */
#include "verify/determinism.h"

#include "base/rng.h"
#include "tests/kernels/stream_backend.h"
#include "tests/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { FLIPS = SANITIZED ? 60 : 300, STEPS = 2, REPEATS = 3 };

static const struct determinism_case tiny = {.arch = "resnet8",
                                             .precision = "fp32",
                                             .classes = 5,
                                             .image_size = 8,
                                             .batch = 2,
                                             .steps = STEPS,
                                             .repeats = REPEATS};

static void check_holds(struct device *dev, struct determinism_case c)
{
    struct determinism_result first, second, other;
    if (determinism_check(dev, &c, &first) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(determinism_check(dev, &c, &second), STATUS_OK);
    assert_true(first.bits == second.bits && first.loss == second.loss && first.bytes > 0);
    c.seed++;
    assert_int_equal(determinism_check(dev, &c, &other), STATUS_OK);
    assert_true(first.bits != other.bits && first.loss != other.loss);
}

static void every_precision_holds(void **state)
{
    static const char *const devices[] = {"cpu", "ref"};
    static const char *const precisions[] = {"fp32", "tf32", "amp", "O2", "O3", "bf16"};
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        struct device *dev;
        assert_int_equal(device_open(devices[d], 1, &dev), STATUS_OK);
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
            struct determinism_case c = tiny;
            c.precision = precisions[p];
            check_holds(dev, c);
        }
        device_close(dev);
    }
}

/* The asynchronous device computes the same bits as the reference device, because it executes the
 * reference's operations. */
static void an_asynchronous_device_holds(void **state)
{
    struct stream_backend streams;
    struct determinism_result here, beside;
    struct device *ref, *dev;
    const struct backend *b;
    (void)state;
    assert_int_equal(backend_find("ref", &b), STATUS_OK);
    stream_backend_make(&streams);
    assert_int_equal(device_open("ref", 1, &ref), STATUS_OK);
    assert_int_equal(streams.base.open(&streams.base, 0, 1, &dev), STATUS_OK);
    check_holds(dev, tiny);
    assert_int_equal(determinism_check(ref, &tiny, &here), STATUS_OK);
    assert_int_equal(determinism_check(dev, &tiny, &beside), STATUS_OK);
    assert_true(here.bits == beside.bits);
    device_close(dev);
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
    (void)state;
    assert_int_equal(graph_build(tiny.arch, tiny.classes, tiny.image_size, &g), STATUS_OK);
    assert_int_equal(device_open("cpu", 1, &dev), STATUS_OK);
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
    struct determinism_result r;
    struct determinism_fault f = {.value = VALUE_WEIGHT, .param = 0, .bit = INT64_C(1) << 40};
    struct determinism_case c = tiny;
    struct device *dev;
    (void)state;
    assert_int_equal(device_open("cpu", 1, &dev), STATUS_OK);
    c.fault = &f;
    assert_int_equal(determinism_check(dev, &c, &r), STATUS_INVALID);
    c.fault = NULL;
    c.repeats = 1;
    assert_int_equal(determinism_check(dev, &c, &r), STATUS_INVALID);
    c = tiny;
    c.precision = "fp8";
    assert_int_equal(determinism_check(dev, &c, &r), STATUS_USAGE);
    device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_precision_holds),
        cmocka_unit_test(an_asynchronous_device_holds),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(what_cannot_flip_is_refused),
    };
    return cmocka_run_group_tests_name("determinism", tests, NULL, NULL);
}
