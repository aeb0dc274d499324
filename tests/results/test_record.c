/* Tests records of runs: they are written and read back, and resumed after a kill with other
 * numbers of ranks. */
#include "run_rig.h"

#include "results/journal.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void add_steps(struct record *r, int64_t from, int64_t to, double loss)
{
    for (int64_t i = from; i < to; i++) {
        struct step_record s = {.epoch = i / 10, .step = i, .batch = i % 10, .loss = loss};
        expect_ok(record_step(r, &s));
    }
}

static void add_epoch(struct record *r, int64_t epoch, double loss)
{
    struct epoch_record e = {.epoch = epoch, .steps = 10 * epoch + 10, .train_loss = loss};
    expect_ok(record_epoch(r, &e));
}

static void add_sample(struct record *r)
{
    struct telemetry_record row[2] = {telemetry_nothing, telemetry_nothing};
    row[0].energy_j = 1;
    row[1].device = 1;
    expect_ok(record_telemetry(r, row, 2));
}

static void finish(struct record *r)
{
    json_t *summary = json_pack("{s:f}", "best_top1", 20.0);
    expect_ok(record_finish(r, summary));
    json_decref(summary);
    expect_ok(record_close(r));
}

static void test_round_trip(void **state)
{
    struct run_rig *f = *state;
    struct record *r = run_rig_open(f, 1, NULL, 0);
    const struct step_record steps[] = {
        {.loss = (double)0.1f, .forward_s = 0.123456789, .bytes_read = INT64_C(5000000000)},
        {.step = 1, .loss = NAN, .top1 = INFINITY, .bad_images = 1},
        {.step = 2, .loss_scale = 65536, .clean = 1999, .comm_busy_s = 0.0625, .skipped = 1},
    };
    const struct epoch_record epochs[] = {
        {.steps = 3, .train_images = 96, .train_top1 = 100, .clean = 3},
        {.epoch = 1, .steps = 3, .val_images = 5, .val_top1 = 20, .lr = 1e-30},
    };
    for (int i = 0; i < 3; i++)
        expect_ok(record_step(r, &steps[i]));
    for (int i = 0; i < 2; i++)
        expect_ok(record_epoch(r, &epochs[i]));
    finish(r);

    struct run *run = run_rig_load(f->dir);
    const struct step_record *s = run->step;
    assert_true(run->n_steps == 3 && run->n_epochs == 2);
    assert_true((float)s[0].loss == 0.1f && s[0].forward_s == 0.123456789);
    assert_true(s[0].bytes_read == INT64_C(5000000000) && s[1].bad_images == 1);
    assert_true(s[2].loss_scale == 65536 && s[2].skipped == 1 && s[2].clean == 1999);
    assert_true(isnan(s[1].loss) && isnan(s[1].top1) && s[2].comm_busy_s == 0.0625);
    assert_true(s[2].elapsed >= s[0].elapsed && s[0].elapsed >= 0);
    assert_true(run->epoch[0].train_top1 == 100 && isnan(run->epoch[0].val_top1));
    assert_true(run->epoch[1].val_top1 == 20 && run->epoch[1].lr == 1e-30);
    assert_string_equal(run_config_text(run, "arch", "?"), "resnet18");
    assert_string_equal(run_config_text(run, "batch_size", "?"), "?");
    assert_int_equal(run_config_count(run, "batch_size", 0), 32);
    assert_true(json_number_value(json_object_get(run->summary, "best_top1")) == 20);
    json_t *argv = json_object_get(run->info, "argv");
    assert_string_equal(json_string_value(json_array_get(argv, 4)), "caf?");
    run_free(run);
}

/* The buffer must be long enough for a line with the longest value in every column. */
static void test_longest_line(void **state)
{
    static const struct schema *const schemas[] = {&step_schema, &epoch_schema, &rank_schema,
                                                   &telemetry_schema};
    for (int k = 0; k < 4; k++) {
        char line[SCHEMA_LINE_MAX];
        union {
            int64_t count[64];
            double real[64];
        } row;
        for (int i = 0; i < schemas[k]->n; i++) {
            const struct field *field = &schemas[k]->field[i];
            size_t at = field->offset / 8;
            assert_true(at < 64);
            if (field->type == FIELD_COUNT)
                row.count[at] = INT64_MIN;
            else
                row.real[at] = -1.23456789e-300;
        }
        size_t size = schema_format(schemas[k], &row, line);
        assert_int_equal(strlen(line), size);
        assert_string_equal(line + size - 2, "}\n");
    }
}

