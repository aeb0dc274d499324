/* Tests analysis.json: a recorded one is read and written again, and is refused if it is changed.
 */
#include "results/analysis.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDED SOURCE_DIR "/results/recorded/cpu-avx512-2-threads/study-quick"

static char *written(const char *dir, const struct analysis *a)
{
    size_t size;
    expect_ok(analysis_write(a, scratch_path(dir, ANALYSIS_FILE)));
    return scratch_read(dir, ANALYSIS_FILE, &size);
}

/* What was written and read has the same bytes. One cell has no result. */
static void test_round_trip(void **state)
{
    struct analysis a, b;
    expect_ok(analysis_read(RECORDED, &a));
    struct analysis_cell *missing = &a.cell[2], unknown = analysis_cell_unknown();
    strcpy(unknown.name, missing->name);
    strcpy(unknown.mode, missing->mode);
    strcpy(unknown.missing, "out of memory");
    unknown.devices = unknown.ranks = 1;
    unknown.batch = 32;
    free(missing->epoch);
    *missing = unknown;
    a.conditions =
        (struct conditions){"2026-11-21T11:02:50Z", "2026-11-21T11:15:01Z", .runs = 120,
                            .recorded = 120,        .disturbed = 30,        .others = 0.84};
    a.cell[1].conditions = (struct conditions){.runs = 5, .recorded = 4, .others = NAN};
    a.cell[1].emulated = true;
    a.cell[1].top1_runs = (struct analysis_measure){54, 42, 71, 3, {42, 54, 71}};
    struct analysis_epoch epoch = {
        .epoch = 7, .accuracy = {{1, 0.5, 2}, {NAN, NAN, NAN}, {3, 3, 3}, {99, 98, 100}}};
    free(a.cell[4].epoch);
    a.cell[4].n_epochs = 1;
    a.cell[4].epoch = &epoch;
    char *first = written(*state, &a);
    a.cell[4].epoch = NULL;
    expect_ok(analysis_read(*state, &b));
    const struct analysis_cell *c = b.cell;
    assert_true(b.n_cells == 24 && b.n_series == 16);
    assert_true(c[0].images_per_s.n == 5 && c[0].images_per_s.median == 2038.79645);
    assert_true(c[0].images_per_s.values[2] == 2077.55759 && c[0].wall.high == 2030.14718);
    assert_true(c[0].split[ANALYSIS_FORWARD] == 0.00511239129 && c[0].top1 == 14.375);
    assert_true(isnan(c[0].behind) && c[0].slowest_rank == -1 && c[8].slowest_rank == 1);
    assert_true(c[8].ranks == 2 && c[8].system.ranks_per_host == 2 && c[8].system.classes == 10);
    assert_true(c[1].scaling == ANALYSIS_STRONG && !c[1].real && c[3].real);
    assert_string_equal(c[0].evidence[0], "99.4 % of a step is computation");
    assert_string_equal(c[2].missing, "out of memory");
    assert_true(c[0].n_epochs == 0 && c[4].n_epochs == 1 && c[4].epoch[0].epoch == 7);
    assert_true(c[4].epoch[0].accuracy[ANALYSIS_TOP1_TRAIN].low == 0.5);
    assert_true(c[4].epoch[0].accuracy[ANALYSIS_TOP5_VAL].high == 100);
    assert_true(isnan(c[4].epoch[0].accuracy[ANALYSIS_TOP1_VAL].median));
    assert_string_equal(b.conditions.from, "2026-11-21T11:02:50Z");
    assert_string_equal(b.conditions.to, "2026-11-21T11:15:01Z");
    assert_true(b.conditions.disturbed == 30 && b.conditions.runs == 120);
    assert_true(b.conditions.others == 0.84 && c[1].conditions.recorded == 4);
    assert_true(isnan(c[1].conditions.others) && c[1].emulated && !c[0].emulated);
    assert_true(c[1].top1_runs.n == 3 && c[1].top1_runs.high == 71 && c[0].top1_runs.n == 0);
    char *second = written(*state, &b);
    assert_string_equal(first, second);
    analysis_free(&a);
    analysis_free(&b);
    free(first);
    free(second);
}

/* Each case replaces the first `old` in the recorded file by `new`. */
/* A speed-up has an interval if both cells have repeats. */
static void test_ratio(void **state)
{
    struct analysis a;
    double low, high;
    (void)state;
    expect_ok(analysis_read(RECORDED, &a));
    struct analysis_cell *base = &a.cell[0], *c = &a.cell[4];
    assert_ptr_equal(analysis_base(&a, c), base);
    assert_null(analysis_base(&a, base));
    expect_ok(analysis_ratio_interval(&c->images_per_s, &base->images_per_s, &low, &high));
    assert_true(low < c->speedup && c->speedup < high && high - low < 0.5);
    base->images_per_s.n = 1;
    expect_ok(analysis_ratio_interval(&c->images_per_s, &base->images_per_s, &low, &high));
    assert_true(isnan(low) && isnan(high));
    analysis_free(&a);
}

