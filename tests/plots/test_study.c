/* Tests the figures of studies and predictions, and damaged records. */
#include "base/file.h"
#include "pictures.h"
#include "plots/plot.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CELLS = 5 };

/* A cell with the throughput `rate` and an interval of +-10 %. */
static void cell_set(struct analysis_cell *c, int i, int64_t devices, double rate)
{
    *c = analysis_cell_unknown();
    snprintf(c->name, sizeof c->name, "cell-%d", i);
    snprintf(c->mode, sizeof c->mode, "ddp");
    snprintf(c->precision, sizeof c->precision, i < 2 ? "amp" : "fp32");
    snprintf(c->arch, sizeof c->arch, "resnet50");
    snprintf(c->data, sizeof c->data, "synthetic");
    c->scaling = i < 2 ? ANALYSIS_WEAK : ANALYSIS_STRONG;
    c->devices = c->ranks = devices;
    c->batch = i < 2 ? 32 * devices : 64;
    if (rate == 0) {
        snprintf(c->missing, sizeof c->missing, "out of memory");
        return;
    }
    c->images_per_s =
        (struct analysis_measure){.median = rate, .low = 0.9 * rate, .high = 1.1 * rate, .n = 3};
    c->wall = c->images_per_s;
    c->seconds = (struct analysis_measure){.median = 1000 / rate, .low = NAN, .high = NAN, .n = 1};
    if (i >= 2)
        c->io = (struct analysis_io){1e6 * (double)devices, 100, 0.5e6, 0.75e6, 50};
    c->split[ANALYSIS_FORWARD] = 0.03;
    c->split[ANALYSIS_BACKWARD] = 0.0625;
    c->split[ANALYSIS_COMM] = 0.0075;
}

/* Two series: 100 and 150 images/s on 1 and 2 devices; 40 and 120 on 1 and 4 devices, with an empty
 * cell for 2. */
static void study_make(struct analysis *a, struct analysis_cell cell[CELLS],
                       struct analysis_series series[2], int64_t place[CELLS])
{
    static const int64_t devices[CELLS] = {1, 2, 1, 2, 4};
    static const double rate[CELLS] = {100, 150, 40, 0, 120};
    for (int i = 0; i < CELLS; i++) {
        double first = i < 2 ? 100 : 40;
        cell_set(&cell[i], i, devices[i], rate[i]);
        place[i] = i;
        if (rate[i] > 0)
            cell[i].efficiency = cell[i].efficiency_wall = rate[i] / first / (double)devices[i];
    }
    series[0] = (struct analysis_series){.n = 2, .cell = place};
    series[1] = (struct analysis_series){.n = 3, .cell = place + 2};
    *a = (struct analysis){
        .study = "it's one", .n_cells = CELLS, .cell = cell, .n_series = 2, .series = series};
}

static enum status draw(const char *dir, const struct published_series *published)
{
    static struct analysis_cell cell[CELLS];
    struct analysis a;
    struct analysis_series series[2];
    int64_t place[CELLS];
    const struct plot_options o = {.png = true, .svg = true};
    study_make(&a, cell, series, place);
    return plot_study(&a, &published, published ? 1 : 0, dir, &o);
}

static void test_figures(void **state)
{
    static const char *const names[] = {
        "training_throughput", "training_time", "efficiency", "scaling_weak",
        "scaling_strong",      "cell_split",    "IO"};
    const char *dir = *state;
    char file[64];
    size_t size;
    skip_without_gnuplot();
    if (draw(dir, NULL) != STATUS_OK)
        fail_msg("%s", status_message());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s.png", names[i]);
        expect_png(dir, file);
        snprintf(file, sizeof file, "%s.svg", names[i]);
        free(scratch_read(dir, file, &size));
    }
    snprintf(file, sizeof file, "%s/accuracy.png", dir);
    assert_false(path_exists(file)); /* no run was validated */
    expect_text(dir, "training_throughput.svg", ">Images per second<");
    expect_text(dir, "training_throughput.svg", ">ddp fp32 strong<");
    expect_text(dir, "efficiency.svg", ">By throughput (%)<");
    expect_text(dir, "cell_split.svg", ">cell-4: 100 ms<");
}

