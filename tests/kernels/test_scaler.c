/* Compares the loss scaler's operations on a device with the host's state machine. */
#include "kernels/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), STATUS_OK)

/* The test accesses the devices' memory: for ref and cpu, it is host memory. */
struct rig {
    struct device *dev;
    struct stream *stream;
    struct op_plan *set, *update;
    struct step_state *state;
    struct scaler_state *scaler;
};

static void rig_open(struct rig *r, const char *device, const struct scaler_rule *rule)
{
    const struct op_desc set = {.kind = OP_SCALE_SET},
                         update = {.kind = OP_SCALE_UPDATE, .attr.scaler = *rule};
    void *mem;
    OK(device_open(device, 2, &r->dev));
    OK(r->dev->backend->stream_open(r->dev, &r->stream));
    OK(op_plan(r->dev, &set, &r->set));
    OK(op_plan(r->dev, &update, &r->update));
    OK(r->dev->backend->alloc(r->dev, sizeof *r->state, &mem));
    r->state = mem;
    OK(r->dev->backend->alloc(r->dev, sizeof *r->scaler, &mem));
    r->scaler = mem;
}

static void rig_close(struct rig *r)
{
    r->dev->backend->free(r->dev, r->state);
    r->dev->backend->free(r->dev, r->scaler);
    op_plan_free(r->set);
    op_plan_free(r->update);
    r->dev->backend->stream_close(r->stream);
    device_close(r->dev);
}

static void execute(struct rig *r, struct op_plan *plan)
{
    void *const arg[ROLE_COUNT] = {[ROLE_STATE] = r->state, [ROLE_SCALER] = r->scaler};
    assert_int_equal(plan->workspace, 0);
    OK(op_execute(plan, arg, r->stream));
}

static void assert_state(const struct step_state *got, const struct step_state *want)
{
    assert_int_equal(got->seed, want->seed);
    assert_int_equal(got->step, want->step);
    assert_int_equal(got->sample0, want->sample0);
    assert_true(got->divisor == want->divisor && got->share == want->share);
    assert_true(got->lr == want->lr);
    assert_true(got->loss_scale == want->loss_scale);
    assert_true(got->grad_scale == want->grad_scale);
    assert_int_equal(got->found_inf, want->found_inf);
}

/* Tests loss scales that are not powers of two, and gradient factors other than 1. */
static void check_set(struct rig *r)
{
    static const double scales[] = {65536, 3, 1e-3, 1.0 / 3, 16777217};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const struct step_state before = {.seed = 1,
                                          .step = 2,
                                          .sample0 = 3,
                                          .divisor = 6,
                                          .share = 0.4f,
                                          .lr = 0.5f,
                                          .loss_scale = -1,
                                          .grad_scale = -1,
                                          .found_inf = 7};
        struct step_state want = before;
        float scale = (float)scales[i];
        want.loss_scale = scale * 0.4f;
        want.grad_scale = (float)(1 / ((double)scale * 6));
        *r->state = before;
        *r->scaler = (struct scaler_state){.scale = scales[i]};
        execute(r, r->set);
        assert_state(r->state, &want);
        assert_true(r->scaler->scale == scales[i]);
    }
}

/* In the string, X is an overflow. The scale grows to its maximum, falls to its minimum, and stays
 * there. */
static void check_update(struct rig *r, const struct scaler_rule *rule)
{
    struct scaler_state want = {.scale = 8};
    *r->scaler = want;
    for (const char *step = ".....X..X.........XXXXX.X..."; *step; step++) {
        const struct step_state state = {.lr = 2, .found_inf = *step == 'X'};
        *r->state = state;
        execute(r, r->update);
        assert_state(r->state, &state);
        scaler_advance(rule, &want, *step == 'X');
        assert_true(r->scaler->scale == want.scale);
        assert_int_equal(r->scaler->clean, want.clean);
        assert_int_equal(r->scaler->skipped, want.skipped);
        assert_int_equal(r->scaler->collapsed, want.collapsed);
    }
    assert_int_equal(want.collapsed, 1);
    assert_true(want.scale == 1);
    assert_int_equal(want.skipped, 7);
}

static void check_device(const char *device)
{
    const struct scaler_rule rule = {
        .dynamic = true, .growth = 2, .backoff = 0.5, .interval = 3, .max = 16, .min = 1};
    struct rig r;
    rig_open(&r, device, &rule);
    check_set(&r);
    check_update(&r, &rule);
    rig_close(&r);
}

static void on_ref(void **state)
{
    (void)state;
    check_device("ref");
}

static void on_cpu(void **state)
{
    (void)state;
    check_device("cpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_ref),
        cmocka_unit_test(on_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