/* An epoch with one value. */
#define NOT_MEASURED(name) "\"" name "\": null, \"" name "_low\": null, \"" name "_high\": null"
#define EPOCH(number, top1)                                                                        \
    "\"epochs\": [{\"epoch\": " number ", \"top1_val\": " top1                                     \
    ", \"top1_val_low\": 50, \"top1_val_high\": 50, " NOT_MEASURED(                                \
        "top1_train") ", " NOT_MEASURED("top5_train") ", " NOT_MEASURED("top5_val") "}]"

static void test_refused(void **state)
{
    static const struct {
        const char *old, *new, *says;
    } cases[] = {
        {"\"schema\": 1", "\"schema\": 2", "not an analysis of schema 1"},
        {"\"median\": 2038.79645", "\"median\": -1", "'median'"},
        {"\"median\": 2038.79645", "\"median\": null", "contradict each other"},
        {"\"machine\"", "\"engine\"", "'machine' or 'thresholds' is missing"},
        {"\"n\": 5", "\"n\": 65", "contradict each other"},
        {"\"devices\": 1", "\"devices\": 0", "'devices', 'ranks' or 'batch' is 0"},
        {"\"devices\": 1", "\"devices\": 2", "not in ascending order"},
        {"\"hosts\": 1", "\"hosts\": 2", "more hosts than ranks"},
        {"\"ranks_per_host\": 1", "\"ranks_per_host\": 4611686018427387904", "'ranks_per_host'"},
        {"\"name\": \"nd-fp32-resnet8-jpeg-1x32\"", "\"name\": \"nd\"", "unknown cell"},
        {"\"weak\"", "\"wee\"", "must be weak or strong"},
        {"\"missing\": null", "\"missing\": \"x\"", "a cell must have either"},
        {"\"missing\": null", EPOCH("0", "50") ", \"missing\": null", "not in ascending order"},
        {"\"missing\": null", EPOCH("1", "101") ", \"missing\": null", "top1_val"},
        {"\"missing\": null", "\"epochs\": [1], \"missing\": null", "not an object"},
        {"\"schema\": 1", "\"measured\": {\"runs\": 1}, \"schema\": 1", "'recorded'"},
        {"\"schema\": 1",
         "\"measured\": {\"runs\": 3, \"recorded\": 3, \"disturbed\": 4}, "
         "\"schema\": 1",
         "contradict each other"},
        {"\"schema\": 1",
         "\"measured\": {\"runs\": 3, \"recorded\": 3, \"disturbed\": 2, "
         "\"from\": "
         "\"now\"}, \"schema\": 1",
         "'from' is not a time"},
    };
    struct analysis a;
    size_t size;
    char *good = scratch_read(RECORDED, ANALYSIS_FILE, &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write_changed(*state, ANALYSIS_FILE, good, cases[i].old, cases[i].new);
        expect_failed(analysis_read(*state, &a), STATUS_DATA, cases[i].says);
    }
    free(good);
}

/* An earlier version did not judge short runs. Its median share of other processes shows that at
 * least half of the five runs were disturbed, and marks every number of the cell. */
static void test_earlier(void **state)
{
    struct analysis a;
    size_t size;
    char label[ANALYSIS_TEXT_SIZE], *good = scratch_read(RECORDED, ANALYSIS_FILE, &size);
    scratch_write_changed(*state, ANALYSIS_FILE, good, "\"evidence\"",
                          "\"noise\": {\"runs\": 5, \"recorded\": 5, \"disturbed\": 0, "
                          "\"too_short\": 5, \"others\": 0.3}, \"evidence\"");
    expect_ok(analysis_read(*state, &a));
    assert_true(a.cell[0].conditions.disturbed == 3 && analysis_disturbed(&a.cell[0]));
    analysis_verdict_label(&a, &a.cell[0], label);
    assert_string_equal(label, "compute-bound, 3 of 5 runs disturbed");
    a.cell[0].emulated = true;
    analysis_name_label(&a.cell[0], label);
    assert_string_equal(label, "nd-fp32-resnet8-synthetic-1x32 (emulated, disturbed)");
    analysis_precision_label(&a.cell[0], label);
    assert_string_equal(label, "fp32 (emulated)");
    /* Nor did it compare each cell with one device. */
    a.cell[1].efficiency = 0.38;
    analysis_verdict_label(&a, &a.cell[1], label);
    assert_string_equal(label, "compute-bound, 62 % lost");
    analysis_free(&a);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_round_trip), cmocka_unit_test(test_ratio),
                                       IN_FOLDER(test_earlier), IN_FOLDER(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
