/* Tests verdicts on runs of two sides that alternate, on gating metrics, and on many metrics at
 * once. */
#include "made.h"

#include "compare/significance.h"

#include <stdlib.h>
#include <string.h>

/* Both sides drift by 30 % from run to run, far more than their difference of 5 %. */
static const struct compare_report *drifting(struct fixture *f, double base_s, double new_s, int n)
{
    const struct compare_report *r = &f->report;
    f->config = compare_defaults();
    f->config.role[METRIC_VAL_TOP1] = COMPARE_INFORMATIONAL;
    make_side(f, 0, "base", &(struct made){.first_s = base_s, .drift = 1.3}, REPEATS);
    make_side(f, 1, "new", &(struct made){.slower = 0.05, .first_s = new_s, .drift = 1.301}, n);
    expect_ok(compare(f));
    return r;
}

/* Runs that are neighbours in time drift together. With pairs, the regression is found; without
 * pairs, the verdict is inconclusive. */
static void test_pairs(void **state)
{
    struct fixture *f = *state;
    const struct compare_report *r = drifting(f, 1000, 1030, REPEATS);
    assert_true(r->cell[0].turns);
    assert_true(result(r, METRIC_STEP)->is.paired && result(r, METRIC_STEP)->is.exact);
    expect(r, METRIC_IMAGES_PER_S, COMPARE_REGRESSION);
    expect(r, METRIC_STEP, COMPARE_WORSE);
    expect_near(result(r, METRIC_STEP)->is.p, 2.0 / 512, 1e-12);
    expect_near(result(r, METRIC_STEP)->is.ratio, 1.05 * pow(1.301 / 1.3, 4), 1e-5);
    assert_true(result(r, METRIC_STEP)->is.low > 1.05 && result(r, METRIC_STEP)->is.high < 1.06);

    f->config.pairing = COMPARE_PAIR_NEVER;
    expect_ok(compare(f));
    assert_false(result(r, METRIC_STEP)->is.paired);
    assert_int_equal(r->verdicts[COMPARE_REGRESSION] + r->verdicts[COMPARE_WORSE], 0);
    expect(r, METRIC_IMAGES_PER_S, COMPARE_INCONCLUSIVE);
}

/* Two base runs begin before the first new run, a run has no partner, or a side has no times: the
 * sides did not take turns. */
static void test_no_turns(void **state)
{
    static const struct {
        double new_s;
        int n;
    } cases[] = {{1030, REPEATS - 1}, {0, REPEATS}, {1090, REPEATS}};
    struct fixture *f = *state;
    const struct compare_report *r = &f->report;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        r = drifting(f, 1000, cases[i].new_s, cases[i].n);
        assert_false(r->cell[0].turns);
        assert_int_equal(r->verdicts[COMPARE_REGRESSION], 0);
        if (i < 2) {
            scratch_remove(f->side[0]);
            scratch_remove(f->side[1]);
        }
    }
    f->config.pairing = COMPARE_PAIR_ALWAYS;
    expect_ok(compare(f));
    assert_false(compare_passed(r));
    assert_non_null(strstr(r->cell[0].missing, "did not take turns"));
}

/* With six pairs, p cannot be below alpha; with six runs a side, it can. So no pairs are used. */
static void test_few_pairs(void **state)
{
    struct fixture *f = *state;
    const struct compare_report *r = &f->report;
    make_side(f, 0, "base", &(struct made){.first_s = 1000}, 6);
    make_side(f, 1, "new", &(struct made){.slower = 0.1, .first_s = 1030}, 6);
    f->config = compare_defaults();
    f->config.role[METRIC_VAL_TOP1] = COMPARE_INFORMATIONAL;
    expect_ok(compare(f));
    assert_true(r->cell[0].turns && !result(r, METRIC_STEP)->is.paired);
    expect(r, METRIC_IMAGES_PER_S, COMPARE_REGRESSION);
}

/* A non-gating metric only informs. */
static void test_roles(void **state)
{
    struct fixture *f = *state;
    f->config = compare_defaults();
    const struct compare_report *r = made(f, &(struct made){.joules = 2}, REPEATS);
    expect(r, METRIC_JOULES, COMPARE_WORSE);
    assert_int_equal(r->family, 3);
    assert_true(compare_passed(r));
    f->config.role[METRIC_JOULES] = COMPARE_DECIDES;
    expect_ok(compare(f));
    expect(r, METRIC_JOULES, COMPARE_REGRESSION);
}

/* Hochberg's method multiplies the largest of four p by 1, and the third and so those below it by
 * 2: R's p.adjust(c(p, p, p, q), "hochberg"). With the second alpha, a single metric would be
 * significant, but not one of the four. */
