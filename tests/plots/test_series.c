/* Tests smoothing, thinning, scaling, naming and colours of series, and the ticks of axes, with
 * hand-computed values. */
#include "plots/figure.h"
#include "plots/palette.h"
#include "plots/series.h"
#include "plots/study_axis.h"
#include "tests/results/run_rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_ema(void **state)
{
    double x[] = {4, 8, NAN, 2, INFINITY, 2};
    series_ema(x, 6, 0.5);
    assert_close(x[0], 4);
    assert_close(x[1], (0.5 * 8 + 0.25 * 4) / 0.75);
    assert_true(isnan(x[2]));
    assert_close(x[3], (0.5 * 2 + 0.25 * 8 + 0.125 * 4) / 0.875);
    assert_true(isinf(x[4]));
    double untouched[] = {1, 5};
    series_ema(untouched, 2, 0);
    assert_close(untouched[1], 5);
}

static void test_windows(void **state)
{
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

static void test_scales(void **state)
{
    static const double ceiling[][2] = {{1, 1}, {76.3, 80}, {81, 100}, {0.011, 0.012},
                                        {0, 1}, {-3, 1},    {NAN, 1}};
    static const int64_t stride[][2] = {{0, 1}, {10, 1}, {11, 2}, {1000, 100}};
    for (size_t i = 0; i < sizeof ceiling / sizeof *ceiling; i++)
        assert_close(series_ceiling(ceiling[i][0]), ceiling[i][1]);
    for (size_t i = 0; i < sizeof stride / sizeof *stride; i++)
        assert_int_equal(series_stride(stride[i][0], 10), stride[i][1]);
}

static void test_quantile_passes_over_nan(void **state)
{
    const double x[] = {NAN, 3, INFINITY, 1, 2};
    double q;
    assert_int_equal(series_quantile(x, 5, 0.5, &q), STATUS_OK);
    assert_close(q, 2);
    assert_int_equal(series_quantile(x, 1, 0.5, &q), STATUS_OK);
    assert_true(isnan(q));
    assert_int_equal(series_quantile(x, 0, 0.5, &q), STATUS_OK);
    assert_true(isnan(q));
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
    char first[] = "first", twin[] = "first", odd[] = "odd";
    char tall[] = "a-folder-name-that-is-far-too-long-for-any-legend-at-all-0017";
    char wide[] = "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"
                  "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc";
    const char *full =
        "{\"config\":{\"arch\":\"resnet50\",\"batch_size\":32,\"precision\":\"bf16\"}}";
    struct run run[] = {
        named(first, full),
        named(twin, full),
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
    assert_string_equal(label[2], " a?b \u00b7 odd");
    assert_string_equal(label[3], "resnet50 bf16 b32 \u00b7 a-folder-nam...egend-at-all-0017");
    assert_string_equal(label[4], "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc...\u00fc\u00fc\u00fc\u00fc"
                                  "\u00fc\u00fc\u00fc\u00fc");
    for (int i = 0; i < N; i++)
        json_decref(run[i].info);
}

/* All colours are in use. A figure with new names still uses each colour once, and its new names
 * have looks that no earlier name has. */
static void test_palette(void **state)
{
    static char name[2][PALETTE_COLOURS][PALETTE_NAME_SIZE];
    static struct palette p;
    int look[2][PALETTE_COLOURS];
    bool seen[PALETTE_COLOURS] = {false};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < PALETTE_COLOURS; i++) /* the figures share one name */
            snprintf(name[k][i], PALETTE_NAME_SIZE, "%d", i + k * (PALETTE_COLOURS - 1));
        palette_take(&p, PALETTE_COLOURS, (const char(*)[PALETTE_NAME_SIZE])name[k], look[k]);
    }
    assert_int_equal(look[1][0], look[0][PALETTE_COLOURS - 1]);
    for (int i = 0; i < PALETTE_COLOURS; i++) {
        assert_false(seen[look[1][i] % PALETTE_COLOURS]);
        seen[look[1][i] % PALETTE_COLOURS] = true;
        assert_true(i == 0 || look[1][i] >= PALETTE_COLOURS);
    }
}

static void expect_ticks(double low, double high, bool powers, const double want[], int n)
{
    double tick[AXIS_TICKS_MAX];
    assert_int_equal(axis_log_ticks(low, high, powers, tick), n);
    for (int i = 0; i < n; i++)
        assert_true(fabs(tick[i] - want[i]) <= 1e-12 * want[i]);
}

static void test_ticks(void **state)
{
    expect_ticks(1300, 5700, false, (const double[]){1500, 2000, 3000, 4000, 5000}, 5);
    expect_ticks(0.09, 1.1, false, (const double[]){0.1, 0.2, 0.5, 1}, 4);
    expect_ticks(1, 9, true, (const double[]){1, 2, 4, 8}, 4);
    expect_ticks(0.7, 2.9, true, (const double[]){0.8, 1, 1.5, 2}, 4);
    expect_ticks(1.1, 1e12, true,
                 (const double[]){10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12},
                 12);
    expect_ticks(1e-300, 1e300, false, NULL, 0);
    for (double low = 0.001; low < 1000; low *= 1.07) {
        double tick[AXIS_TICKS_MAX];
        int n = axis_log_ticks(low, 2 * low, false, tick);
        assert_in_range(n, 3, AXIS_TICKS_MAX);
        assert_true(tick[0] >= low && tick[n - 1] <= 2 * low);
        for (int i = 1; i < n; i++)
            assert_true(tick[i] > tick[i - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ema),     cmocka_unit_test(test_windows),
        cmocka_unit_test(test_scales),  cmocka_unit_test(test_quantile_passes_over_nan),
        cmocka_unit_test(test_labels),  cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_palette),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
