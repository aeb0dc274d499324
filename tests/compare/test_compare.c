/* Tests the verdicts on made runs, and errors. */
#include "made.h"

#include "base/file.h"
#include "compare/compare_formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The verdict on a metric, and its ratio within 0.1 %; a ratio of 0 ends a list. */
struct wanted {
    enum metric_id metric;
    double ratio;
    enum compare_verdict verdict;
};

static const struct {
    struct made base, new;
    int regressions;
    bool passed;
    struct wanted want[6];
} cases[] = {
    {.passed = true,
     .want = {{METRIC_IMAGES_PER_S, 1, COMPARE_EQUIVALENT},
              {METRIC_STEP, 1, COMPARE_EQUIVALENT},
              {METRIC_VAL_TOP1, 1, COMPARE_EQUIVALENT}}},
    {.new = {.slower = 0.1},
     .regressions = 7,
     .want = {{METRIC_IMAGES_PER_S_MEAN, 1 / 1.1, COMPARE_REGRESSION},
              {METRIC_IMAGES_PER_S, 1 / 1.1, COMPARE_REGRESSION},
              {METRIC_IMAGES_PER_S_WALL, 1 / 1.1, COMPARE_REGRESSION},
              {METRIC_STEP, 1.1, COMPARE_REGRESSION},
              {METRIC_BACKWARD, 1.1, COMPARE_REGRESSION},
              {METRIC_VAL_TOP1, 1, COMPARE_EQUIVALENT}}},
    {.new = {.slower = -0.1},
     .passed = true,
     .want = {{METRIC_IMAGES_PER_S, 1 / 0.9, COMPARE_BETTER}, {METRIC_STEP, 0.9, COMPARE_BETTER}}},
    /* less accurate, and with a higher use of energy */
    {.base = {.joules = 1},
     .new = {.top1 = 5, .joules = 1.2},
     .regressions = 3,
     .want = {{METRIC_VAL_TOP1, 70.4 / 75.4, COMPARE_REGRESSION},
              {METRIC_JOULES, 1.2, COMPARE_REGRESSION},
              {METRIC_STEP, 1, COMPARE_EQUIVALENT}}},
    /* a part of a step takes twice as long, but almost no time */
    {.base = {.forward_s = 1e-4},
     .new = {.forward_s = 2e-4},
     .passed = true,
     .want = {{METRIC_FORWARD, 2, COMPARE_SMALL}}},
    /* accuracies are not compared if the runs ended for different reasons */
    {.new = {.top1 = 5, .by = "desired accuracy"},
     .passed = true,
     .want = {{METRIC_STEP, 1, COMPARE_EQUIVALENT}}},
    /* a slower input; 2 metrics of input, decoding, the time to accuracy, and 7 as above */
    {.base = {.more = ", \"desired_acc\": 60", .decode_s = 0.001},
     .new = {.more = ", \"desired_acc\": 60", .decode_s = 0.0012, .slower = 0.2},
     .regressions = 11,
     .want = {{METRIC_TIME_TO_ACCURACY, 1.2, COMPARE_REGRESSION},
              {METRIC_IO_BYTES, 1 / 1.2, COMPARE_REGRESSION},
              {METRIC_IO_FILES, 1 / 1.2, COMPARE_REGRESSION},
              {METRIC_DECODE, 1.2, COMPARE_REGRESSION},
              {METRIC_BEST_TOP1, 1, COMPARE_EQUIVALENT},
              {METRIC_VAL_TOP5, 1, COMPARE_EQUIVALENT}}},
};

