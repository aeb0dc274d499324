/* Checks medians, intervals, series and verdicts for invented results with known answers. */
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ND32   "nd-fp32-resnet8-dummy-1x32"
#define ND64   "nd-fp32-resnet8-dummy-1x64"
#define WEAK   "ddp-fp32-resnet8-dummy-weak-2x32"
#define DP     "dp-fp32-resnet8-dummy-weak-2x32"
#define JPEG32 "nd-fp32-resnet8-jpeg-1x32"

static void expect_verdict(const struct rig *r, const char *cell, const char *verdict,
                           const char *because)
{
    const struct analysis_cell *c = rig_result(r, cell);
    bool said = false;
    assert_string_equal(c->verdict, verdict);
    for (int i = 0; i < c->n_evidence; i++)
        said = said || strstr(c->evidence[i], because);
    if (!said)
        fail_msg("verdict '%s' lacks the evidence '%s'; its first evidence: '%s'", verdict, because,
                 c->evidence[0]);
}

static void test_numbers(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, ND64, 120, 0, 0);
    rig_run(r, WEAK, 190, 0, 0.05);
    rig_analyse(r);
    const struct analysis_cell *c = rig_result(r, WEAK);
    assert_int_equal(c->images_per_s.n, 3);
    assert_true(fabs(c->images_per_s.median - 190) < 1e-9);
    assert_true(fabs(c->images_per_s.low - 0.99 * 190) < 1e-9);
    assert_true(fabs(c->images_per_s.high - 1.01 * 190) < 1e-9);
    assert_true(fabs(c->speedup - 1.9) < 1e-9 && fabs(c->efficiency - 0.95) < 1e-9);
    assert_true(fabs(c->efficiency_wall - 0.95) < 1e-9 && c->top1 == 50 && c->top5 == 90);
    assert_true(fabs(c->split[ANALYSIS_COMM] - 0.05 * 64 / 190) < 1e-9);
    assert_true(rig_result(r, ND64)->speedup == 1);
}

/* Two modes, two kinds of scaling, two data sets. Each series begins with the cell of a single
 * device with the same batch. The cell of two devices is in both kinds, since 2 x 32 = 64. */
static void test_series(void **state)
{
    struct rig *r = *state;
    int64_t strong = 0;
    rig_run(r, ND32, 100, 0, 0);
    rig_analyse(r);
    const struct analysis *a = &r->analysis;
    assert_int_equal(a->n_series, 8);
    for (int64_t i = 0; i < a->n_series; i++) {
        const struct analysis_series *s = &a->series[i];
        assert_int_equal(s->n, 2);
        const struct analysis_cell *base = &a->cell[s->cell[0]], *last = &a->cell[s->cell[1]];
        assert_string_equal(base->mode, "nd");
        assert_string_equal(base->data, last->data);
        bool weak = analysis_series_scaling(a, i) == ANALYSIS_WEAK;
        strong += !weak;
        assert_int_equal(base->batch, weak ? last->batch / 2 : last->batch);
    }
    assert_int_equal(strong, 4);
}

/* The learning curves of a cell: the median, the lowest and the highest repeat of each epoch. */
static void test_curves(void **state)
{
    static const double top1[3] = {40, 70, 50};
    struct rig *r = *state;
    struct analysis_epoch epoch[3][2];
    struct study_result *result = &r->result[rig_cell(r, ND32)];
    rig_run(r, ND32, 100, 0, 0);
    for (int i = 0; i < 3; i++) {
        result->curves[i] = (struct study_curves){.n = i == 1 ? 1 : 2, .epoch = epoch[i]};
        for (int e = 0; e < 2; e++)
            epoch[i][e] =
                (struct analysis_epoch){.epoch = e + 1,
                                        .accuracy = {[ANALYSIS_TOP1_VAL] = {.median = top1[i] + e},
                                                     [ANALYSIS_TOP5_VAL] = {.median = NAN}}};
    }
    rig_analyse(r);
    const struct analysis_cell *c = rig_result(r, ND32);
    assert_int_equal(c->n_epochs, 2);
    assert_int_equal(c->epoch[1].epoch, 2);
    assert_true(c->epoch[0].accuracy[ANALYSIS_TOP1_VAL].median == 50);
    assert_true(c->epoch[0].accuracy[ANALYSIS_TOP1_VAL].low == 40);
    assert_true(c->epoch[0].accuracy[ANALYSIS_TOP1_VAL].high == 70);
    assert_true(c->epoch[1].accuracy[ANALYSIS_TOP1_VAL].high == 51); /* of two repeats */
    assert_true(isnan(c->epoch[0].accuracy[ANALYSIS_TOP5_VAL].median));
    assert_int_equal(rig_result(r, WEAK)->n_epochs, 0);
}

