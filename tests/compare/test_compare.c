/* Tests the verdicts on made runs, and errors. */
#include "made.h"

#include "compare/compare_formats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void test_same(void **state)
{
    struct compare_report r = made(*state, &(struct made){.slower = 0}, REPEATS);
    assert_true(compare_passed(&r));
    assert_string_equal(r.cell[0].name, "resnet18 fp32 nd");
    expect(&r, METRIC_IMAGES_PER_S, COMPARE_EQUIVALENT);
    expect(&r, METRIC_STEP, COMPARE_EQUIVALENT);
    expect(&r, METRIC_VAL_TOP1, COMPARE_EQUIVALENT);
    expect_near(result(&r, METRIC_STEP)->is.ratio, 1, 1e-9);
    assert_null(result(&r, METRIC_COMM)); /* the runs did not communicate */
    assert_null(result(&r, METRIC_JOULES));
    compare_report_free(&r);
}

static void test_slower(void **state)
{
    struct compare_report r = made(*state, &(struct made){.slower = 0.1}, REPEATS);
    assert_false(compare_passed(&r));
    expect(&r, METRIC_IMAGES_PER_S, COMPARE_REGRESSION);
    expect(&r, METRIC_IMAGES_PER_S_WALL, COMPARE_REGRESSION);
    expect(&r, METRIC_STEP, COMPARE_REGRESSION);
    expect(&r, METRIC_BACKWARD, COMPARE_REGRESSION);
    expect(&r, METRIC_VAL_TOP1, COMPARE_EQUIVALENT);
    assert_int_equal(r.verdicts[COMPARE_REGRESSION], 6);
    expect_near(result(&r, METRIC_STEP)->is.ratio, 1.1, 1e-6);
    expect_near(result(&r, METRIC_STEP)->is.p, 2.0 / 48620, 1e-12);
    compare_report_free(&r);
}

static void test_faster(void **state)
{
    struct compare_report r = made(*state, &(struct made){.slower = -0.1}, REPEATS);
    assert_true(compare_passed(&r));
    expect(&r, METRIC_IMAGES_PER_S, COMPARE_BETTER);
    expect(&r, METRIC_STEP, COMPARE_BETTER);
    compare_report_free(&r);
}

/* A significant slowdown passes if it is within the threshold. The threshold of one metric does not
 * apply to other metrics. */
static void test_threshold(void **state)
{
    struct fixture *f = *state;
    f->config.threshold[METRIC_STEP] = 0.01;
    struct compare_report r = made(f, &(struct made){.slower = 0.02}, REPEATS);
    assert_true(result(&r, METRIC_IMAGES_PER_S)->is.p < f->config.alpha);
    expect(&r, METRIC_IMAGES_PER_S, COMPARE_EQUIVALENT);
    expect(&r, METRIC_STEP, COMPARE_REGRESSION);
    compare_report_free(&r);
}

/* The difference is above the threshold, but may be due to chance: six of nine runs are slower, and
 * three are faster. */
static void test_chance(void **state)
{
    struct compare_report r = made(*state, &(struct made){.slower = 0.1, .uneven = true}, REPEATS);
    assert_true(result(&r, METRIC_STEP)->is.ratio > 1.05);
    /* the p that SciPy computes */
    expect_near(result(&r, METRIC_STEP)->is.p, 12548.0 / 48620, 1e-12);
    expect(&r, METRIC_STEP, COMPARE_INCONCLUSIVE);
    assert_false(compare_passed(&r)); /* the interval contains a regression beyond the threshold */
    assert_int_equal(r.verdicts[COMPARE_REGRESSION], 0);
    assert_int_equal(r.inconclusive, r.verdicts[COMPARE_INCONCLUSIVE]);
    const struct compare_cell *cell;
    const struct compare_result *first = compare_first_inconclusive(&r, &cell);
    assert_true(first && cell == &r.cell[0]);
    assert_true(compare_deciding_runs(first) > REPEATS);
    compare_report_free(&r);
}

/* The new runs are faster, by less than the threshold. The interval exceeds the threshold, but only
 * on the better side: a regression is excluded. */
static void test_not_worse(void **state)
{
    struct fixture *f = *state;
    f->config.threshold[METRIC_STEP] = 0.0305;
    struct compare_report r = made(f, &(struct made){.slower = -0.03}, REPEATS);
    assert_true(result(&r, METRIC_STEP)->is.low < 1 - 0.0305);
    expect(&r, METRIC_STEP, COMPARE_NOT_WORSE);
    assert_true(compare_passed(&r));
    compare_report_free(&r);
}

