/* Tests the values that a study computes from the record of a run. Warm-up steps are not used,
 * the parts of a step add up to its time, and top-1 is that of the last validation. */
#include "../results/scratch.h"
#include "results/record.h"
#include "study/study_sample.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct recorded {
    char dir[SCRATCH_MAX];
    struct run *run;
};

/* Two ranks on one host, with three threads each. Two slow warm-up steps are followed by four steps
 * of 64 images in 0.5 s. Rank 1 needs twice as long as rank 0 for its own work. */
static int setup(void **state)
{
    struct recorded *f = calloc(1, sizeof *f);
    struct record *r;
    assert_non_null(f);
    scratch_make(f->dir);
    json_t *config =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:s}", "devices", "cpu", "threads", 3,
                  "devices_per_rank", 1, "image_size", 48, "classes", 7, "grad_compress", "bf16");
    json_t *ranks =
        json_pack("[{s:i, s:s, s:i, s:i}, {s:i, s:s, s:i, s:i}]", "rank", 0, "host", "node", "pid",
                  1, "host_cores", 4, "rank", 1, "host", "node", "pid", 2, "host_cores", 4);
    const struct run_info info = {.device = "cpu", .config = config, .ranks = ranks};
    assert_int_equal(record_create(f->dir, &info, &r), STATUS_OK);
    for (int i = 0; i < 6; i++) {
        const struct step_record s = {.step = i,
                                      .batch = i,
                                      .images = 64,
                                      .loss = 1,
                                      .data_s = 0.05,
                                      .h2d_s = 0.01,
                                      .forward_s = 0.1,
                                      .backward_s = 0.2,
                                      .comm_s = 0.04,
                                      .comm_busy_s = 0.06,
                                      .optimizer_s = 0.02,
                                      .total_s = i < 2 ? 9 : 0.5};
        assert_int_equal(record_step(r, &s), STATUS_OK);
    }
    for (int i = 0; i < 2; i++) {
        const struct rank_record k = {
            .rank = i, .steps = 6, .images = 192, .backward_s = 1 + i, .total_s = 3};
        assert_int_equal(record_rank(r, &k), STATUS_OK);
    }
    const struct epoch_record e = {
        .steps = 6, .train_images = 384, .val_images = 10, .val_top1 = 70, .val_top5 = 95};
    assert_int_equal(record_epoch(r, &e), STATUS_OK);
    json_t *summary = json_pack("{s:f}", "images_per_s_wall", 19.5);
    assert_int_equal(record_finish(r, summary), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    assert_int_equal(run_load(f->dir, &f->run), STATUS_OK);
    json_decref(summary);
    json_decref(config);
    json_decref(ranks);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct recorded *f = *state;
    run_free(f->run);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void test_sample(void **state)
{
    const struct recorded *f = *state;
    struct study_sample s;
    assert_int_equal(study_sample_of(f->run, 2, &s), STATUS_OK);
    assert_true(near(s.images_per_s, 128) && near(s.wall, 19.5));
    assert_true(near(s.top1, 70) && near(s.top5, 95));
    assert_true(near(s.split[ANALYSIS_DATA], 0.05) && near(s.split[ANALYSIS_COMM], 0.04));
    assert_true(near(s.split[ANALYSIS_OTHER], 0.08) && near(s.comm_busy_s, 0.06));
    double sum = 0;
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        sum += s.split[p];
    assert_true(near(sum, 0.5));
    assert_int_equal(s.slowest_rank, 1);
    assert_true(near(s.behind, 1));
    assert_string_equal(s.part, "backward");
    assert_string_equal(s.host, "node");
    const json_t *cpu = json_object_get(json_object_get(f->run->info, "host"), "cpu");
    const json_t *quota = json_object_get(cpu, "quota"); /* CPU quota of the host */
    assert_true(s.threads == 6);
    assert_true(near(s.cores, json_is_number(quota) ? fmin(4, json_number_value(quota)) : 4));
    assert_true(s.system.hosts == 1 && s.system.ranks_per_host == 2);
    assert_true(s.system.image_size == 48 && s.system.classes == 7);
    assert_int_equal(s.system.gradient_bytes, 2);
}

/* If the warm-up is longer than the run, only the second half of the steps is used. */
static void test_short_run(void **state)
{
    const struct recorded *f = *state;
    struct study_sample s;
    assert_int_equal(study_sample_of(f->run, 100, &s), STATUS_OK);
    assert_true(near(s.images_per_s, 128));
    struct run none = *f->run;
    none.n_steps = 0;
    assert_int_equal(study_sample_of(&none, 2, &s), STATUS_DATA);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sample),
        TEST(test_short_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
