/* Tests smoothing, thinning, scaling and naming of series with hand-computed values. */
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_close(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%.17g instead of %.17g", got, want);
}

static void test_ema(void **state)
{
    (void)state;
    double x[] = {4, 8, NAN, 2, INFINITY, 2};
    series_ema(x, 6, 0.5);
    assert_close(x[0], 4);
    assert_close(x[1], (0.5 * 8 + 0.25 * 4) / 0.75);
    assert_true(isnan(x[2]));
    assert_close(x[3], (0.5 * 2 + 0.25 * 8 + 0.125 * 4) / 0.875);
    assert_true(isinf(x[4]));
    double constant[] = {7, 7, 7};
    series_ema(constant, 3, 0.9);
    assert_close(constant[0], 7);
    assert_close(constant[2], 7);
    double untouched[] = {1, 5, 2};
    series_ema(untouched, 3, 0);
    assert_close(untouched[1], 5);
    assert_close(untouched[2], 2);
}

static void test_windows(void **state)
{
    (void)state;
    const double x[] = {1, 100, 3, NAN, 5, 6};
    double scratch[5];
    assert_close(series_mean_around(x, 6, 0, 1), 50.5);
    assert_close(series_mean_around(x, 6, 3, 1), 4);
    assert_close(series_mean_around(x, 6, 5, 0), 6);
    assert_true(isnan(series_mean_around(x, 6, 3, 0)));
    assert_close(series_median_around(x, 6, 1, 1, scratch), 3);
    assert_close(series_median_around(x, 6, 2, 2, scratch), 4); /* median of 1, 3, 5, 100 */
    assert_close(series_median_around(x, 6, 5, 2, scratch), 5.5);
    assert_true(isnan(series_median_around(x, 6, 3, 0, scratch)));
    assert_close(x[1], 100); /* untouched */
}

static void test_stride(void **state)
{
    (void)state;
    assert_int_equal(series_stride(0, 10), 1);
    assert_int_equal(series_stride(10, 10), 1);
    assert_int_equal(series_stride(11, 10), 2);
    assert_int_equal(series_stride(1000, 10), 100);
}

static void test_ceiling(void **state)
{
    (void)state;
    assert_close(series_ceiling(1), 1);
    assert_close(series_ceiling(76.3), 80);
    assert_close(series_ceiling(81), 100);
    assert_close(series_ceiling(0.011), 0.012);
    assert_close(series_ceiling(0), 1);
    assert_close(series_ceiling(-3), 1);
    assert_close(series_ceiling(NAN), 1);
}

static void test_quantile_passes_over_nan(void **state)
{
    (void)state;
    const double x[] = {NAN, 3, INFINITY, 1, 2};
    double q;
    assert_int_equal(series_quantile(x, 5, 0.5, &q), STATUS_OK);
    assert_close(q, 2);
    assert_int_equal(series_quantile(x, 1, 0.5, &q), STATUS_OK);
    assert_true(isnan(q));
    assert_int_equal(series_quantile(x, 0, 0.5, &q), STATUS_OK);
    assert_true(isnan(q));
}

static void test_gap(void **state)
{
    (void)state;
    struct step_record a = {.elapsed = 10, .total_s = 1}, b = {.elapsed = 11.5, .total_s = 1};
    assert_false(series_gap(&a, &b, 0.6));
    assert_true(series_gap(&a, &b, 0.4));
}

/* A run with only a name and a configuration. */
static struct run named(char *name, const char *config)
{
    json_t *info = json_loads(config, 0, NULL);
    assert_non_null(info);
    return (struct run){.name = name, .info = info};
}

static void test_labels(void **state)
{
    (void)state;
    char first[] = "first", twin[] = "first", bare[] = "bare", odd[] = "odd";
    char tall[] = "a-folder-name-that-is-far-too-long-for-any-legend-at-all-0017";
    char wide[] = "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"
                  "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc";
    const char *full =
        "{\"config\":{\"arch\":\"resnet50\",\"batch_size\":32,\"precision\":\"bf16\"}}";
    struct run run[] = {
        named(first, full),
        named(twin, full),
        named(bare, "{}"),
        named(odd, "{\"config\":{\"arch\":7,\"batch_size\":-1,\"precision\":\"a\\nb\"}}"),
        named(tall, full),
        named(wide, "{\"config\":[]}"),
    };
    enum { N = sizeof run / sizeof *run };
    const struct run *pointer[N];
    for (int i = 0; i < N; i++)
        pointer[i] = &run[i];
    char label[N][FIGURE_LABEL_MAX];
    labels_make(pointer, N, label);
    assert_string_equal(label[0], "resnet50 bf16 b32 \u00b7 first");
    assert_string_equal(label[1], "resnet50 bf16 b32 \u00b7 first (2)");
    assert_string_equal(label[2], "bare");
    assert_string_equal(label[3], " a?b \u00b7 odd");
    assert_string_equal(label[4], "resnet50 bf16 b32 \u00b7 a-folder-nam...egend-at-all-0017");
    assert_string_equal(label[5], "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc...\u00fc\u00fc\u00fc\u00fc"
                                  "\u00fc\u00fc\u00fc\u00fc");
    for (int i = 0; i < N; i++)
        json_decref(run[i].info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ema),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_stride),
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_quantile_passes_over_nan),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
