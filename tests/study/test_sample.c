/* Tests the values that a study computes from the record of a run. Warm-up steps are not used,
 * the parts of a step add up to its time, and top-1 is that of the last validation. */
#include "study/study_sample.h"
#include "tests/results/run_rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>

/* Two ranks on one host, with three threads each. Two slow warm-up steps are followed by four steps
 * of 64 images in 0.5 s. Rank 1 needs twice as long as rank 0 for its own work. */
static int setup(void **state)
{
    static const char info[] = "{\"schema\":1,\"host\":{\"cpu\":{\"quota\":3.5}},\"config\":{"
                               "\"devices\":\"cpu\",\"threads\":3,"
                               "\"devices_per_rank\":1,\"image_size\":48,\"classes\":7,\"grad_"
                               "compress\":\"bf16\"},\"ranks\":["
                               "{\"rank\":0,\"host\":\"node\",\"pid\":1,\"host_cores\":4},"
                               "{\"rank\":1,\"host\":\"node\",\"pid\":2,\"host_cores\":4}]}";
    scratch_set_up(state);
    scratch_write_text(*state, "run.json", info);
    scratch_write_text(*state, "summary.json", "{\"schema\":1,\"images_per_s_wall\":19.5}");
    for (int i = 0; i < 6; i++) {
        const struct step_record s = {.step = i,
                                      .images = 64,
                                      .data_s = 0.05,
                                      .h2d_s = 0.01,
                                      .forward_s = 0.1,
                                      .backward_s = 0.2,
                                      .comm_s = 0.1,
                                      .comm_busy_s = 0.12,
                                      .optimizer_s = 0.02,
                                      .total_s = i < 2 ? 9 : 0.5};
        run_rig_append(*state, &step_schema, &s);
    }
    for (int i = 0; i < 2; i++) {
        const struct rank_record k = {
            .rank = i, .steps = 6, .images = 192, .backward_s = 1 + i, .total_s = 3};
        run_rig_append(*state, &rank_schema, &k);
    }
    const struct epoch_record e = {
        .steps = 6, .train_images = 384, .val_images = 10, .val_top1 = 70, .val_top5 = 95};
    run_rig_append(*state, &epoch_schema, &e);
    return 0;
}

static void test_sample(void **state)
{
    struct run *run = run_rig_load(*state);
    struct study_sample s;
    assert_int_equal(study_sample_of(run, 2, &s), STATUS_OK);
    assert_true(s.wall == 19.5 && s.top1 == 70 && s.top5 == 95);
    assert_close(s.images_per_s, 128);
    assert_close(s.split[ANALYSIS_DATA], 0.05);
    assert_close(s.split[ANALYSIS_COMM], 0.1);
    assert_close(s.split[ANALYSIS_OTHER], 0.02);
    assert_close(s.comm_busy_s, 0.12);
    double sum = 0;
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        sum += s.split[p];
    assert_close(sum, 0.5);
    assert_int_equal(s.slowest_rank, 1);
    assert_close(s.behind, 1);
    assert_close(s.waiting_s, 2. / 6 - 1.5 / 6); /* own time of rank 1, minus the mean */
    assert_true(s.shared);
    assert_string_equal(s.part, "backward");
    assert_string_equal(s.host, "node");
    assert_true(s.threads == 6 && s.cores == 3.5);
    assert_true(s.system.hosts == 1 && s.system.ranks_per_host == 2);
    assert_true(s.system.image_size == 48 && s.system.classes == 7);
    assert_int_equal(s.system.gradient_bytes, 2);
    free(s.epoch);
    run_free(run);
}

/* If the warm-up is longer than the run, only the second half of the steps is used. */
static void test_short_run(void **state)
{
    struct run *run = run_rig_load(*state);
    struct study_sample s;
    assert_int_equal(study_sample_of(run, 100, &s), STATUS_OK);
    assert_close(s.images_per_s, 128);
    free(s.epoch);
    for (int64_t i = 0; i < run->n_steps; i++)
        run->step[i].comm_s = 0.04;
    assert_int_equal(study_sample_of(run, 100, &s), STATUS_OK);
    assert_close(s.waiting_s, 0.04); /* waiting is a part of communication */
    free(s.epoch);
    struct run none = *run;
    none.n_steps = 0;
    assert_int_equal(study_sample_of(&none, 2, &s), STATUS_DATA);
    run_free(run);
}

/* The curves have the accuracies of each epoch, and at most 100 epochs, among them the last. */
static void test_curves(void **state)
{
    struct study_sample c;
    struct run *run = run_rig_load(*state);
    assert_int_equal(study_sample_of(run, 2, &c), STATUS_OK);
    assert_int_equal(c.n_epochs, 1);
    assert_int_equal(c.epoch[0].epoch, 1);
    assert_true(c.epoch[0].accuracy[ANALYSIS_TOP1_VAL].median == 70);
    assert_true(c.epoch[0].accuracy[ANALYSIS_TOP5_VAL].median == 95);
    free(c.epoch);
    run_free(run);
    for (int i = 1; i < 250; i++) {
        const struct epoch_record e = {.epoch = i, .steps = 6 + i, .train_top1 = i / 10.0};
        run_rig_append(*state, &epoch_schema, &e);
    }
    run = run_rig_load(*state);
    assert_int_equal(study_sample_of(run, 2, &c), STATUS_OK);
    assert_in_range(c.n_epochs, 50, 100);
    assert_int_equal(c.epoch[c.n_epochs - 1].epoch, 250);
    assert_true(c.epoch[c.n_epochs - 1].accuracy[ANALYSIS_TOP1_TRAIN].median == 24.9);
    assert_true(
        isnan(c.epoch[c.n_epochs - 1].accuracy[ANALYSIS_TOP1_VAL].median)); /* no validation */
    free(c.epoch);
    run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sample),
        TEST(test_short_run),
        TEST(test_curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