static void test_verdicts(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct compare_report *r = &f->report;
        make_side(f, 0, "base", &cases[i].base, REPEATS);
        make_side(f, 1, "new", &cases[i].new, REPEATS);
        expect_ok(compare(f));
        for (const struct wanted *w = cases[i].want; w < cases[i].want + 6 && w->ratio > 0; w++) {
            expect(r, w->metric, w->verdict);
            expect_near(result(r, w->metric)->is.ratio, w->ratio, 1e-3 * w->ratio);
        }
        assert_int_equal(r->verdicts[COMPARE_REGRESSION], cases[i].regressions);
        assert_int_equal(compare_passed(r), cases[i].passed);
        assert_true(!result(r, METRIC_VAL_TOP1) == (cases[i].new.by != NULL));
        assert_true(!result(r, METRIC_JOULES) == (cases[i].new.joules == 0));
        assert_null(result(r, METRIC_COMM)); /* the runs did not communicate */
        scratch_remove(f->side[0]);
        scratch_remove(f->side[1]);
    }
}

/* A significant slowdown passes if it is within the threshold, which each metric has of its own.
 * The p is SciPy's for samples that do not overlap. If the new runs are faster, and the interval
 * exceeds the threshold only on the better side, a regression is excluded. */
static void test_threshold(void **state)
{
    struct fixture *f = *state;
    f->config.threshold[METRIC_STEP] = 0.01;
    const struct compare_report *r = made(f, &(struct made){.slower = 0.02}, REPEATS);
    expect_near(result(r, METRIC_IMAGES_PER_S)->is.p, 2.0 / 48620, 1e-12);
    expect(r, METRIC_IMAGES_PER_S, COMPARE_EQUIVALENT);
    expect(r, METRIC_STEP, COMPARE_REGRESSION);
    f->config.threshold[METRIC_STEP] = 0.0305;
    make_side(f, 1, "faster", &(struct made){.slower = -0.03}, REPEATS);
    expect_ok(compare(f));
    assert_true(result(r, METRIC_STEP)->is.low < 1 - 0.0305);
    expect(r, METRIC_STEP, COMPARE_NOT_WORSE);
    assert_true(compare_passed(r));
}

/* The difference is above the threshold, but may be due to chance: six of nine runs are slower, and
 * three are faster. */
static void test_chance(void **state)
{
    const struct compare_report *r =
        made(*state, &(struct made){.slower = 0.1, .uneven = true}, REPEATS);
    assert_true(result(r, METRIC_STEP)->is.ratio > 1.05);
    /* the p that SciPy computes */
    expect_near(result(r, METRIC_STEP)->is.p, 12548.0 / 48620, 1e-12);
    expect(r, METRIC_STEP, COMPARE_INCONCLUSIVE);
    assert_false(compare_passed(r)); /* the interval contains a regression beyond the threshold */
    assert_int_equal(r->verdicts[COMPARE_REGRESSION], 0);
}

/* The interval extends 8 % to each side of the ratio, and the distance of the ratio from the
 * threshold is 3 %. So (2.8 / 1.96 * 8 / 3)^2 times as many runs are needed. */
static void test_deciding_runs(void **state)
{
    struct compare_result one = {.metric = METRIC_STEP,
                                 .base.n = 10,
                                 .new.n = 12,
                                 .threshold = exp(0.03) - 1,
                                 .is = {.ratio = 1, .low = exp(-0.08), .high = exp(0.08)}};
    struct compare_report report = {.alpha = 0.01, .family = 2};
    assert_int_equal(compare_deciding_runs(&report, &one), 146);
    one.is.ratio = exp(0.0299); /* so close to the threshold that no number of runs would decide */
    assert_int_equal(compare_deciding_runs(&report, &one), COMPARE_RUNS_MANY);
    /* The interval contains only regressions, and 14 runs make one of 1e5 metrics significant. */
    one.is = (struct compare_estimate){.ratio = exp(0.5), .low = exp(0.4), .high = exp(0.6)};
    report.family = 100000;
    assert_int_equal(compare_deciding_runs(&report, &one), 14);
    one.is = (struct compare_estimate){.ratio = 0.5, .low = NAN, .high = NAN};
    assert_int_equal(compare_deciding_runs(&report, &one), 0);
}

