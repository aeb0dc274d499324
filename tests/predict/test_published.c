/* Forecasts of published points that were not used in the fit. The fit of a series uses the points
 * with at most a half, or a quarter, of its largest number of GPUs. A series needs a throughput and
 * a batch for at least three numbers of GPUs. All series use the same rule and the same typical
 * values. */
#include "../results/scratch.h"
#include "predict/prediction.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ERROR_MAX 5.0 /* percentage points of efficiency */

enum { LEAST_POINTS = 3 };

/* Numbers of held-out points, and of those outside the 95 % interval of their forecast. */
struct tally {
    int held_out, outside;
};

/* Fits to the points with at most `limit` ranks. Returns the largest forecast error of the other
 * points, in percentage points of the efficiency relative to the first point. */
static double held_out_error(const struct source *source, int64_t limit, struct tally *tally)
{
    static struct prediction p;
    const struct prediction_config c = {
        .source = source,
        .system = {.net = {.intra = {1e-5, 40e9},
                           .inter = {5e-4, 5e9},
                           .ranks_per_node = source->ranks_per_node},
                   .sigma = 0.02},
        .fit = true,
        .fit_up_to = limit};
    double worst = 0;
    expect_ok(prediction_make(&c, &p));
    for (int i = p.fitted; i < source->n; i++) {
        worst = fmax(worst, fabs(p.point[i].error));
        tally->held_out++;
        tally->outside += p.point[i].outside;
    }
    return worst;
}

/* Forecasts all series of a file. The fit of each series uses points with at most 1 / `fraction` of
 * its largest number of ranks. Returns the number of forecast series. The error of the series
 * `apart` is not checked. */
static int forecast_file(const char *file, int fraction, const char *apart, struct tally *tally)
{
    struct published p;
    int tried = 0;
    expect_ok(published_load(scratch_path(SOURCE_DIR "/results/published", file), &p));
    for (int i = 0; i < p.n; i++) {
        static struct source source;
        const char *name = p.series[i].name;
        assert_true(p.series[i].source[0] && p.series[i].hardware[0]);
        if (source_of_published(&p.series[i], &source) != STATUS_OK || source.n < LEAST_POINTS)
            continue;
        int64_t largest = source.point[source.n - 1].ranks;
        double error = held_out_error(&source, largest / fraction, tally);
        if (error > ERROR_MAX && strcmp(name, apart) != 0)
            fail_msg("the forecast of %s is wrong by %.1f points", name, error);
        tried++;
    }
    published_free(&p);
    return tried;
}

/* Forecasts up to twice and four times the number of ranks used in the fit. The series "feb" loses
 * 3 % with each doubling up to 16 GPUs, and slows down from 32 GPUs on. Its first points give no
 * sign of this, so its error is not checked. */
static void test_forecasts(void **state)
{
    struct tally tally = {0};
    for (int fraction = 2; fraction <= 4; fraction *= 2) {
        const char *apart = fraction == 4 ? "feb" : "";
        assert_int_equal(forecast_file("hal_v100.csv", fraction, apart, &tally), 2);
        assert_int_equal(forecast_file("deeplearningexamples.csv", fraction, "", &tally), 5);
        assert_int_equal(forecast_file("others.csv", fraction, "", &tally), 3);
    }
    assert_int_equal(tally.held_out, 30);
    assert_true(tally.outside <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forecasts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