static void test_hochberg(void **state)
{
    struct fixture *f = *state;
    f->config = compare_defaults();
    f->config.role[METRIC_IMAGES_PER_S_MAX] = f->config.role[METRIC_VAL_TOP1] = COMPARE_OPTION;
    const struct compare_report *r = made(f, &(struct made){.slower = 0.1}, REPEATS);
    const struct compare_result *top1 = result(r, METRIC_VAL_TOP1);
    assert_int_equal(r->family, 4);
    /* the largest of the four p is multiplied by 1 */
    expect_near(top1->corrected_p, top1->is.p, 1e-12);
    expect_near(result(r, METRIC_IMAGES_PER_S)->corrected_p, 2 * 2.0 / 48620, 1e-12);
    f->config.alpha = 1.5 * 2.0 / 48620;
    expect_ok(compare(f));
    assert_int_equal(r->verdicts[COMPARE_REGRESSION], 0);
    expect(r, METRIC_IMAGES_PER_S, COMPARE_INCONCLUSIVE);
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

enum { EIGHT = 8, STUDY_METRICS = 2 };

/* Adds a cell with two gating metrics of eight runs a side, whose new values are all lower if
 * `slower`, and random otherwise. If `alike`, both metrics order the runs alike. */
static void add_cell(struct compare_report *r, bool slower, bool alike, uint64_t *state)
{
    struct compare_cell *c = &r->cell[r->n_cells++];
    *c = (struct compare_cell){.n_results = STUDY_METRICS};
    double x[EIGHT], y[EIGHT];
    struct rank_test test;
    for (int k = 0; k < STUDY_METRICS; k++) {
        for (int i = 0; i < EIGHT && (k == 0 || !alike); i++) {
            x[i] = uniform(state) + slower;
            y[i] = uniform(state);
        }
        expect_ok(mann_whitney(x, EIGHT, y, EIGHT, &test));
        struct compare_result *result = &c->result[k];
        result->metric = METRIC_IMAGES_PER_S;
        result->base.n = result->new.n = EIGHT;
        result->base.max = result->decides = true;
        result->is = result->sides =
            (struct compare_estimate){.ratio = 0.9,
                                      .low = 0.8,
                                      .high = slower ? 0.95 : 1.1,
                                      .p = test.p,
                                      .exact = true,
                                      .least_p = mann_whitney_least(EIGHT, EIGHT)};
    }
}

/* Compares two made studies of eight repeats, and returns the number of regressions. */
static int judge_study(int cells, int slower, bool alike, uint64_t *state)
{
    struct compare_report r = {.alpha = 0.01, .cell = calloc((size_t)cells, sizeof *r.cell)};
    for (int i = 0; i < cells; i++)
        add_cell(&r, i < slower, alike, state);
    expect_ok(judge_report(&r));
    assert_int_equal(r.verdicts[COMPARE_FEW], 0);
    int regressions = r.verdicts[COMPARE_REGRESSION];
    free(r.cell);
    return regressions;
}

/* With eight repeats, a slower cell is found in a study of up to 64 gating metrics, and if all
 * cells are slower, in a study of any size. */
static void test_studies_of_eight(void **state)
{
    uint64_t random = 1;
    (void)state;
    assert_int_equal(judge_study(24, 1, true, &random), 2);
    assert_int_equal(judge_study(32, 1, true, &random), 2);
    assert_int_equal(judge_study(100, 100, true, &random), 200);
    assert_int_equal(judge_study(100, 80, true, &random), 160);
}

/* Of comparisons of equal studies, whose cells are independent, at most 1 % raise a false alarm;
 * 3 standard errors are allowed for. */
static void test_false_alarms(void **state)
{
    enum { TRIALS = 500 };
    uint64_t random = 7;
    (void)state;
    for (int alike = 0; alike < 2; alike++) {
        int alarms = 0;
        for (int i = 0; i < TRIALS; i++)
            alarms += judge_study(24, 0, alike, &random) > 0;
        assert_true(alarms <= 0.01 * TRIALS + 3 * sqrt(0.01 * 0.99 * TRIALS));
    }
}

/* Storage that stalls in every tenth step makes runs four times slower. The median step does not
 * change, but the mean does, and is gating. Runs that were paused have no mean to compare. */
static void test_stalls(void **state)
{
    struct fixture *f = *state;
    struct made stalls = {.stall_s = 3};
    f->config = compare_defaults();
    const struct compare_report *r = made(f, &stalls, REPEATS);
    expect(r, METRIC_IMAGES_PER_S, COMPARE_EQUIVALENT);
    expect(r, METRIC_IMAGES_PER_S_MEAN, COMPARE_REGRESSION);
    expect_near(result(r, METRIC_IMAGES_PER_S_MEAN)->is.ratio, 0.25, 0.002);
    assert_int_equal(r->verdicts[COMPARE_REGRESSION], 1);
    assert_false(compare_passed(r));

    stalls.paused = true;
    make_side(f, 1, "paused", &stalls, REPEATS);
    expect_ok(compare(f));
    assert_true(compare_passed(r) && !result(r, METRIC_IMAGES_PER_S_MEAN)->decides);
    assert_int_equal(result(r, METRIC_IMAGES_PER_S_MEAN)->new.n, 0);
    f->config.role[METRIC_IMAGES_PER_S_MEAN] = COMPARE_DECIDES;
    expect_ok(compare(f));
    assert_false(compare_passed(r));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_pairs),
        TEST(test_no_turns),
        TEST(test_few_pairs),
        TEST(test_roles),
        TEST(test_hochberg),
        TEST(test_stalls),
        cmocka_unit_test(test_studies_of_eight),
        cmocka_unit_test(test_false_alarms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