/* The smallest possible p is 2 / C(2n, n) with n runs a side, and 2 / 2^n with n pairs. */
static void test_enough_repeats(void **state)
{
    static const struct {
        struct compare_report report;
        int enough;
    } reports[] = {
        {{.alpha = 0.01}, 5},
        {{.alpha = 0.01, .family = 2}, 6},
        {{.alpha = 1e-4, .family = 1}, 9},
        {{.alpha = 0.01, .family = 1, .pairing = COMPARE_PAIR_ALWAYS}, 8},
    };
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        assert_int_equal(compare_enough_repeats(&reports[i].report), reports[i].enough);
}

/* Enough repeats, but no outcome has a p below alpha: the smallest possible one is 2 / 48620. */
static void test_few(void **state)
{
    struct fixture *f = *state;
    f->config.alpha = 4e-5;
    const struct compare_report *r = made(f, &(struct made){.slower = 0.5}, REPEATS);
    expect(r, METRIC_STEP, COMPARE_FEW);
    assert_false(compare_passed(r));
}

/* Compares again. The comparison does not pass, and says what is missing. */
static void expect_missing(struct fixture *f, const char *missing)
{
    const struct compare_report *r = &f->report;
    expect_ok(compare(f));
    assert_false(compare_passed(r));
    if (!strstr(r->cell[0].missing, missing))
        fail_msg("no '%s' in '%s'", missing, r->cell[0].missing);
}

/* Adds run r99 to a side, which has enough other runs. */
static void add_run(struct fixture *f, int side, const struct made *m)
{
    char path[256];
    snprintf(path, sizeof path, "%s/r99", f->side[side]);
    make_run(path, m, 99);
}

/* An accuracy that was to be judged cannot be: a run did not reach it, or the runs ended for
 * different reasons. This does not matter if only the throughput is judged. */
static void test_missing_accuracy(void **state)
{
    struct fixture *f = *state;
    const struct compare_report *r = &f->report;
    struct made m = {.more = ", \"desired_acc\": 60"};
    make_side(f, 0, "base60", &m, REPEATS);
    make_side(f, 1, "new60", &m, REPEATS);
    m.top1 = 50;
    add_run(f, 1, &m);
    expect_missing(f, "time_to_accuracy_s is missing in 0 of 9 runs of the base and in 1 of 10");
    m.by = "desired accuracy";
    add_run(f, 0, &m);
    f->config.role[METRIC_VAL_TOP1] = COMPARE_DECIDES;
    expect_missing(f, "val_top1 cannot be judged: the runs ended for different reasons");
    memset(f->config.role, 0, sizeof f->config.role);
    f->config.role[METRIC_IMAGES_PER_S] = COMPARE_DECIDES;
    expect_ok(compare(f));
    assert_true(compare_passed(r));
}

/* A side's value of a field that differs; NULL: the field does not differ. */
static const char *difference(const struct compare_report *r, const char *field, const char *side)
{
    return json_string_value(json_object_get(json_object_get(r->cell[0].differences, field), side));
}

/* Different settings and devices are refused. The repeats of all these tests also differ in seed,
 * host name, version, size of memory and path of the data; these differences are allowed. An
 * allowed name covers its field and all fields below it, but no other field that begins with the
 * same letters. */
static void test_refused(void **state)
{
    static const struct {
        const char *field, *side, *want;
    } wanted[] = {
        {"device", "base", "a \"quick\" device"},
        {"device", "new", "B"},
        {"config.lr", "base", "absent"},
        {"config.lr", "new", "0.5"},
        {"config.list.0", "new", "1"},
        {"config.list.1.a", "new", "true"},
    };
    struct fixture *f = *state;
    const struct made other = {.more = ", \"lr\": 0.5, \"list\": [1, {\"a\": true}]",
                               .device = "B"};
    const struct compare_report *r = made(f, &other, REPEATS);
    assert_true(r->refused == 1 && r->cell[0].n_results == 0 && !compare_passed(r));
    assert_int_equal(json_object_size(r->cell[0].differences), 4);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_string_equal(difference(r, wanted[i].field, wanted[i].side), wanted[i].want);

    f->config.allowed = (const char *[]){"config.list", "devic", "config.l"};
    f->config.n_allowed = 3;
    expect_ok(compare(f));
    assert_int_equal(json_object_size(r->cell[0].differences), 2);
    f->config.allowed = (const char *[]){"device", "config.lr", "config.list"};
    expect_ok(compare(f));
    assert_true(r->refused == 0 && compare_passed(r));
    add_run(f, 0, &(struct made){.more = ", \"seeds\": 2"}); /* differs within a side */
    expect_ok(compare(f));
    assert_int_equal(r->refused, 1);
    assert_string_equal(difference(r, "config.seeds", "new"), "2");
}