static void test_missing(void **state)
{
    struct rig *r = *state;
    int64_t failed = rig_cell(r, DP);
    r->result[failed].failed = 3;
    snprintf(r->result[failed].reason, sizeof r->result[failed].reason, "out of memory");
    rig_run(r, WEAK, 190, 0, 0.05);
    rig_analyse(r);
    assert_string_equal(rig_result(r, DP)->missing, "out of memory");
    assert_string_equal(rig_result(r, ND32)->missing, "not run yet");
    assert_string_equal(rig_result(r, ND32)->verdict, "");
    assert_string_equal(rig_result(r, WEAK)->missing, "");
    assert_true(isnan(rig_result(r, WEAK)->speedup));
    assert_true(isnan(rig_result(r, DP)->images_per_s.median));
}

static void test_one_repeat(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    r->result[rig_cell(r, ND32)].n = 1;
    r->result[rig_cell(r, ND32)].failed = 2;
    rig_analyse(r);
    const struct analysis_cell *c = rig_result(r, ND32);
    assert_int_equal(c->images_per_s.n, 1);
    assert_true(isnan(c->images_per_s.low) && isnan(c->images_per_s.high));
    expect_verdict(r, ND32, "compute-bound", "only one run");
    expect_verdict(r, ND32, "compute-bound", "2 of 3 runs failed");
}

static void test_verdicts(void **state)
{
    static const struct {
        struct {
            const char *cell;
            double images_per_s, data, comm;
        } run[2];
        const char *cell, *verdict, *because;
    } rows[] = {
        {{{ND32, 100, 0, 0}}, ND32, "compute-bound", "100.0 % of a step is computation"},
        {{{ND32, 100, 0, 0}, {WEAK, 196, 0, 0.02}}, WEAK, "compute-bound", "2.0 % of a step is"},
        {{{ND32, 100, 0, 0}, {WEAK, 140, 0, 0.02}}, WEAK, "compute-bound", "devices share cores"},
        {{{ND32, 100, 0, 0}, {WEAK, 140, 0, 0.3}}, WEAK, "communication-bound", "loss of 30.0 %"},
        {{{WEAK, 140, 0, 0.3}}, WEAK, "not enough to say", "no single-device cell with 32 images"},
        {{{ND32, 100, 0, 0}, {JPEG32, 60, 0.4, 0}}, JPEG32, "loader-bound", "a loss of 40.0 %"},
        {{{ND32, 100, 0, 0}, {JPEG32, 60, 0.4, 0}}, JPEG32, "loader-bound", "steps by 40.0 %"},
        /* the loader keeps up, but its threads take cores from training */
        {{{ND32, 100, 0, 0}, {JPEG32, 70, 0.01, 0}}, JPEG32, "loader-bound", "takes cores from"},
        {{{JPEG32, 60, 0.4, 0}}, JPEG32, "not enough to say", "no cell with synthetic data"},
        {{{JPEG32, 60, 0.01, 0}}, JPEG32, "compute-bound", "no cell with synthetic data"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *made;
        rig_begin(&made);
        for (int k = 0; k < 2 && rows[i].run[k].cell; k++)
            rig_run(made, rows[i].run[k].cell, rows[i].run[k].images_per_s, rows[i].run[k].data,
                    rows[i].run[k].comm);
        rig_analyse(made);
        expect_verdict(made, rows[i].cell, rows[i].verdict, rows[i].because);
        rig_end(&made);
    }
}

/* A difference within the spread of the repeats is not reported as a loss. */
static void test_loss_within_spread(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, JPEG32, 80, 0.2, 0);
    r->result[rig_cell(r, JPEG32)].sample[2].images_per_s = 110;
    rig_analyse(r);
    expect_verdict(r, JPEG32, "compute-bound", "no loss beyond the spread");
    expect_verdict(r, JPEG32, "compute-bound", "may have had other load");
}