/* The interval extends 8 % to each side of the ratio, and the distance of the ratio from the
 * threshold is 3 %. So (2.8 / 1.96 * 8 / 3)^2 times as many runs are needed. */
static void test_deciding_runs(void **state)
{
    (void)state;
    struct compare_result r = {.metric = METRIC_STEP,
                               .base.n = 10,
                               .new.n = 12,
                               .threshold = exp(0.03) - 1,
                               .is = {.ratio = 1, .low = exp(-0.08), .high = exp(0.08)}};
    assert_int_equal(compare_deciding_runs(&r), 146);
    r.is.ratio = exp(0.0299); /* so close to the threshold that no number of runs would decide */
    assert_int_equal(compare_deciding_runs(&r), COMPARE_RUNS_MANY);
}

static void test_directions(void **state)
{
    struct compare_report r = made(*state, &(struct made){.top1 = 5, .joules = 1.2}, REPEATS);
    expect(&r, METRIC_VAL_TOP1, COMPARE_REGRESSION);
    expect(&r, METRIC_JOULES, COMPARE_REGRESSION);
    expect(&r, METRIC_STEP, COMPARE_EQUIVALENT);
    assert_true(fabs(result(&r, METRIC_JOULES)->is.ratio - 1.2) < 1e-6);
    compare_report_free(&r);
}

/* If a part of a step takes almost no time, it may take twice as long: this is no regression. */
static void test_small_part(void **state)
{
    struct fixture *f = *state;
    struct compare_report r;
    make_side(f, 0, "base", &(struct made){.forward_s = 1e-4}, REPEATS);
    make_side(f, 1, "new", &(struct made){.forward_s = 2e-4}, REPEATS);
    assert_int_equal(compare(f, &r), STATUS_OK);
    expect(&r, METRIC_FORWARD, COMPARE_SMALL);
    assert_true(compare_passed(&r));
    compare_report_free(&r);
}

static void test_few(void **state)
{
    struct compare_report r =
        made(*state, &(struct made){.slower = 0.5}, COMPARE_LEAST_REPEATS - 1);
    assert_false(compare_passed(&r));
    expect(&r, METRIC_STEP, COMPARE_FEW);
    assert_int_equal(r.verdicts[COMPARE_REGRESSION], 0);
    assert_int_equal(r.incomplete, 1);
    assert_non_null(strstr(r.cell[0].missing, "4 repeats of NEW; at least 5 are needed"));
    compare_report_free(&r);
}

/* The smallest possible p is 2 / C(2n, n) with n runs a side, and 2 / 2^n with n pairs. */
static void test_enough_repeats(void **state)
{
    (void)state;
    assert_int_equal(compare_enough_repeats(&(struct compare_report){.alpha = 0.01}), 5);
    assert_int_equal(compare_enough_repeats(&(struct compare_report){.alpha = 0.01, .family = 2}),
                     6);
    assert_int_equal(compare_enough_repeats(&(struct compare_report){.alpha = 1e-4, .family = 1}),
                     9);
    const struct compare_report pairs = {.alpha = 0.01, .family = 1, .pairs_only = true};
    assert_int_equal(compare_enough_repeats(&pairs), 8);
}

/* With so few repeats, no outcome has a p below this alpha after Holm's correction. */
static void test_alpha_out_of_reach(void **state)
{
    struct fixture *f = *state;
    f->config.alpha = 0.0001;
    struct compare_report r = made(f, &(struct made){.slower = 0.5}, REPEATS);
    expect(&r, METRIC_STEP, COMPARE_FEW);
    assert_false(compare_passed(&r));
    compare_report_free(&r);
}

/* If runs ended for different reasons, their accuracies are not compared. All other metrics are
 * compared. */
static void test_ends(void **state)
{
    struct compare_report r =
        made(*state, &(struct made){.top1 = 5, .by = "desired accuracy"}, REPEATS);
    assert_null(result(&r, METRIC_VAL_TOP1));
    expect(&r, METRIC_STEP, COMPARE_EQUIVALENT);
    assert_true(compare_passed(&r));
    compare_report_free(&r);

    /* If the comparison of an accuracy was requested, the comparison does not pass. */
    struct fixture *f = *state;
    f->config.role[METRIC_VAL_TOP1] = COMPARE_DECIDES;
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_false(compare_passed(&r));
    assert_non_null(strstr(r.cell[0].missing,
                           "val_top1 cannot be judged: the runs ended for different reasons"));
    compare_report_free(&r);
}

