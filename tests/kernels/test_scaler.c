/* Compares the loss scaler's operations on the reference and the CPU with the host's state machine.
 */
#include "tests/kernels/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct scaler_rule rule = {
    .dynamic = true, .growth = 2, .backoff = 0.5, .interval = 3, .max = 16, .min = 1};

/* For ref and cpu, the devices' memory is host memory. */
static void execute(struct device *dev, const struct op_desc *d, struct step_state *at,
                    struct scaler_state *scaler)
{
    void *const arg[ROLE_COUNT] = {[ROLE_STATE] = at, [ROLE_SCALER] = scaler};
    struct op_plan *plan;
    OK(op_plan(dev, d, &plan));
    assert_int_equal(plan->workspace, 0);
    OK(op_execute(plan, arg, NULL));
    op_plan_free(plan);
}

static void assert_state(const struct step_state *got, const struct step_state *want)
{
    assert_int_equal(got->seed, want->seed);
    assert_int_equal(got->step, want->step);
    assert_int_equal(got->sample0, want->sample0);
    assert_true(got->divisor == want->divisor && got->share == want->share);
    assert_true(got->lr == want->lr && got->loss_scale == want->loss_scale);
    assert_true(got->grad_scale == want->grad_scale);
    assert_int_equal(got->found_inf, want->found_inf);
}

/* Tests loss scales that are not powers of two, and gradient factors other than 1. */
static void check_set(struct device *dev)
{
    static const double scales[] = {65536, 3, 1e-3, 1.0 / 3, 16777217};
    const struct op_desc set = {.kind = OP_SCALE_SET};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        struct step_state got = {.seed = 1,
                                 .step = 2,
                                 .sample0 = 3,
                                 .divisor = 6,
                                 .share = 0.4f,
                                 .lr = 0.5f,
                                 .loss_scale = -1,
                                 .grad_scale = -1,
                                 .found_inf = 7};
        struct step_state want = got;
        struct scaler_state scaler = {.scale = scales[i]};
        float scale = (float)scales[i];
        want.loss_scale = scale * 0.4f;
        want.grad_scale = (float)(1 / ((double)scale * 6));
        execute(dev, &set, &got, &scaler);
        assert_state(&got, &want);
        assert_true(scaler.scale == scales[i]);
    }
}

/* In the string, X is an overflow. The scale grows to its maximum, falls to its minimum, and stays
 * there. */
static void check_update(struct device *dev)
{
    const struct op_desc update = {.kind = OP_SCALE_UPDATE, .attr.scaler = rule};
    struct scaler_state want = {.scale = 8}, got = want;
    for (const char *step = ".....X..X.........XXXXX.X..."; *step; step++) {
        struct step_state before = {.lr = 2, .found_inf = *step == 'X'}, after = before;
        execute(dev, &update, &after, &got);
        assert_state(&after, &before);
        scaler_advance(&rule, &want, *step == 'X');
        assert_true(got.scale == want.scale);
        assert_int_equal(got.clean, want.clean);
        assert_int_equal(got.skipped, want.skipped);
        assert_int_equal(got.collapsed, want.collapsed);
    }
    assert_true(want.scale == 1 && want.collapsed == 1 && want.skipped == 7);
}

static void devices_do_as_the_host(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct device *dev;
        OK(device_open(i ? "cpu" : "ref", 2, &dev));
        check_set(dev);
        check_update(dev);
        device_close(dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_do_as_the_host)};
    return cmocka_run_group_tests_name("scaler", tests, NULL, NULL);
}
