/* Steps in made series are found at their place, and noise alone gives no step. */
#include "base/rng.h"
#include "compare/trend.h"
#include "made.h"

#include <math.h>

enum { POINTS = 60 };

/* Fills x with the value 100 plus noise. The correlation of neighbours is `r`. */
static void fill_correlated(double x[POINTS], uint64_t seed, double sigma, double r)
{
    struct rng rng = rng_at(seed, RNG_TEST, 0, 0);
    double noise = rng_normal(&rng);
    for (int i = 0; i < POINTS; i++) {
        x[i] = 100 * (1 + sigma * noise);
        noise = r * noise + sqrt(1 - r * r) * rng_normal(&rng);
    }
}

/* Noise of 1 %. */
static void fill_noise(double x[POINTS], uint64_t seed)
{
    fill_correlated(x, seed, 0.01, 0);
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

/* A change that was taken back is found, wherever and however long it was, and both of its ends are
 * at their places. */
static void test_taken_back(void **state)
{
    for (int gap = 6; gap <= 20; gap += 7)
        for (int from = 10; from + gap <= POINTS - 10; from += 5) {
            double x[POINTS];
            struct trend_step step[POINTS];
            fill_noise(x, (uint64_t)from);
            for (int i = from; i < from + gap; i++)
                x[i] *= 0.9;
            assert_int_equal(find(x, POINTS, 0.03, step), 2);
            assert_int_equal(step[0].at, from);
            assert_int_equal(step[1].at, from + gap);
        }
}

/* A change near an end of the series is reported at its place or not at all: never with fewer than
 * TREND_LEAST points, and, as it is ten times the noise, almost always with more. */
static void test_near_ends(void **state)
{
    int found = 0;
    for (int points = 1; points <= TREND_SURE; points++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            double x[POINTS];
            struct trend_step step[POINTS];
            int at = seed % 2 ? points : 40 - points;
            fill_noise(x, seed);
            for (int i = at; i < 40; i++)
                x[i] *= 0.9;
            int64_t n = find(x, 40, 0.03, step);
            assert_true(n == 0 || (n == 1 && step[0].at == at));
            assert_true(points >= TREND_LEAST || n == 0);
            found += (int)n;
        }
    assert_true(found >= 114); /* of 120 */
}

/* Outliers, even neighbours, are no change, and do not hide one. */
static void test_outliers(void **state)
{
    double x[POINTS];
    struct trend_step step[POINTS];
    fill_noise(x, 3);
    x[20] = x[21] = x[POINTS - 3] = x[POINTS - 1] = 80;
    assert_int_equal(find(x, POINTS, 0.03, step), 0);
    for (int i = 35; i < POINTS; i++)
        x[i] *= 0.95;
    assert_int_equal(find(x, POINTS, 0.03, step), 1);
    assert_int_equal(step[0].at, 35);
}

/* Noise whose neighbours are correlated wanders, which is no change. A test that takes the points
 * for independent finds steps in every third of these series. */
static void test_correlated(void **state)
{
    int alarms = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        double x[POINTS];
        struct trend_step step[POINTS];
        fill_correlated(x, seed, 0.02, 0.8);
        alarms += find(x, POINTS, 0.03, step) > 0;
    }
    assert_true(alarms <= 45); /* of 200 */
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
        cmocka_unit_test(test_noise),      cmocka_unit_test(test_three_steps),
        cmocka_unit_test(test_taken_back), cmocka_unit_test(test_near_ends),
        cmocka_unit_test(test_outliers),   cmocka_unit_test(test_correlated),
        cmocka_unit_test(test_threshold),  cmocka_unit_test(test_few_and_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