/* Time to accuracy, input rates and decoding can be gating. */
static void test_accuracy_and_input(void **state)
{
    struct fixture *f = *state;
    const struct made base = {.more = ", \"desired_acc\": 60", .decode_s = 0.001};
    struct made slow = base;
    struct compare_report r;
    slow.slower = 0.2;
    slow.decode_s = 0.0012;
    make_side(f, 0, "base", &base, REPEATS);
    make_side(f, 1, "new", &slow, REPEATS);
    assert_int_equal(compare(f, &r), STATUS_OK);
    expect(&r, METRIC_TIME_TO_ACCURACY, COMPARE_REGRESSION);
    expect(&r, METRIC_IO_BYTES, COMPARE_REGRESSION);
    expect(&r, METRIC_IO_FILES, COMPARE_REGRESSION);
    expect(&r, METRIC_DECODE, COMPARE_REGRESSION);
    expect(&r, METRIC_BEST_TOP1, COMPARE_EQUIVALENT);
    expect(&r, METRIC_VAL_TOP5, COMPARE_EQUIVALENT);
    expect_near(result(&r, METRIC_TIME_TO_ACCURACY)->is.ratio, 1.2, 1e-3);
    expect_near(result(&r, METRIC_DECODE)->is.ratio, 1.2, 1e-3);
    compare_report_free(&r);
}

/* A run that did not reach the accuracy has no time to accuracy. The comparison then does not pass,
 * even if there are enough other runs. It passes if only the throughput is judged. */
static void test_accuracy_not_reached(void **state)
{
    struct fixture *f = *state;
    char path[256];
    struct compare_report r;
    struct made m = {.more = ", \"desired_acc\": 60"};
    make_side(f, 0, "base", &m, REPEATS);
    make_side(f, 1, "new", &m, REPEATS);
    snprintf(path, sizeof path, "%s/r99", f->side[1]);
    m.top1 = 50;
    make_run(path, &m, 99);
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_false(compare_passed(&r));
    assert_non_null(strstr(r.cell[0].missing, "time_to_accuracy_s is missing in 0 of 9 runs of "
                                              "the base and in 1 of 10 new runs"));
    compare_report_free(&r);

    memset(f->config.role, 0, sizeof f->config.role);
    f->config.role[METRIC_IMAGES_PER_S] = COMPARE_DECIDES;
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_true(compare_passed(&r));
    compare_report_free(&r);
}

/* A run that did not end counts as missing, even if there are enough other runs. */
static void test_unfinished(void **state)
{
    struct fixture *f = *state;
    struct compare_report r;
    char path[256];
    make_side(f, 0, "base", &(struct made){.slower = 0}, REPEATS);
    make_side(f, 1, "new", &(struct made){.slower = 0}, REPEATS);
    snprintf(path, sizeof path, "%s/r99", f->side[1]);
    make_run(path, &(struct made){.by = ""}, 99);
    scratch_write(f->side[1], "r98.failed", "{}", 2);
    assert_int_equal(compare(f, &r), STATUS_OK);
    expect(&r, METRIC_STEP, COMPARE_EQUIVALENT);
    assert_false(compare_passed(&r));
    assert_non_null(strstr(r.cell[0].missing, "2 of 11 runs of NEW are incomplete"));
    compare_report_free(&r);
}

/* A side's value of a field that differs; NULL: the field does not differ. */
static const char *difference(const struct compare_report *r, const char *field, const char *side)
{
    return json_string_value(json_object_get(json_object_get(r->cell[0].differences, field), side));
}

/* Different settings and devices are refused. The repeats of all these tests also differ in seed,
 * host name, version, size of memory and path of the data; these differences are allowed. */
static void test_refused(void **state)
{
    const struct made other = {.more = ", \"lr\": 0.5, \"list\": [1, {\"a\": true}]",
                               .device = "B"};
    struct compare_report r = made(*state, &other, REPEATS);
    assert_int_equal(r.refused, 1);
    assert_int_equal(r.cell[0].n_results, 0);
    assert_false(compare_passed(&r));
    assert_int_equal(json_object_size(r.cell[0].differences), 4);
    assert_string_equal(difference(&r, "device", "base"), "a \"quick\" device");
    assert_string_equal(difference(&r, "device", "new"), "B");
    assert_string_equal(difference(&r, "config.lr", "base"), "absent");
    assert_string_equal(difference(&r, "config.lr", "new"), "0.5");
    assert_string_equal(difference(&r, "config.list.0", "new"), "1");
    assert_string_equal(difference(&r, "config.list.1.a", "new"), "true");
    compare_report_free(&r);
}

