/* Checks medians, intervals, series and verdicts for invented results with known answers. */
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ND32      "nd-fp32-resnet8-dummy-1x32"
#define ND64      "nd-fp32-resnet8-dummy-1x64"
#define WEAK      "ddp-fp32-resnet8-dummy-weak-2x32"
#define DP        "dp-fp32-resnet8-dummy-weak-2x32"
#define JPEG32    "nd-fp32-resnet8-jpeg-1x32"
#define JPEG_WEAK "ddp-fp32-resnet8-jpeg-weak-2x32"

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
        result->sample[i].n_epochs = i == 1 ? 1 : 2;
        result->sample[i].epoch = epoch[i];
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
        } run[3];
        const char *cell, *verdict, *because;
    } rows[] = {
        {{{ND32, 100, 0, 0}}, ND32, "compute-bound", "100.0 % of a step is computation"},
        {{{ND32, 100, 0, 0}, {WEAK, 196, 0, 0.02}}, WEAK, "compute-bound", "2.0 % of a step is"},
        {{{ND32, 100, 0, 0}, {WEAK, 196, 0, 0.02}}, WEAK, "compute-bound", "no loss beyond"},
        {{{ND32, 100, 0, 0}, {WEAK, 140, 0, 0.3}},
         WEAK,
         "communication-bound",
         "70.0 % of the throughput per device of '" ND32 "' (95 % interval 68.6 to 71.4 %)"},
        {{{ND32, 100, 0, 0}, {WEAK, 140, 0, 0.3}},
         WEAK,
         "communication-bound",
         "30.0 points lost: 30.0 exposed communication"},
        /* efficiency 38 %, hardly any communication */
        {{{ND32, 100, 0, 0}, {WEAK, 76, 0, 0.02}},
         WEAK,
         "shared hardware",
         "62.0 points lost: 60.0 shared hardware, 2.0 exposed communication"},
        {{{WEAK, 140, 0, 0.3}}, WEAK, "not enough to say", "no single-device cell with 32 images"},
        {{{WEAK, 140, 0, 0}}, WEAK, "not enough to say", "no single-device cell with 32 images"},
        {{{ND32, 100, 0, 0}, {JPEG32, 60, 0.4, 0}},
         JPEG32,
         "loader-bound",
         "40.0 points lost: 40.0 loader"},
        {{{ND32, 100, 0, 0}, {JPEG32, 60, 0.4, 0}}, JPEG32, "loader-bound", "steps by 40.0 %"},
        /* the loader keeps up, but its threads take cores from training */
        {{{ND32, 100, 0, 0}, {JPEG32, 70, 0.01, 0}},
         JPEG32,
         "loader-bound",
         "29.0 computing beside the loader"},
        /* so they do on two devices; one device leaves them a core */
        {{{JPEG32, 100, 0, 0}, {WEAK, 190, 0, 0}, {JPEG_WEAK, 152, 0, 0.04}},
         JPEG_WEAK,
         "loader-bound",
         "24.0 points lost: 20.0 loader, 4.0 exposed communication"},
        {{{JPEG32, 60, 0.4, 0}}, JPEG32, "not enough to say", "no cell with synthetic data"},
        {{{JPEG32, 60, 0.01, 0}}, JPEG32, "compute-bound", "no cell with synthetic data"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *made;
        rig_begin(&made);
        for (int k = 0; k < 3 && rows[i].run[k].cell; k++)
            rig_run(made, rows[i].run[k].cell, rows[i].run[k].images_per_s, rows[i].run[k].data,
                    rows[i].run[k].comm);
        rig_analyse(made);
        expect_verdict(made, rows[i].cell, rows[i].verdict, rows[i].because);
        rig_end(&made);
    }
}

/* The parts of a loss: 41.1 + 13.9 + 8.0 = 63.0, the loss of an efficiency of 37 %. */
static void test_loss(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, WEAK, 74, 0, 0.219);
    struct study_sample *sample = r->result[rig_cell(r, WEAK)].sample;
    for (int i = 0; i < 3; i++) {
        sample[i].waiting_s = 0.08 * 64 / 74;
        sample[i].slowest_rank = 1;
        sample[i].behind = 0.2;
    }
    rig_analyse(r);
    expect_verdict(
        r, WEAK, "shared hardware",
        "63.0 points lost: 41.1 shared hardware, 13.9 exposed communication, 8.0 waiting "
        "for slow rank 1");
    analysis_free(&r->analysis);
    /* GPUs, or CPUs of several hosts, do not share cores. */
    for (int i = 0; i < 3; i++)
        sample[i].shared = false;
    rig_analyse(r);
    expect_verdict(r, WEAK, "slower computation", "41.1 slower computation");
}

/* In strong scaling, the first cell of the series has the whole batch. On one device, the batch per
 * device takes 1/65 s an image, the whole batch 1/100 s; two devices take 1/50 s. */
static void test_small_batch(void **state)
{
    static const char whole[] = "nd-fp32-resnet8-dummy-1x128";
    static const char halves[] = "ddp-fp32-resnet8-dummy-strong-2x64";
    const char *at = strstr(rig_study, "[64]");
    char study[1024];
    void *made;
    (void)state;
    snprintf(study, sizeof study, "%.*s[64, 128]%s", (int)(at - rig_study), rig_study, at + 4);
    rig_make(&made, study);
    rig_run(made, whole, 100, 0, 0);
    rig_run(made, ND64, 65, 0, 0);
    rig_run(made, halves, 100, 0, 0.1);
    rig_analyse(made);
    expect_verdict(made, halves, "small batch",
                   "50.0 points lost: 26.9 smaller batch, 13.1 shared hardware, 10.0 exposed "
                   "communication"); /* (1/65 - 1/100) / (1/50) = 0.269 */
    rig_end(&made);
}

