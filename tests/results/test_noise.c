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

static void test_short_runs_are_not_judged(void **state)
{
    struct run run = run_of(5, 9);
    struct host_noise host = quiet;
    run.n_steps = NOISE_STEPS_MIN - 1;
    host.seconds = NOISE_SECONDS_MIN - 1;
    host.steal = host.others = 0.9;
    expect(run, host, NULL);
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
        cmocka_unit_test(test_short_runs_are_not_judged),
        cmocka_unit_test(test_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
