/* Steps in made series are found at their place, and noise alone gives no step. */
#include "base/rng.h"
#include "compare/trend.h"
#include "made.h"

#include <math.h>

enum { POINTS = 60 };

/* Fills x with the value 100 plus noise of 1 %. */
static void fill_noise(double x[POINTS], uint64_t seed)
{
    struct rng rng = rng_at(seed, RNG_TEST, 0, 0);
    for (int i = 0; i < POINTS; i++)
        x[i] = 100 * (1 + 0.01 * rng_normal(&rng));
}

static int64_t find(const double *x, int64_t n, double threshold, struct trend_step *step)
{
    int64_t n_steps;
    expect_ok(trend_find(x, n, 0.01, threshold, step, &n_steps));
    return n_steps;
}

/* At an alpha of 1 %, at most 6 of 200 series of noise may give a step. The probability of more
 * than 6 is less than 0.5 %. */
static void test_noise(void **state)
{
    int alarms = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        double x[POINTS];
        struct trend_step step[POINTS];
        fill_noise(x, seed);
        alarms += find(x, POINTS, 0, step) > 0;
    }
    assert_true(alarms <= 6);
}

/* The speed falls and rises again. The last step is recent: it is followed by the smallest number
 * of points that a step needs. */
static void test_three_steps(void **state)
{
    double x[POINTS];
    struct trend_step step[POINTS];
    fill_noise(x, 7);
    for (int i = 20; i < 40; i++)
        x[i] *= 0.8;
    for (int i = POINTS - TREND_LEAST; i < POINTS; i++)
        x[i] *= 1.3;
    assert_int_equal(find(x, POINTS, 0.03, step), 3);
    assert_int_equal(step[0].at, 20);
    assert_true(0.78 < step[0].low && step[0].low < step[0].ratio && step[0].ratio < step[0].high);
    expect_near(step[0].p, 0.001, 1e-12); /* no shuffled series has so large a statistic */
    assert_int_equal(step[1].at, 40);
    assert_int_equal(step[2].at, POINTS - TREND_LEAST);
    expect_near(step[1].ratio, 1.25, 0.02);
    expect_near(step[2].ratio, 1.3, 0.02);
}

/* A significant step below the threshold is not reported, and the neighbouring segments extend over
 * it. */
static void test_threshold(void **state)
{
    double x[POINTS];
    struct trend_step step[POINTS];
    for (int i = 0; i < POINTS; i++)
        x[i] = (i < 20 ? 100 : i < 40 ? 102 : 120) + 0.01 * (i * 7 % 11);
    assert_int_equal(find(x, POINTS, 0.01, step), 2);
    assert_int_equal(find(x, POINTS, 0.03, step), 1);
    assert_int_equal(step[0].at, 40);
    expect_near(step[0].ratio, 120.0 / 101, 0.002);
}

/* Too few points and equal points have no step. An increase from zero is a step of unknown relative
 * size. */
static void test_few_and_zeros(void **state)
{
    double x[POINTS];
    struct trend_step step[POINTS];
    for (int i = 0; i < POINTS; i++)
        x[i] = i < TREND_LEAST ? 0 : 2;
    assert_int_equal(find(x, 0, 0, step), 0);
    assert_int_equal(find(x, 2 * TREND_LEAST - 1, 0, step), 0);
    assert_int_equal(find(x + TREND_LEAST, POINTS - TREND_LEAST, 0, step), 0);
    assert_int_equal(find(x, POINTS, 0, step), 1);
    assert_int_equal(step[0].at, TREND_LEAST);
    assert_true(isinf(step[0].ratio) && isnan(step[0].low) && isnan(step[0].high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_three_steps),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_few_and_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