/* Columns: devices; middle, low, high, ideal; then these four columns for the second panel. */
static void test_tables(void **state)
{
    const char *dir = *state;
    skip_without_gnuplot();
    assert_int_equal(draw(dir, NULL), STATUS_OK);
    expect_text(dir, "data/training_throughput-01.dat", "1 100 90 110 100 nan");
    expect_text(dir, "data/training_throughput-01.dat", "\n2 150 135 165 200 nan");
    expect_text(dir, "data/training_throughput-02.dat", "1 40 36 44 40 nan");
    expect_text(dir, "data/training_throughput-02.dat", "\n4 120 108 132 160 nan");
    expect_text(dir, "data/efficiency-02.dat", "\n4 75 67.5 82.5 100 75 67.5 82.5 100\n");
    expect_text(dir, "data/training_time-02.dat", "\n4 8.33333333 nan nan 6.25 nan");
    expect_text(dir, "data/IO-02.dat", "1 1 nan nan nan 0.5 nan nan nan\n4 4 nan nan nan 0.5");
    expect_text(dir, "data/scaling_weak-01.dat", "\n2 75 67.5 82.5 100 nan");
    expect_text(dir, "data/scaling_strong-02.dat", "\n4 3 2.7 3.3 4 nan");
    /* If the ideal line is sloped, each point is drawn exactly at its number of devices. Points are
     * not moved sideways to avoid overlap. */
    expect_text(dir, "data/training_throughput.gp", "\nis_side_by_side = 0\n");
    expect_text(dir, "data/training_time.gp", "\nis_side_by_side = 0\n");
    expect_text(dir, "data/scaling_strong.gp", "\nis_side_by_side = 0\n");
    expect_text(dir, "data/efficiency.gp", "\nis_side_by_side = 1\n");
}

/* Draws a published table without a study: only the table's series appear. */
static void test_published_alone(void **state)
{
    const char *dir = *state;
    char table[SCRATCH_MAX + 16], file[SCRATCH_MAX + 64];
    const struct plot_options o = {.svg = true};
    static const char text[] = "series,gpus,images_per_s,train_time_s,top1_val,top5_val\n"
                               "a,1,100,1000,75,92\na,2,190,520,74,91\n"
                               "b,1,110,900,,\nb,4,400,240,,\n";
    skip_without_gnuplot();
    scratch_write(dir, "t.csv", text, sizeof text - 1);
    snprintf(table, sizeof table, "%s/t.csv", dir);
    if (plot_published(table, dir, &o) != STATUS_OK)
        fail_msg("%s", status_message());
    expect_text(dir, "training_throughput.svg", ">published: a <");
    expect_text(dir, "training_throughput.svg", ">published: b <");
    expect_text(dir, "data/training_time-02.dat", "\n4 240 nan nan 225 nan");
    expect_text(dir, "data/accuracy-01.dat", "\n2 74 nan nan nan 91");
    snprintf(file, sizeof file, "%s/IO.svg", dir);
    assert_false(path_exists(file));
}

static void test_published_beside(void **state)
{
    const struct published_series s = {.name = "theirs",
                                       .hardware = "V100",
                                       .n = 2,
                                       .point = {{.gpus = 2,
                                                  .images_per_s = 90,
                                                  .train_time_s = 10,
                                                  .efficiency = NAN,
                                                  .top1 = 76,
                                                  .top5 = 93},
                                                 {.gpus = 8,
                                                  .images_per_s = 270,
                                                  .train_time_s = 4,
                                                  .efficiency = NAN,
                                                  .top1 = 75,
                                                  .top5 = NAN}}};
    const char *dir = *state;
    skip_without_gnuplot();
    if (draw(dir, &s) != STATUS_OK)
        fail_msg("%s", status_message());
    expect_text(dir, "training_throughput.svg", ">published: theirs V100<");
    expect_text(dir, "data/efficiency-03.dat", "\n8 75 nan nan 100 62.5 nan nan 100\n");
    expect_text(dir, "data/accuracy-03.dat",
                "2 76 nan nan nan 93 nan nan nan\n8 75 nan nan nan nan");
    expect_text(dir, "accuracy.svg", ">Top-1 (%)<");
}

