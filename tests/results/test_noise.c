/* Tests with invented steps and counters whether a run is reported as disturbed by other programs.
 */
#include "results/noise.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 200, WARMUP = 10 };

static struct step_record steps[STEPS];

/* Returns a run. The first steps after warm-up take `seconds` seconds each; `far` is the number of
 * these steps. All other steps take 2 s. */
static struct run run_of(int far, double seconds)
{
    for (int i = 0; i < STEPS; i++) {
        bool is_far = i >= WARMUP && i < WARMUP + far;
        double spent = is_far ? seconds : 2;
        steps[i] = (struct step_record){.step = i,
                                        .h2d_s = 0.1 * spent,
                                        .forward_s = 0.3 * spent,
                                        .backward_s = 0.5 * spent,
                                        .optimizer_s = 0.1 * spent,
                                        .total_s = spent};
    }
    return (struct run){.step = steps, .n_steps = STEPS};
}

static const struct host_noise quiet = {
    .seconds = 60, .load_start = 0.1, .load_end = 2, .steal = 0, .others = 0, .preempted_per_s = 3};

static bool judge(struct run run, struct host_noise host, char text[NOISE_TEXT_MAX])
{
    struct noise n = {.host = host};
    assert_int_equal(noise_of_steps(&run, &n), STATUS_OK);
    assert_int_equal(n.steps, run.n_steps - run_warmup(&run));
    return noise_judge(&n, text);
}

/* 190 steps follow the warm-up. A run may have 5 % slow steps: 9 slow steps are 4.7 %, and 10 are
 * 5.3 %. */
static void test_far_steps(void **state)
{
    (void)state;
    char text[NOISE_TEXT_MAX];
    assert_int_equal(run_warmup(&(struct run){.step = steps, .n_steps = STEPS}), WARMUP);
    assert_false(judge(run_of(0, 0), quiet, text));
    assert_string_equal(text, "");
    assert_false(judge(run_of(9, 3.1), quiet, text));
    assert_true(judge(run_of(10, 3.1), quiet, text));
    assert_string_equal(text, "5.3 % of the steps took more than 1.5 times the median");
    /* a step that takes less than 1.5 times the median is not a "far step" (results/noise.h) */
    assert_false(judge(run_of(50, 2.9), quiet, text));
    assert_false(judge(run_of(50, 0.1), quiet, text)); /* fast steps are not a disturbance */
}

/* Waiting for data or for other ranks is not caused by other programs, so it is no disturbance. */
static void test_waiting_is_no_noise(void **state)
{
    (void)state;
    char text[NOISE_TEXT_MAX];
    struct run run = run_of(0, 0);
    for (int i = 0; i < STEPS; i += 2) {
        steps[i].data_s = 5;
        steps[i].comm_s = 7;
        steps[i].total_s += 12;
    }
    assert_false(judge(run, quiet, text));
}

static void test_short_runs_are_not_judged(void **state)
{
    (void)state;
    char text[NOISE_TEXT_MAX];
    struct run run = run_of(5, 9);
    struct host_noise host = quiet;
    run.n_steps = NOISE_STEPS_MIN - 1;
    host.seconds = NOISE_SECONDS_MIN - 1;
    host.steal = host.others = 0.9;
    assert_false(judge(run, host, text));
    run.n_steps = 0;
    assert_false(judge(run, host, text));
}

static void test_host(void **state)
{
    (void)state;
    char text[NOISE_TEXT_MAX];
    struct host_noise host = quiet;
    host.steal = NOISE_STEAL;
    host.others = NOISE_OTHERS;
    assert_false(judge(run_of(0, 0), host, text));
    host.steal = 0.03;
    assert_true(judge(run_of(0, 0), host, text));
    assert_string_equal(text, "3.0 % of the processors' time was stolen by other guests");
    host.others = 0.5;
    assert_true(judge(run_of(20, 4), host, text));
    assert_string_equal(text,
                        "10.5 % of the steps took more than 1.5 times the median, 3.0 % of the "
                        "processors' time was stolen by other guests, 50.0 % of the "
                        "processors' time went to other processes");
    host.steal = host.others = NAN; /* not known */
    assert_false(judge(run_of(0, 0), host, text));
}

static void test_record(void **state)
{
    (void)state;
    char text[NOISE_TEXT_MAX], read[NOISE_TEXT_MAX];
    struct noise n = {.host = quiet, .steps = 100, .far_share = 0.25};
    n.host.others = NAN;
    json_t *summary = json_pack("{s:o}", "noise", noise_json(&n));
    assert_non_null(summary);
    assert_true(noise_judge(&n, text));
    assert_true(noise_recorded(summary, read));
    assert_string_equal(read, text);
    const json_t *noise = json_object_get(summary, "noise");
    assert_true(json_number_value(json_object_get(noise, "far_steps")) == 0.25);
    assert_true(json_number_value(json_object_get(noise, "load_end")) == 2);
    assert_null(json_object_get(noise, "others"));
    json_decref(summary);
    n.far_share = 0;
    summary = json_pack("{s:o}", "noise", noise_json(&n));
    assert_false(noise_recorded(summary, read));
    json_decref(summary);
    assert_false(noise_recorded(NULL, read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_steps),
        cmocka_unit_test(test_waiting_is_no_noise),
        cmocka_unit_test(test_short_runs_are_not_judged),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
