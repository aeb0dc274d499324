/* Tests the figures of studies and of published tables. */
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    double wall = devices > 1 ? 0.8 * rate : rate;
    c->wall =
        (struct analysis_measure){.median = wall, .low = 0.9 * wall, .high = 1.1 * wall, .n = 3};
    c->seconds = (struct analysis_measure){.median = 1000 / rate, .low = NAN, .high = NAN, .n = 1};
    if (i >= 2)
        c->io = (struct analysis_io){1e6 * (double)devices, 100, 0.5e6, 0.75e6, 50};
    c->split[ANALYSIS_FORWARD] = 0.03;
    c->split[ANALYSIS_BACKWARD] = 0.0625;
    c->split[ANALYSIS_COMM] = 0.0075;
}

/* Two epochs of every accuracy; the repeats differ by +-10 in the first one. */
static void curves_set(struct analysis_cell *c, struct analysis_epoch epoch[2])
{
    for (int e = 0; e < 2; e++) {
        epoch[e].epoch = e + 1;
        for (int k = 0; k < ANALYSIS_ACCURACIES; k++) {
            double x = 40 + 10 * k + 20 * e, spread = e == 0 ? 10 : 0;
            epoch[e].accuracy[k].median = x;
            epoch[e].accuracy[k].low = x - spread;
            epoch[e].accuracy[k].high = x + spread;
        }
    }
    c->n_epochs = 2;
    c->epoch = epoch;
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
        static struct analysis_epoch epoch[CELLS][2];
        cell_set(&cell[i], i, devices[i], rate[i]);
        if (rate[i] > 0)
            curves_set(&cell[i], epoch[i]);
        place[i] = i;
        if (rate[i] > 0)
            cell[i].efficiency = cell[i].efficiency_wall = rate[i] / first / (double)devices[i];
    }
    series[0] = (struct analysis_series){.n = 2, .cell = place};
    series[1] = (struct analysis_series){.n = 3, .cell = place + 2};
    *a = (struct analysis){
        .study = "it's one", .n_cells = CELLS, .cell = cell, .n_series = 2, .series = series};
}

static enum status draw_study(const char *dir, const struct published_series *published)
{
    static struct analysis_cell cell[CELLS];
    struct analysis a;
    struct analysis_series series[2];
    int64_t place[CELLS];
    const struct plot_options o = {.png = true, .svg = true};
    study_make(&a, cell, series, place);
    return plot_study(&a, &published, published ? 1 : 0, dir, &o);
}

/* The columns of tables: devices; middle, low, high, ideal; then these four for the second panel.
 */
static void test_figures(void **state)
{
    static const char *const names[] = {"training_throughput",
                                        "training_time",
                                        "efficiency",
                                        "scaling_weak",
                                        "scaling_strong",
                                        "cell_split",
                                        "IO",
                                        "top1_train",
                                        "top1_val",
                                        "top5_train",
                                        "top5_val"};
    static const struct {
        const char *table, *text;
    } rows[] = {
        {"training_throughput-01", "\n2 150 135 165 200 nan"},
        {"training_throughput-02", "\n4 120 108 132 160 nan"},
        {"efficiency-02", "\n4 75 67.5 82.5 100 60 54 66 100\n"},
        {"training_time-02", "\n4 8.33333333 nan nan 5 nan"},
        {"IO-02", "1 1 nan nan nan 0.5 nan nan nan\n4 4 nan nan nan 0.5"},
        {"scaling_weak-01", "\n2 75 67.5 82.5 100 nan"},
        {"scaling_strong-02", "\n4 3 2.7 3.3 4 nan"},
        /* the published series */
        {"efficiency-03", "\n8 75 nan nan 100 62.5 nan nan 100\n"},
        /* a curve for each cell; a repeat alone has no bar */
        {"top1_val-01", "1 50 40 60 nan nan nan nan nan\n2 70 nan nan nan"},
        {"top5_train-04", "1 60 50 70 nan nan nan nan nan\n2 80 nan nan nan"},
    };
    static const struct published_series s = {.name = "theirs",
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
    skip_without_gnuplot();
    if (draw_study(*state, &s) != STATUS_OK)
        fail_msg("%s", status_message());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[64];
        snprintf(file, sizeof file, "data/%s.dat", rows[i].table);
        expect_text(*state, file, rows[i].text);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_figure(*state, names[i], true);
    expect_text(*state, "training_throughput.svg", ">Images per second<");
    expect_text(*state, "training_throughput.svg", ">ddp fp32 strong<");
    expect_text(*state, "training_throughput.svg", ">published: theirs V100<");
    expect_text(*state, "efficiency.svg", ">By throughput (%)<");
    expect_text(*state, "top1_val.svg", ">Epoch<");
    expect_text(*state, "top1_val.svg", ">ddp amp 1x32<");
    expect_text(*state, "cell_split.svg", ">cell-4: 100 ms<");
}

/* The sixteen series of a recorded study are divided among four panels, whose lines differ in the
 * mode and in the scaling. */
static void test_panels(void **state)
{
    static const char *const lines[] = {"panel_title[1] = 'fp32, synthetic'",
                                        "panel_title[2] = 'O1, synthetic'",
                                        "panel_title[3] = 'fp32, jpeg'",
                                        "panel_title[4] = 'O1, jpeg'",
                                        "legend[1] = 'dp weak'",
                                        "legend[4] = 'ddp strong'"};
    const struct plot_options o = {.svg = true};
    struct analysis a;
    expect_ok(analysis_read(SOURCE_DIR "/results/recorded/cpu-avx512-2-threads/study-quick", &a));
    hide_gnuplot("");
    assert_int_equal(plot_study(&a, NULL, 0, *state, &o), STATUS_UNSUPPORTED);
    show_gnuplot();
    for (int i = 0; i < COUNT(lines); i++)
        expect_text(*state, "data/training_throughput.gp", lines[i]);
    expect_no_text(*state, "data/training_throughput.gp", "panel_title[5]");
    analysis_free(&a);
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

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_figures), IN_FOLDER(test_panels),
                                       IN_FOLDER(test_nothing_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