/* Sets the throughputs of a cell's runs. */
static void set_rates(struct rig *r, const char *cell, double first, double second, double third)
{
    struct study_sample *sample = r->result[rig_cell(r, cell)].sample;
    sample[0].images_per_s = first;
    sample[1].images_per_s = second;
    sample[2].images_per_s = third;
}

/* If the interval includes no loss and a large one, nothing can be said, whatever the medians; if
 * it ends within the threshold, there is no loss. */
static void test_spread(void **state)
{
    struct rig *r = *state;
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, JPEG32, 80, 0.2, 0);
    rig_run(r, WEAK, 100, 0, 0);
    set_rates(r, JPEG32, 79, 80, 110);
    rig_analyse(r);
    expect_verdict(r, JPEG32, "too noisy to say", "no loss, or one beyond the threshold");
    expect_verdict(r, JPEG32, "too noisy to say", "may have had other load");
    analysis_free(&r->analysis);
    set_rates(r, ND32, 640, 1229, 2166);
    set_rates(r, WEAK, 800, 1135, 1800);
    rig_analyse(r);
    expect_verdict(r, WEAK, "too noisy to say", "46.2 % of the throughput per device");
    analysis_free(&r->analysis);
    set_rates(r, ND32, 100, 100, 100);
    set_rates(r, WEAK, 182, 200, 220);
    rig_analyse(r);
    expect_verdict(r, WEAK, "compute-bound", "(95 % interval 91.0 to 110.0 %): no loss beyond");
    analysis_free(&r->analysis);
    r->result[rig_cell(r, WEAK)].n = 1;
    rig_analyse(r);
    expect_verdict(r, WEAK, "not enough to say", "only one run");
}

static void disturb(struct rig *r, const char *cell, int runs)
{
    for (int i = 0; i < 3; i++)
        r->result[rig_cell(r, cell)].sample[i].conditions =
            (struct conditions){.runs = 1, .recorded = 1, .disturbed = i < runs, .others = NAN};
}

/* Nothing is concluded from cells whose runs were disturbed, nor relative to them. */
static void test_disturbed(void **state)
{
    struct rig *r = *state;
    char label[ANALYSIS_TEXT_SIZE];
    rig_run(r, ND32, 100, 0, 0);
    rig_run(r, WEAK, 198, 0, 0);
    disturb(r, ND32, 1);
    disturb(r, WEAK, 2);
    rig_analyse(r);
    expect_verdict(r, WEAK, "disturbed", "2 of 3 runs were disturbed by other work");
    expect_verdict(r, ND32, "compute-bound", "1 of 3 runs were disturbed by other work");
    analysis_verdict_label(&r->analysis, rig_result(r, ND32), label);
    assert_string_equal(label, "compute-bound, 1 of 3 runs disturbed");
    analysis_name_label(rig_result(r, ND32), label);
    assert_string_equal(label, ND32 " (disturbed)");
    analysis_free(&r->analysis);
    disturb(r, ND32, 2);
    disturb(r, WEAK, 0);
    rig_analyse(r);
    expect_verdict(r, WEAK, "disturbed", "half of the runs of '" ND32 "', or more, were disturbed");
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
        sample[i].waiting_s = 0.25 * 64 / 140;
        strcpy(sample[i].part, "backward");
        strcpy(sample[i].host, "node7");
    }
    rig_analyse(r);
    expect_verdict(r, WEAK, "uneven ranks", "25.0 waiting for the slowest rank");
    expect_verdict(r, WEAK, "uneven ranks", "no straggler");
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
    }
    rig_analyse(r);
    expect_verdict(r, ND32, "no single bound", "33.3 % of a step is computation");
    expect_verdict(r, ND32, "no single bound", "faults were injected");
    expect_verdict(r, WEAK, "oversubscribed", "4 threads compute on a host with 2 usable cores");
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
        s->conditions =
            (struct conditions){.runs = 1, .recorded = 1, .disturbed = i == 1, .others = others[i]};
        snprintf(s->conditions.from, sizeof s->conditions.from, "2026-11-2%dT06:25:00Z", 3 - i);
        snprintf(s->conditions.to, sizeof s->conditions.to, "2026-11-2%dT06:26:00Z", 3 - i);
        s->emulated = true;
    }
    rig_analyse(r);
    const struct conditions *c = &rig_result(r, ND32)->conditions, *all = &r->analysis.conditions;
    assert_string_equal(all->from, "2026-11-21T06:25:00Z");
    assert_string_equal(all->to, "2026-11-23T06:26:00Z");
    assert_true(all->runs == 3 && all->disturbed == 1 && all->others == 0.84);
    assert_true(c->runs == 3 && c->disturbed == 1 && c->others == 0.10 && !*c->from);
    assert_true(rig_result(r, ND32)->emulated && !rig_result(r, ND64)->emulated);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_numbers),    TEST(test_series),
        TEST(test_curves),     TEST(test_missing),
        TEST(test_one_repeat), cmocka_unit_test(test_verdicts),
        TEST(test_loss),       cmocka_unit_test(test_small_batch),
        TEST(test_spread),     TEST(test_disturbed),
        TEST(test_slow_rank),  TEST(test_other_verdicts),
        TEST(test_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