/* Records that do not name the decoding are of runs that decoded as --decode fast does. */
static void test_decoding(void **state)
{
    struct fixture *f = *state;
    const struct made fast = {.more = ", \"decode\": \"fast\""};
    const struct made exact = {.more = ", \"decode\": \"exact\""};
    make_side(f, 0, "old", &(struct made){0}, REPEATS);
    make_side(f, 1, "fast", &fast, REPEATS);
    expect_ok(compare(f));
    assert_int_equal(f->report.refused, 0);
    make_side(f, 1, "exact", &exact, REPEATS);
    expect_ok(compare(f));
    assert_int_equal(f->report.refused, 1);
    assert_string_equal(difference(&f->report, "config.decode", "base"), "fast");
    assert_string_equal(difference(&f->report, "config.decode", "new"), "exact");
}

/* Comparing a run with itself would always pass. A run is the same in its own folder, through a
 * link, and as a copy that has its start time; on one side, it may not count twice either. */
static void test_same_runs(void **state)
{
    struct fixture *f = *state;
    char link[SCRATCH_MAX + 64];
    make_side(f, 0, "base", &(struct made){.first_s = 1000}, REPEATS);
    make_side(f, 1, "base", &(struct made){.first_s = 1000}, REPEATS);
    assert_int_equal(compare(f), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "/base/r1' of NEW are the same run"));
    make_side(f, 1, "copy", &(struct made){.first_s = 1000}, REPEATS);
    assert_int_equal(compare(f), STATUS_USAGE);
    make_side(f, 0, "untimed", &(struct made){0}, REPEATS);
    snprintf(link, sizeof link, "%s/link", f->dir);
    assert_int_equal(symlink(f->side[0], link), 0);
    set_side(f, 1, "link");
    assert_int_equal(compare(f), STATUS_USAGE);
    make_side(f, 1, "new", &(struct made){0}, REPEATS);
    expect_ok(compare(f));
    snprintf(link, sizeof link, "%s/new/latest", f->dir);
    assert_int_equal(symlink("r9", link), 0);
    assert_int_equal(compare(f), STATUS_USAGE);
}

static void make_cell(struct fixture *f, int side, const char *study, const char *cell,
                      double slower)
{
    char name[64];
    snprintf(name, sizeof name, "%s/cells/%s", study, cell);
    make_side(f, side, name, &(struct made){.slower = slower}, REPEATS);
    set_side(f, side, study);
}

/* Cells are compared one by one; a cell that one side lacks is missing. */
static void test_studies(void **state)
{
    struct fixture *f = *state;
    const struct compare_report *r = &f->report;
    make_cell(f, 0, "study0", "a", 0);
    make_cell(f, 0, "study0", "b", 0);
    make_cell(f, 1, "study1", "b", 0.2);
    make_cell(f, 1, "study1", "c", 0);
    expect_ok(compare(f));
    assert_int_equal(r->n_cells, 3);
    assert_string_equal(r->cell[0].name, "a");
    assert_non_null(strstr(r->cell[0].missing, "0 repeats of NEW; at least 5 are needed"));
    assert_true(r->cell[1].n_results > 0 && r->verdicts[COMPARE_REGRESSION] == 7);
    assert_non_null(strstr(r->cell[2].missing, "0 repeats of BASE; at least 5 are needed"));

    /* A study cannot be compared with a folder that is not a study. */
    set_side(f, 0, "study0/cells/a");
    assert_int_equal(compare(f), STATUS_USAGE);
}

