/* Forecasts of published points that were not used in the fit. The fit of a series uses the points
 * with at most a half, or a quarter, of its largest number of GPUs. A series needs a throughput and
 * a batch for at least three numbers of GPUs. All series use the same rule and the same typical
 * values. */
#include "../results/scratch.h"
#include "predict/prediction_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ERROR_MAX 5.0 /* percentage points of efficiency */

enum { LEAST_POINTS = 3 };

/* Fits to the points with at most `limit` ranks. Returns the largest forecast error of the other
 * points, in percentage points of the efficiency relative to the first point. */
static double held_out_error(const struct source *source, int64_t limit)
{
    const struct fit_known known = {.intra = false};
    const struct measured *first = &source->point[0];
    struct system s = {.work = source->work,
                       .net = {.intra.latency_s = 1e-5, .ranks_per_node = source->ranks_per_node}};
    double worst = 0;
    int n = 0;
    while (n < source->n && source->point[n].ranks <= limit)
        n++;
    expect_ok(fit_system(&s, &known, source->point, n));
    for (int i = n; i < source->n; i++) {
        const struct measured *m = &source->point[i];
        struct straggler late;
        struct forecast f;
        straggler_of(m->ranks, &late);
        forecast_step(&s, m->ranks, m->batch, &late, &f);
        double error = (f.images_per_s - m->images_per_s) / (double)m->ranks;
        worst = fmax(worst, 100 * fabs(error) / (first->images_per_s / (double)first->ranks));
    }
    return worst;
}

/* Forecasts all series of a file. The fit of each series uses points with at most 1 / `fraction` of
 * its largest number of ranks. Returns the number of forecast series. The error of the series
 * `apart` is not checked. */
static int forecast_file(const char *file, int fraction, const char *apart)
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
        double error = held_out_error(&source, largest / fraction);
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
    for (int fraction = 2; fraction <= 4; fraction *= 2) {
        assert_int_equal(forecast_file("hal_v100.csv", fraction, fraction == 4 ? "feb" : ""), 2);
        assert_int_equal(forecast_file("deeplearningexamples.csv", fraction, ""), 5);
        assert_int_equal(forecast_file("others.csv", fraction, ""), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forecasts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