/* Four modes with and without mixed precision, on 1 and 2 devices: eight series in two panels. */
static void test_panels(void **state)
{
    enum { SERIES = 8 };
    static const char *const modes[] = {"dp", "ddp", "ddp2", "nd"};
    static struct analysis_cell cell[2 * SERIES];
    struct analysis_series series[SERIES];
    int64_t place[2 * SERIES];
    struct analysis a = {.n_cells = 2 * SERIES, .cell = cell, .n_series = SERIES, .series = series};
    const struct plot_options o = {.svg = true};
    const char *dir = *state;
    skip_without_gnuplot();
    for (int i = 0; i < 2 * SERIES; i++) {
        cell_set(&cell[i], 0, 1 + i % 2, 100 * (1 + i % 2));
        snprintf(cell[i].mode, sizeof cell[i].mode, "%s", modes[i / 2 % 4]);
        snprintf(cell[i].precision, sizeof cell[i].precision, i < SERIES ? "it's" : "amp");
        cell[i].efficiency = cell[i].efficiency_wall = 1;
        place[i] = i;
        series[i / 2] = (struct analysis_series){.n = 2, .cell = place + i / 2 * 2};
    }
    if (plot_study(&a, NULL, 0, dir, &o) != STATUS_OK)
        fail_msg("%s", status_message());
    expect_text(dir, "training_throughput.svg", ">it's<");
    expect_text(dir, "training_throughput.svg", ">amp<");
    expect_text(dir, "training_throughput.svg", ">ddp2<");
    expect_text(dir, "efficiency.svg", ">it's<");
    expect_text(dir, "data/efficiency.gp", "\npanel_lines[2] = '5 6 7 8'\n");
    expect_text(dir, "data/efficiency.gp", "\npanel_ideals[2] = '5'\n");
    expect_text(dir, "data/efficiency.gp", "\nentries = ' 1 2 3 4 1 2 3 4'\n");
    expect_text(dir, "data/efficiency.gp", "\nall_runs = '1 2 3 4'\n");
    expect_text(dir, "data/training_throughput.gp", "\ny_ticks1 = '80, 100, 150, 200, 300'\n");
}

static void test_nothing_measured(void **state)
{
    static struct analysis_cell cell[1];
    int64_t place = 0;
    struct analysis_series series = {.n = 1, .cell = &place};
    struct analysis a = {.n_cells = 1, .cell = cell, .n_series = 1, .series = &series};
    const struct plot_options o = {.svg = true};
    cell_set(&cell[0], 0, 1, 0);
    assert_int_equal(plot_study(&a, NULL, 0, *state, &o), STATUS_DATA);
}

#define FORECAST_OF(ranks, rate, p5, p95)                                                          \
    "{\"ranks\":" ranks ",\"images_per_s\":" rate ",\"efficiency\":90,\"step_s\":0.5,"             \
    "\"step_p5_s\":" p5 ",\"step_p95_s\":" p95 ",\"compute_s\":0.25,\"straggler_s\":0.125,"        \
    "\"exposed_s\":0.125,\"input_s\":0}"
#define FORECAST(ranks, rate) FORECAST_OF(ranks, rate, "0.25", "1")
#define STEADY(ranks, rate)   FORECAST_OF(ranks, rate, "0.499", "0.501")
#define MEASURED(ranks, rate, held)                                                                \
    "{\"ranks\":" ranks ",\"images_per_s\":" rate ",\"efficiency\":100,\"held_out\":" held "}"