/* An allowed name covers its field and all fields below it, but no other field that begins with the
 * same letters. */
static void test_allowed(void **state)
{
    struct fixture *f = *state;
    const char *allowed[] = {"config.list", "devic", "config.l"};
    const struct made other = {.more = ", \"lr\": 0.5, \"list\": [1, 2]", .device = "B"};
    f->config.allowed = allowed;
    f->config.n_allowed = 3;
    struct compare_report r = made(f, &other, REPEATS);
    assert_int_equal(json_object_size(r.cell[0].differences), 2);
    compare_report_free(&r);
    f->config.allowed = (const char *[]){"device", "config.lr", "config.list"};
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_int_equal(r.refused, 0);
    assert_true(compare_passed(&r));
    compare_report_free(&r);
}

/* Repeats of one side must have the same configuration, too. */
static void test_mixed_side(void **state)
{
    struct fixture *f = *state;
    struct compare_report r;
    char path[256];
    make_side(f, 0, "base", &(struct made){.slower = 0}, REPEATS);
    make_side(f, 1, "new", &(struct made){.slower = 0}, REPEATS);
    snprintf(path, sizeof path, "%s/r99", f->side[0]);
    make_run(path, &(struct made){.more = ", \"lr\": 0.5"}, 9);
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_int_equal(r.refused, 1);
    assert_string_equal(difference(&r, "config.lr", "new"), "0.5");
    compare_report_free(&r);
}

static void make_cell(struct fixture *f, int side, const char *study, const char *cell,
                      const struct made *m)
{
    char name[64];
    snprintf(name, sizeof name, "%s/cells/%s", study, cell);
    make_side(f, side, name, m, REPEATS);
    set_side(f, side, study);
}

/* Cells are compared one by one; a cell that one side lacks is missing. */
static void test_studies(void **state)
{
    struct fixture *f = *state;
    struct compare_report r;
    char path[256];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/study%d", f->dir, i);
        assert_int_equal(mkdir(path, 0777), 0);
        strcat(path, "/cells");
        assert_int_equal(mkdir(path, 0777), 0);
    }
    make_cell(f, 0, "study0", "a", &(struct made){.slower = 0});
    make_cell(f, 0, "study0", "b", &(struct made){.slower = 0});
    make_cell(f, 1, "study1", "b", &(struct made){.slower = 0.2});
    make_cell(f, 1, "study1", "c", &(struct made){.slower = 0});
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_int_equal(r.n_cells, 3);
    assert_string_equal(r.cell[0].name, "a");
    assert_non_null(strstr(r.cell[0].missing, "0 repeats of NEW; at least 5 are needed"));
    assert_int_equal(r.cell[0].n_results, 0);
    assert_string_equal(r.cell[1].missing, "");
    assert_true(r.cell[1].n_results > 0 && r.verdicts[COMPARE_REGRESSION] == 6);
    assert_non_null(strstr(r.cell[2].missing, "0 repeats of BASE; at least 5 are needed"));
    compare_report_free(&r);

    /* A study cannot be compared with a folder that is not a study. */
    set_side(f, 0, "study0/cells/a");
    assert_int_equal(compare(f, &r), STATUS_USAGE);
}

/* Run r3 of the new side is damaged: it is named and left out, and the comparison does not pass. */
static void assert_left_out(struct fixture *f)
{
    struct compare_report r;
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_false(compare_passed(&r));
    assert_int_equal(r.incomplete, 1);
    assert_int_equal(r.cell[0].n_base, REPEATS);
    assert_int_equal(r.cell[0].n_new, REPEATS - 1);
    assert_non_null(strstr(r.cell[0].missing, "1 damaged run of NEW left out: '"));
    assert_non_null(strstr(r.cell[0].missing, "/r3/"));
    assert_non_null(result(&r, METRIC_STEP));
    compare_report_free(&r);
}

