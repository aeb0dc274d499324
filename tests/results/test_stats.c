/* Compares statistics with known values, most of which NumPy computed. Also checks the description
 * of the environment in run.json. */
#include "base/json.h"
#include "base/stats.h"
#include "results/environment.h"
#include "run_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_known_sample(void **state)
{
    const double x[] = {12.5, 3.25, 8, 1, 40, 7.75, 9.5, 8, 6, 100};
    struct stats s;
    expect_ok(stats_of(x, 10, &s));
    assert_int_equal(s.n, 10);
    assert_close(s.min, 1);
    assert_close(s.p5, 2.0125);
    assert_close(s.median, 8);
    assert_close(s.p95, 73);
    assert_close(s.max, 100);
    assert_close(s.mean, 19.6);
    assert_close(s.stddev, 30.259112493410793);
    assert_close(s.mad, 3.25);
    double sorted[10];
    memcpy(sorted, x, sizeof sorted);
    assert_close(stats_median(sorted, 10), 8);
    assert_close(stats_quantile(sorted, 10, 0.25), 6.4375);
    assert_close(stats_quantile(sorted, 10, 0.75), 11.75);
}

static void test_refusals(void **state)
{
    const double x[] = {1, NAN}, z[] = {1, 2};
    struct stats s;
    double low, high;
    assert_int_equal(stats_of(x, 0, &s), STATUS_INVALID);
    assert_int_equal(stats_of(x, 2, &s), STATUS_INVALID);
    assert_int_equal(stats_median_interval(z, 2, 1, 10, 0, &low, &high), STATUS_INVALID);
    assert_int_equal(stats_proportion_interval(2, 1, 0.95, &low, &high), STATUS_INVALID);
}

/* The bootstrap distribution of the median of 1..9 is known. P(median* <= k) is a binomial tail:
 * the probability that at least 5 of 9 draws are <= k. P(<= 2) = 0.0304 and P(<= 3) = 0.1448, so
 * the 5 % quantile is 3. By symmetry, the 95 % quantile is 7. */
static void test_median_interval(void **state)
{
    const double x[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    double low, high;
    expect_ok(stats_median_interval(x, 9, 0.9, 4000, 1, &low, &high));
    assert_close(low, 3);
    assert_close(high, 7);
    const double even[] = {1, 3};
    expect_ok(stats_median_interval(even, 2, 0.2, 2000, 2, &low, &high));
    assert_close(low, 2); /* two of the samples {1,1}, {1,3}, {3,1}, {3,3} have the median 2 */
    assert_close(high, 2);
}

static void test_environment_is_an_allow_list(void **state)
{
    static const char *const allowed[] = {"OMP_NUM_THREADS", "DNNL_VERBOSE", "SLURM_JOB_ID"};
    static const char *const secret[] = {"SLURM_JOB_ACCOUNT", "HOME", "AWS_SECRET_ACCESS_KEY",
                                         "OMP"};
    for (int i = 0; i < 3; i++)
        assert_true(environment_allowed(allowed[i]));
    for (int i = 0; i < 4; i++)
        assert_false(environment_allowed(secret[i]));
    assert_int_equal(setenv("OMP_TEST_VALUE", "tab\there", 1), 0);
    assert_int_equal(setenv("OMP_\xff", "no UTF-8", 1), 0);
    assert_int_equal(setenv("SOME_TOKEN", "secret-4711", 1), 0);
    json_t *host = environment_describe();
    char *text = json_dumps(host, 0);
    assert_null(strstr(text, "secret-4711"));
    const json_t *variables = json_object_get(host, "environment");
    assert_string_equal(json_string_value(json_object_get(variables, "OMP_TEST_VALUE")),
                        "tab?here");
    assert_string_equal(json_text_at(variables, "OMP_?"), "no UTF-8");
    free(text);
    json_decref(host);
}

/* scipy.stats.binomtest(k, n).proportion_ci(0.95, "exact"), SciPy 1.17 */
static void test_proportion(void **state)
{
    static const struct {
        int64_t k, n;
        double low, high;
    } cases[] = {
        {0, 200, 0, 0.018275340355148807},
        {3, 200, 0.003104107621555085, 0.043208281917709784},
        {190, 200, 0.9099724622984412, 0.9757658345278917},
        {200, 200, 0.9817246596448512, 1},
        {1, 1, 0.025, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double low, high;
        expect_ok(stats_proportion_interval(cases[i].k, cases[i].n, 0.95, &low, &high));
        assert_true(fabs(low - cases[i].low) < 1e-9 && fabs(high - cases[i].high) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sample),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_median_interval), cmocka_unit_test(test_environment_is_an_allow_list),
        cmocka_unit_test(test_proportion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
