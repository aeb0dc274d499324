/* Tests with invented steps and counters whether a run is reported as disturbed by other programs.
 */
#include "results/noise.h"
#include "run_rig.h"

#include <math.h>
#include <string.h>

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

/* Judges a run. `says` are the numbers of the expected reasons; NULL: the run is quiet. */
static void expect(struct run run, struct host_noise host, const char *const *says)
{
    char text[NOISE_TEXT_MAX];
    struct noise n = {.host = host};
    expect_ok(noise_of_steps(&run, &n));
    assert_int_equal(n.steps, run.n_steps - run_warmup(&run));
    assert_int_equal(noise_judge(&n, text), says != NULL);
    for (; says && *says; says++)
        if (!strstr(text, *says))
            fail_msg("no '%s' in '%s'", *says, text);
}
#define REASONS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* 190 steps follow the warm-up. A run may have 5 % slow steps: 9 slow steps are 4.7 %, and 10 are
 * 5.3 %. A slow step takes more than 1.5 times the median; fast steps are not a disturbance. */
static void test_far_steps(void **state)
{
    assert_int_equal(run_warmup(&(struct run){.step = steps, .n_steps = STEPS}), WARMUP);
    expect(run_of(0, 0), quiet, NULL);
    expect(run_of(9, 3.1), quiet, NULL);
    expect(run_of(10, 3.1), quiet, REASONS("5.3 % of the steps"));
    expect(run_of(50, 2.9), quiet, NULL);
    expect(run_of(50, 0.1), quiet, NULL);
    struct run run = run_of(0, 0);
    for (int i = 0; i < STEPS; i += 2) {
        steps[i].data_s = 5; /* waiting for data or other ranks is no disturbance */
        steps[i].comm_s = 7;
        steps[i].total_s += 12;
    }
    expect(run, quiet, NULL);
}

/* A few steps cannot show far steps. Counters over a short time show only strong signs: in 3.5 s, a
 * processor has 350 ticks, and three standard errors of a share are at most 8 %. */
static void test_short_runs(void **state)
{
    struct run run = run_of(5, 9);
    struct host_noise host = quiet;
    run.n_steps = NOISE_STEPS_MIN - 1;
    expect(run, host, NULL);
    host.seconds = 3.5;
    host.others = 0.17;
    host.steal = 0.015;
    expect(run, host, NULL);
    host.others = 0.84;
    expect(run, host, REASONS("84.0 % of the processors' time went to other"));
    host.processors = 4;
    host.others = 0.15;
    host.steal = 0.02;
    host.throttled = 0.3;
    expect(run, host, REASONS("15.0 %", "2.0 %", "30.0 % of the processors' time was withheld"));
    host.seconds = 0.001; /* no tick */
    host.steal = host.others = host.throttled = 1;
    expect(run, host, NULL);
}

/* What earlier versions recorded is judged by its numbers. */
static void test_records(void **state)
{
    static const struct {
        const char *summary;
        bool disturbed;
    } records[] = {
        {"{}", false},
        {"{\"noise\": 7}", false},
        {"{\"noise\": {\"disturbed\": false, \"seconds\": 60, \"others\": 0.02}}", false},
        {"{\"noise\": {\"disturbed\": false, \"seconds\": 3.5, \"others\": 0.84}}", true},
        {"{\"paused\": true, \"noise\": {\"seconds\": 3.5, \"others\": 0.5}}", false},
        {"{\"noise\": {\"disturbed\": false, \"seconds\": -1, \"others\": 0.84}}", false},
        {"{\"noise\": {\"disturbed\": true, \"seconds\": 60, \"others\": 0.02}}", true},
    };
    char text[NOISE_TEXT_MAX];
    (void)state;
    for (int i = 0; i < (int)(sizeof records / sizeof *records); i++) {
        json_t *summary = json_loads(records[i].summary, 0, NULL);
        assert_int_equal(noise_recorded(summary, text), records[i].disturbed);
        json_decref(summary);
    }
    struct host_noise busy = quiet, again;
    busy.processors = 2;
    busy.others = 0.34;
    busy.throttled = NAN;
    json_t *record = json_pack("{s:o}", "noise", host_noise_json(&busy));
    assert_true(noise_recorded(record, text));
    assert_string_equal(text, "34.0 % of the processors' time went to other processes");
    again = host_noise_read(record);
    assert_true(again.others == 0.34 && again.processors == 2 && isnan(again.throttled));
    json_decref(record);
}

static void test_host(void **state)
{
    struct host_noise host = quiet;
    host.steal = NOISE_STEAL;
    host.others = NOISE_OTHERS;
    expect(run_of(0, 0), host, NULL);
    host.steal = 0.03;
    expect(run_of(0, 0), host, REASONS("3.0 % of the processors' time was stolen"));
    host.others = 0.5;
    expect(run_of(20, 4), host,
           REASONS("10.5 % of the steps", "3.0 % of the processors'", "50.0 % of the processors'"));
    host.steal = host.others = NAN; /* not known */
    expect(run_of(0, 0), host, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_steps),
        cmocka_unit_test(test_short_runs),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