static void test_hostile(void **state)
{
    struct fixture *f = *state;
    struct compare_report r;
    char path[256];
    static const char torn[] = "{\"step\": 0, \"total_s\": \"x\"}\n";
    static const char ended[] = "{\"schema\": 1, \"ended_by\": [\"\\u0000\"]}";
    make_side(f, 0, "base", &(struct made){.slower = 0}, REPEATS);
    make_side(f, 1, "new", &(struct made){.slower = 0}, REPEATS);
    snprintf(path, sizeof path, "%s/r3", f->side[1]);
    scratch_write(path, "summary.json", "{\"schema\": 1, \"ended_by\": 7}", 28);
    /* the run is complete, but the reason for its end is not a text */
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_null(result(&r, METRIC_VAL_TOP1));
    compare_report_free(&r);
    scratch_write(path, "summary.json", ended, sizeof ended - 1);
    assert_left_out(f);
    scratch_write(path, "summary.json", "{\"schema\": 1}", 13);
    scratch_append(path, "steps.jsonl", torn, sizeof torn - 1);
    assert_left_out(f);

    /* A run without recorded steps has no times of steps. */
    scratch_write(path, "steps.jsonl", "", 0);
    assert_int_equal(compare(f, &r), STATUS_OK);
    assert_int_equal(result(&r, METRIC_STEP)->new.n, REPEATS - 1);
    compare_report_free(&r);
    scratch_write(path, "run.json", "[]", 2);
    assert_left_out(f);

    set_side(f, 1, "base/r1/no");
    assert_int_equal(compare(f, &r), STATUS_DATA);
    set_side(f, 1, "empty");
    assert_int_equal(mkdir(f->side[1], 0777), 0);
    assert_int_equal(compare(f, &r), STATUS_DATA);
}

/* Output for programs: JSON with known members, and XML whose text is escaped. */
static void test_formats(void **state)
{
    struct fixture *f = *state;
    char path[256], *text;
    size_t size;
    struct compare_report r = made(f, &(struct made){.slower = 0.1}, REPEATS);
    snprintf(r.cell[0].name, sizeof r.cell[0].name, "a <b> & \"c\" | \xEF\xBF\xBE");
    snprintf(path, sizeof path, "%s/x.xml", f->dir);
    assert_int_equal(compare_write(&r, &(struct compare_files){.junit = path, .markdown = NULL}),
                     STATUS_OK);
    text = scratch_read(f->dir, "x.xml", &size);
    assert_non_null(strstr(text, "tests=\"9\" failures=\"6\" errors=\"0\" skipped=\"0\""));
    assert_non_null(strstr(text, "classname=\"a &lt;b&gt; &amp; &quot;c&quot; | ?\""));
    free(text);
    snprintf(path, sizeof path, "%s/x.md", f->dir);
    assert_int_equal(compare_write(&r, &(struct compare_files){.markdown = path}), STATUS_OK);
    text = scratch_read(f->dir, "x.md", &size);
    assert_non_null(strstr(text, "a \\<b\\> \\& \"c\" \\|"));
    assert_non_null(strstr(text, "**REGRESSION**"));
    free(text);

    json_t *o = compare_json(&r);
    const json_t *m = json_array_get(
        json_object_get(json_array_get(json_object_get(o, "cells"), 0), "metrics"), 0);
    assert_int_equal(json_integer_value(json_object_get(o, "schema")), COMPARE_SCHEMA);
    assert_true(json_is_false(json_object_get(o, "passed")));
    assert_string_equal(json_string_value(json_object_get(m, "name")), "images_per_s");
    assert_string_equal(json_string_value(json_object_get(m, "verdict")), "REGRESSION");
    expect_near(json_real_value(json_object_get(m, "ratio")), 1 / 1.1, 1e-6);
    json_decref(o);

    o = compare_benchmark_action(&r);
    /* throughput and accuracy have three metrics each for which higher values are better */
    assert_int_equal(json_array_size(o), 6);
    m = json_array_get(o, 0);
    assert_true(json_is_string(json_object_get(m, "name")) &&
                json_is_string(json_object_get(m, "unit")));
    expect_near(json_real_value(json_object_get(m, "value")),
                result(&r, METRIC_IMAGES_PER_S)->new.median, 0);
    json_decref(o);
    compare_report_free(&r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_same),
        TEST(test_not_worse),
        TEST(test_deciding_runs),
        TEST(test_slower),
        TEST(test_faster),
        TEST(test_threshold),
        TEST(test_chance),
        TEST(test_directions),
        TEST(test_small_part),
        TEST(test_few),
        TEST(test_ends),
        TEST(test_accuracy_and_input),
        TEST(test_accuracy_not_reached),
        TEST(test_enough_repeats),
        TEST(test_alpha_out_of_reach),
        TEST(test_unfinished),
        TEST(test_refused),
        TEST(test_allowed),
        TEST(test_mixed_side),
        TEST(test_studies),
        TEST(test_hostile),
        TEST(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