/* The first attempt writes a checkpoint at step 17 of epoch 1, and is killed while it writes step
 * 25. The second attempt resumes from the checkpoint. From step 17 and epoch 1 on, only the records
 * of the second attempt are read; all samples of telemetry are kept. */
static void test_resume_after_kill(void **state)
{
    static const char *const files[] = {"steps.jsonl", "epochs.jsonl", "telemetry.jsonl"};
    struct run_rig *f = *state;
    struct record *r = run_rig_open(f, 1, NULL, 0);
    add_steps(r, 0, 25, 1);
    add_epoch(r, 0, 1);
    add_epoch(r, 1, 1);
    add_sample(r);
    add_sample(r);
    expect_ok(record_close(r));
    for (int i = 0; i < 3; i++)
        scratch_append(f->dir, files[i], "{\"epoch\":2,\"st", 14);
    struct run *run = run_rig_load(f->dir);
    assert_true(run->n_steps == 25 && run->n_epochs == 2 && run->n_telemetry == 4);
    double elapsed = run->elapsed;
    run_free(run);

    expect_ok(record_resume(f->dir, &f->info, 17, 1, &r));
    run = run_rig_load(f->dir);
    assert_true(run->n_steps == 17 && run->n_epochs == 1 && run->resumes == 1);
    run_free(run);
    add_steps(r, 17, 20, 2);
    add_epoch(r, 1, 2);
    add_sample(r);
    expect_ok(record_close(r));

    run = run_rig_load(f->dir);
    assert_true(run->n_steps == 20 && run->n_epochs == 2 && run->n_telemetry == 6);
    assert_true(run->step[16].loss == 1 && run->step[17].loss == 2 && run->step[19].step == 19);
    assert_true(run->step[17].elapsed >= elapsed);
    assert_true(run->epoch[0].train_loss == 1 && run->epoch[1].train_loss == 2);
    assert_null(run->summary);
    for (int i = 0; i < 6; i++) {
        const struct telemetry_record *t = &run->telemetry[i];
        assert_true(t->sample == i / 2 && t->device == i % 2 && t->attempt == (i >= 4));
        assert_true(i % 2 ? isnan(t->energy_j) : t->energy_j == 1);
    }
    run_free(run);
}

/* Begins where nothing is, keeps the summary of a complete run, and refuses a damaged record. */
static void test_resume_of_nothing(void **state)
{
    struct run_rig *f = *state;
    char dir[SCRATCH_MAX + 8];
    size_t size;
    struct record *r;
    snprintf(dir, sizeof dir, "%s/a/b", f->dir);
    expect_ok(record_resume(dir, &f->info, 0, 0, &r));
    add_steps(r, 0, 10, 1);
    finish(r);
    struct run *run = run_rig_load(dir);
    assert_true(run->n_steps == 10 && run->resumes == 0 && run->summary);
    run_free(run);
    expect_ok(record_resume(dir, &f->info, 10, 1, &r));
    expect_ok(record_close(r));
    free(scratch_read(dir, "summary-10.json", &size));
    scratch_write_text(dir, "steps.jsonl", "\n"); /* of `echo >steps.jsonl` */
    expect_ok(record_resume(dir, &f->info, 10, 1, &r));
    expect_ok(record_close(r));
    scratch_append(dir, "steps.jsonl", "rubbish\n", 8);
    assert_int_equal(record_resume(dir, &f->info, 3, 0, &r), STATUS_DATA);
    assert_non_null(strstr(status_message(), "steps.jsonl' line"));
}

static void expect_hosts(const struct run *run, int64_t attempt, int hosts, int per_host)
{
    int64_t n, most;
    expect_ok(run_hosts(run, attempt, &n, &most));
    assert_true(n == hosts && most == per_host);
}