/* A rank that is slowest in one run of three is no straggler. */
static void test_slow_rank(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, WEAK, 140, 0, 0.3);
    struct study_sample *sample = r->result[rig_cell(r, WEAK)].sample;
    for (int i = 0; i < 3; i++) {
        sample[i].slowest_rank = i;
        sample[i].behind = 0.25;
        strcpy(sample[i].part, "backward");
        strcpy(sample[i].host, "node7");
    }
    rig_analyse(r);
    expect_verdict(r, WEAK, "communication-bound", "no straggler");
    analysis_free(&r->analysis);
    sample[0].slowest_rank = 1;
    rig_analyse(r);
    expect_verdict(r, WEAK, "slow rank 1", "rank 1 on node7 needs 25.0 %");
    assert_int_equal(rig_result(r, WEAK)->slowest_rank, 1);
}

static void test_other_verdicts(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, WEAK, 90, 0, 0.3);
    for (int i = 0; i < 3; i++) {
        double *split = r->result[rig_cell(r, ND32)].sample[i].split;
        split[ANALYSIS_OTHER] = 2 * split[ANALYSIS_BACKWARD];
        r->result[rig_cell(r, ND32)].sample[i].injected = true;
        r->result[rig_cell(r, WEAK)].sample[i].threads = 4;
        r->result[rig_cell(r, WEAK)].sample[i].disturbed = i > 0;
    }
    rig_analyse(r);
    expect_verdict(r, ND32, "no single bound", "33.3 % of a step is computation");
    expect_verdict(r, ND32, "no single bound", "faults were injected");
    expect_verdict(r, WEAK, "oversubscribed", "4 threads compute on a host with 2 usable cores");
    expect_verdict(r, WEAK, "oversubscribed", "2 of 3 runs were disturbed by other work");
}

/* The analysis says when the runs were made, how many were disturbed, and what is emulated. */
static void test_conditions(void **state)
{
    struct rig *r = *state;
    static const double others[] = {0.05, 0.84, 0.10};
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, ND64, 120, 0, 0);
    for (int i = 0; i < 3; i++) {
        struct study_sample *s = &r->result[rig_cell(r, ND32)].sample[i];
        s->conditions = (struct conditions){.runs = 1,
                                            .recorded = 1,
                                            .disturbed = i == 1,
                                            .too_short = i == 2,
                                            .others = others[i]};
        snprintf(s->conditions.from, sizeof s->conditions.from, "2026-11-2%dT06:25:00Z", 3 - i);
        snprintf(s->conditions.to, sizeof s->conditions.to, "2026-11-2%dT06:26:00Z", 3 - i);
        s->emulated = true;
    }
    rig_analyse(r);
    const struct conditions *c = &rig_result(r, ND32)->conditions, *all = &r->analysis.conditions;
    assert_string_equal(all->from, "2026-11-21T06:25:00Z");
    assert_string_equal(all->to, "2026-11-23T06:26:00Z");
    assert_true(all->runs == 3 && all->disturbed == 1 && all->too_short == 1 &&
                all->others == 0.84);
    assert_true(c->runs == 3 && c->disturbed == 1 && c->others == 0.10 && !*c->from);
    assert_true(rig_result(r, ND32)->emulated && !rig_result(r, ND64)->emulated);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_numbers),
        TEST(test_series),
        TEST(test_curves),
        TEST(test_missing),
        TEST(test_one_repeat),
        cmocka_unit_test(test_verdicts),
        TEST(test_loss_within_spread),
        TEST(test_slow_rank),
        TEST(test_other_verdicts),
        TEST(test_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