#define RECORD(forecasts, points)                                                                  \
    "{\"schema\":1,\"record\":\"predict\",\"label\":\"a<b\",\"forecast\":[" forecasts              \
    "],\"measured\":[" points "]}"

static enum status draw_record(const char *dir, const char *record)
{
    const struct plot_options o = {.png = true, .svg = true};
    char path[SCRATCH_MAX + 64];
    scratch_write(dir, "predict.json", record, strlen(record));
    snprintf(path, sizeof path, "%s/predict.json", dir);
    return plot_record(path, dir, &o);
}

static void test_forecast(void **state)
{
    const char *dir = *state;
    skip_without_gnuplot();
    if (draw_record(dir, RECORD(FORECAST("2", "100") "," FORECAST("4", "180"),
                                MEASURED("1", "50", "false") "," MEASURED("4", "170", "true"))) !=
        STATUS_OK)
        fail_msg("%s", status_message());
    expect_text(dir, "data/forecast-01.dat", "\n4 180 90 90 360 50 75 100 100\n");
    expect_text(dir, "data/forecast-02.dat", "1 50 100\n");
    expect_text(dir, "data/forecast-03.dat", "4 170 100\n");
    expect_text(dir, "forecast.svg", ">a&lt;b<");
    expect_text(dir, "forecast.svg", ">Efficiency (%)<");
    expect_text(dir, "forecast.svg", ">measured, held out<");
    /* 1 to 4 ranks were measured */
    expect_no_text(dir, "forecast.svg", ">beyond what was measured<");
    /* With points of one kind, the legend names only this kind, and the range beyond the points is
     * shaded. */
    assert_int_equal(draw_record(dir, RECORD(FORECAST("2", "100"), MEASURED("1", "50", "false"))),
                     STATUS_OK);
    expect_text(dir, "data/forecast.gp", "\nchecked_high = 1\n");
    expect_text(dir, "forecast.svg", ">beyond what was measured<");
    expect_text(dir, "forecast.svg", ">measured<");
    expect_no_text(dir, "forecast.svg", ">measured, held out<");
    expect_no_text(dir, "forecast.svg", ">waiting for storage<");
    expect_text(dir, "forecast.svg", ">p5 to p95 of steps<");
    /* If a band is thinner than its line, the legend omits the band. */
    assert_int_equal(draw_record(dir, RECORD(STEADY("2", "100"), MEASURED("1", "50", "false"))),
                     STATUS_OK);
    expect_no_text(dir, "forecast.svg", ">p5 to p95 of steps<");
}

static void test_hostile_forecasts(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"schema\":2,\"record\":\"predict\"}",
        "{\"schema\":1,\"record\":\"predict\"}",
        RECORD("", MEASURED("1", "50", "false")),
        RECORD(FORECAST("2", "100"), ""),
        RECORD("1", MEASURED("1", "50", "false")),
        RECORD(FORECAST("0", "100"), MEASURED("1", "50", "false")),
        RECORD(FORECAST("2", "-1"), MEASURED("1", "50", "false")),
        RECORD(FORECAST("2", "1e300"), MEASURED("1", "50", "false")),
        RECORD(FORECAST("\"2\"", "1"), MEASURED("1", "50", "false")),
        RECORD(FORECAST("2", "100"), MEASURED("1", "null", "false")),
        RECORD(FORECAST("2", "100"), MEASURED("0", "1", "false")),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (draw_record(*state, bad[i]) != STATUS_DATA)
            fail_msg("taken: %s", bad[i]);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_figures),         WITH_FOLDER(test_tables),
        WITH_FOLDER(test_published_alone), WITH_FOLDER(test_published_beside),
        WITH_FOLDER(test_panels),          WITH_FOLDER(test_nothing_measured),
        WITH_FOLDER(test_forecast),        WITH_FOLDER(test_hostile_forecasts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