/* A run of one rank has no records of ranks. It is resumed with four ranks, which are killed while
 * they record epoch 3; then, from the beginning of epoch 2, with two ranks, one rank and three. */
static void test_resume_with_other_ranks(void **state)
{
    static const struct {
        int from, ranks, to;
    } attempts[] = {{0, 1, 1}, {1, 4, 3}, {2, 2, 4}, {3, 1, 4}, {4, 3, 5}};
    static const int want[][3] = {/* epoch, rank, attempt */
                                  {1, 0, 1}, {1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {2, 0, 2},
                                  {2, 1, 2}, {4, 0, 4}, {4, 1, 4}, {4, 2, 4}};
    struct run_rig *f = *state;
    for (int i = 0; i < 5; i++) {
        int n = attempts[i].ranks;
        struct record *r = run_rig_open(f, n, "node", attempts[i].from);
        struct rank_record wrong = {.rank = n > 1 ? n : 0};
        assert_int_equal(record_rank(r, &wrong), STATUS_INVALID);
        for (int64_t epoch = attempts[i].from; epoch < attempts[i].to; epoch++)
            run_rig_add_epoch(r, epoch, n > 1 ? n : 0);
        expect_ok(record_close(r));
        if (i == 1)
            scratch_append(f->dir, "ranks.jsonl", "{\"epoch\":3,\"ra", 14);
        struct run *run = run_rig_load(f->dir);
        assert_int_equal(run_attempt_ranks(run, i), n > 1 ? n : 0);
        assert_true(i > 0 || run->n_ranks == 0);
        run_free(run);
    }
    struct run *run = run_rig_load(f->dir);
    assert_int_equal(run->n_ranks, sizeof want / sizeof *want);
    for (int i = 0; i < run->n_ranks; i++) {
        struct rank_record r = run_rig_rank(want[i][0], want[i][1]);
        r.attempt = want[i][2];
        assert_memory_equal(&run->rank[i], &r, sizeof r);
    }
    assert_string_equal(run_rank_host(run, 1, 3), "node1");
    assert_null(run_rank_host(run, 1, 4));
    assert_int_equal(run_attempt_ranks(run, -1), 0);
    expect_hosts(run, 1, 2, 2);
    expect_hosts(run, 9, 1, 1);
    run_free(run);
}

/* Lines cannot be written because of a limit on the size of files. The journal reports that until
 * it is closed, whatever fails later. */
static void test_journal_error(void **state)
{
    const struct run_rig *f = *state;
    char path[SCRATCH_MAX + 16], block[8192];
    struct journal j;
    struct rlimit old, small;
    memset(block, '\n', sizeof block);
    snprintf(path, sizeof path, "%s/j.jsonl", f->dir);
    expect_ok(journal_open(&j, path));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status st = journal_write(&j, block, sizeof block);
    assert_int_equal(st == STATUS_OK ? journal_flush(&j, false) : st, STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(status_message(), strerror(EFBIG)));
    assert_null(strstr(status_message(), "--resume")); /* a journal knows no checkpoint */
    for (int i = 0; i < 2; i++) {
        errno = EIO; /* of something else */
        assert_int_equal(i == 0 ? journal_write(&j, "\n", 1) : journal_close(&j), STATUS_IO);
        assert_non_null(strstr(status_message(), strerror(EFBIG)));
    }
}

/* A journal that cannot be opened leaves no descriptor open. */
static void test_journal_closes(void **state)
{
    const struct run_rig *f = *state;
    char path[SCRATCH_MAX + 16];
    struct journal j;
    struct rlimit old, small;
    snprintf(path, sizeof path, "%s/j.jsonl", f->dir);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 0;
    int before = dup(0);
    close(before);
    scratch_write(f->dir, "j.jsonl", "{}", 2); /* its newline cannot be added */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status st = journal_open(&j, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(st, STATUS_IO);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN_RIG_TEST(test_round_trip),
        RUN_RIG_TEST(test_journal_error),
        RUN_RIG_TEST(test_journal_closes),
        cmocka_unit_test(test_longest_line),
        RUN_RIG_TEST(test_resume_after_kill),
        RUN_RIG_TEST(test_resume_of_nothing),
        RUN_RIG_TEST(test_resume_with_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