/* A run without recorded steps has no times of steps, and the reason for its end is not a text. */
static void test_damaged(void **state)
{
    struct fixture *f = *state;
    char path[256];
    const struct compare_report *r = made(f, &(struct made){.slower = 0}, REPEATS);
    snprintf(path, sizeof path, "%s/r3", f->side[1]);
    scratch_write_text(path, "steps.jsonl", "");
    scratch_write_text(path, "summary.json", "{\"schema\": 1, \"ended_by\": 7}");
    expect_ok(compare(f));
    assert_int_equal(result(r, METRIC_STEP)->new.n, REPEATS - 1);
    assert_null(result(r, METRIC_VAL_TOP1));
    scratch_write_text(path, "summary.json", "{\"schema\": 1, \"ended_by\": [\"\\u0000\"]}");
    expect_missing(f, "1 damaged run of NEW left out: '");
}

/* JUnit and Markdown escape text. */
static void test_formats(void **state)
{
    static const char *const want[] = {"classname=\"a &lt;b&gt; &amp; &quot;c&quot; | ?\"",
                                       "a \\<b\\> \\& \"c\" \\|"};
    struct fixture *f = *state;
    size_t size;
    const struct compare_report *r = made(f, &(struct made){.slower = 0.1}, REPEATS);
    snprintf(r->cell[0].name, sizeof r->cell[0].name, "a <b> & \"c\" | \xEF\xBF\xBE");
    for (int i = 0; i < 2; i++) {
        const char *path = scratch_path(f->dir, "x");
        struct compare_files files = {.junit = i ? NULL : path, .markdown = i ? path : NULL};
        expect_ok(compare_write(r, &files));
        char *text = scratch_read(f->dir, "x", &size);
        assert_non_null(strstr(text, want[i]));
        free(text);
    }
}

/* However many cells there are, a Markdown file begins with the verdict, the commits and the hosts,
 * has the regressions before the rest, and fits in a comment. */
static void test_markdown_size(void **state)
{
    enum { CELLS = 500 };
    struct fixture *f = *state;
    struct compare_report r = {
        .cell = calloc(CELLS, sizeof *r.cell),
        .n_cells = CELLS,
        .side = {{.runs = 40, .commits = "1a2b"}, {.runs = 41, .hosts = "node7"}},
        .verdicts = {[COMPARE_REGRESSION] = 1}};
    for (int i = 0; i < CELLS; i++) {
        struct compare_cell *c = &r.cell[i];
        snprintf(c->name, sizeof c->name, "cell_%d", i);
        c->n_results = 2;
        c->result[1].verdict = COMPARE_EQUIVALENT;
        c->result[0].verdict = i < CELLS - 1 ? COMPARE_BETTER : COMPARE_REGRESSION;
    }
    expect_ok(compare_write(&r, &(struct compare_files){.markdown = scratch_path(f->dir, "x")}));
    size_t size;
    char *text = scratch_read(f->dir, "x", &size);
    assert_in_range(size, 14000, COMPARE_MARKDOWN_MAX);
    const char *verdict = strstr(text, "**REGRESSION: 1 regression**"),
               *base = strstr(text, "| BASE | 40 | 1a2b |  |"),
               *new = strstr(text, "| NEW | 41 |  | node7 |"),
               *worst = strstr(text, "| cell\\_499 |"), *other = strstr(text, "| cell\\_0 |");
    assert_true(verdict && base > verdict && new > base &&worst > new &&other > worst);
    assert_non_null(strstr(text, " more rows do not fit here"));
    assert_non_null(strstr(text, "Not shown: 500 metrics,"));
    free(text);
    free(r.cell);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_verdicts),
        TEST(test_threshold),
        TEST(test_chance),
        TEST(test_few),
        TEST(test_missing_accuracy),
        TEST(test_refused),
        TEST(test_decoding),
        TEST(test_same_runs),
        TEST(test_studies),
        TEST(test_damaged),
        TEST(test_formats),
        TEST(test_markdown_size),
        cmocka_unit_test(test_deciding_runs),
        cmocka_unit_test(test_enough_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
