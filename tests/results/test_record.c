/* Tests records of runs. They are written and read back, resumed, refused if they are invalid, and
 * incomplete if the disk is full. */
#include "base/file.h"
#include "results/journal.h"
#include "results/record.h"
#include "results/run.h"
#include "scratch.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char *const test_argv[] = {"ampscale", "train", "data", "--out", "caf\xe9"};

/* The record stores a pointer to the config, so the config must exist until the test ends. */
static struct run_info make_info(json_t *config)
{
    return (struct run_info){
        .argc = 5,
        .argv = test_argv,
        .seed = 42,
        .device = "a processor, a library, 2 threads",
        .config = config,
    };
}

static json_t *make_config(void)
{
    json_t *config = json_object();
    json_object_set_new(config, "arch", json_string("resnet18"));
    json_object_set_new(config, "batch_size", json_integer(32));
    return config;
}

static struct step_record make_step(int64_t step, double loss)
{
    return (struct step_record){
        .epoch = step / 10,
        .step = step,
        .batch = step % 10,
        .images = 32,
        .loss = loss,
        .top1 = 12.5,
        .top5 = 50,
        .lr = 0.1f,
        .data_s = 0.001,
        .forward_s = 0.123456789,
        .backward_s = 0.25,
        .optimizer_s = 0.004,
        .total_s = 0.38,
        .bytes_read = INT64_C(5000000000),
        .files_read = 32,
        .decode_s = 0.2,
        .workers = 2,
        .bad_images = 1,
    };
}

static void add_steps(struct record *r, int64_t from, int64_t to, double loss)
{
    for (int64_t i = from; i < to; i++) {
        struct step_record s = make_step(i, loss);
        assert_int_equal(record_step(r, &s), STATUS_OK);
    }
}

static struct run *load(const char *dir)
{
    struct run *run;
    if (run_load(dir, &run) != STATUS_OK)
        fail_msg("%s", status_message());
    return run;
}

struct fixture {
    char dir[SCRATCH_MAX];
    json_t *config;
    struct run_info info;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    f->config = make_config();
    f->info = make_info(f->config);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    scratch_remove(f->dir);
    json_decref(f->config);
    free(f);
    return 0;
}

/* Records a run of `steps` steps, and writes no summary. */
static void write_run(const struct fixture *f, int64_t steps, double loss)
{
    struct record *r;
    assert_int_equal(record_create(f->dir, &f->info, &r), STATUS_OK);
    add_steps(r, 0, steps, loss);
    assert_int_equal(record_close(r), STATUS_OK);
}

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct record *r;
    assert_int_equal(record_create(f->dir, &f->info, &r), STATUS_OK);
    struct step_record a = make_step(0, (double)0.1f), b = make_step(1, NAN), c = make_step(2, 1);
    b.top1 = INFINITY;
    c.loss_scale = 65536;
    c.clean = 1999;
    c.comm_busy_s = 0.0625;
    c.skipped = 1;
    assert_int_equal(record_step(r, &a), STATUS_OK);
    assert_int_equal(record_step(r, &b), STATUS_OK);
    assert_int_equal(record_step(r, &c), STATUS_OK);
    struct epoch_record e = {
        .epoch = 0, .steps = 3, .train_images = 96, .train_top1 = 100, .clean = 3};
    struct epoch_record g = {.epoch = 1, .steps = 3, .val_images = 5, .val_top1 = 20, .lr = 1e-30};
    assert_int_equal(record_epoch(r, &e), STATUS_OK);
    assert_int_equal(record_epoch(r, &g), STATUS_OK);
    json_t *summary = json_pack("{s:f}", "best_top1", 20.0);
    assert_int_equal(record_finish(r, summary), STATUS_OK);
    json_decref(summary);
    assert_int_equal(record_close(r), STATUS_OK);

    struct run *run = load(f->dir);
    assert_int_equal(run->n_steps, 3);
    assert_true((float)run->step[0].loss == 0.1f && (float)run->step[0].lr == 0.1f);
    assert_true(run->step[0].forward_s == 0.123456789);
    assert_true(run->step[0].bytes_read == INT64_C(5000000000) && run->step[0].bad_images == 1);
    assert_true(run->step[0].loss_scale == 0 && run->step[0].skipped == 0);
    assert_true(run->step[0].clean == 0 && run->step[2].clean == 1999 && run->epoch[0].clean == 3);
    assert_true(isnan(run->step[1].loss) && isnan(run->step[1].top1));
    assert_true(run->step[0].comm_busy_s == 0 && run->step[2].comm_busy_s == 0.0625);
    assert_true(run->step[2].loss_scale == 65536 && run->step[2].skipped == 1);
    assert_true(run->step[2].elapsed >= run->step[0].elapsed && run->step[0].elapsed >= 0);
    assert_int_equal(run->n_epochs, 2);
    assert_true(run->epoch[0].train_top1 == 100 && isnan(run->epoch[0].val_top1));
    assert_true(run->epoch[1].val_top1 == 20 && run->epoch[1].lr == 1e-30);
    assert_string_equal(run_config_text(run, "arch", "?"), "resnet18");
    assert_string_equal(run_config_text(run, "batch_size", "?"), "?");
    assert_int_equal(run_config_count(run, "batch_size", 0), 32);
    assert_true(json_number_value(json_object_get(run->summary, "best_top1")) == 20);
    assert_true(json_is_string(json_object_get(run->summary, "finished")));
    run_free(run);
}

/* Other programs must be able to read each line: it has no NaN, no Infinity, and no unused columns.
 */
static void test_lines_are_plain_json(void **state)
{
    struct fixture *f = *state;
    char line[SCHEMA_LINE_MAX];
    struct step_record s = make_step(0, -INFINITY);
    size_t size = schema_format(&step_schema, &s, line);
    assert_int_equal(line[size - 1], '\n');
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_null(json_object_get(object, "loss")));
    assert_null(json_object_get(object, "loss_scale"));
    assert_null(json_object_get(object, "clean"));
    assert_null(json_object_get(object, "skipped"));
    assert_null(json_object_get(object, "comm_busy_s"));
    assert_int_equal(json_integer_value(json_object_get(object, "images")), 32);
    json_decref(object);
    write_run(f, 1, 1);
    struct run *run = load(f->dir);
    json_t *argv = json_object_get(run->info, "argv");
    assert_string_equal(json_string_value(json_array_get(argv, 4)), "caf?");
    assert_int_equal(json_integer_value(json_object_get(run->info, "seed")), 42);
    assert_non_null(json_object_get(json_object_get(run->info, "host"), "kernel"));
    run_free(run);
}

/* The buffer must be long enough for a line with the longest value in every column. */
static void test_longest_line(void **state)
{
    (void)state;
    static const struct schema *const schemas[] = {&step_schema, &epoch_schema, &rank_schema};
    for (int k = 0; k < 3; k++) {
        char line[SCHEMA_LINE_MAX];
        union {
            struct step_record step;
            struct epoch_record epoch;
            struct rank_record rank;
            char bytes[1];
        } row;
        for (int i = 0; i < schemas[k]->n; i++) {
            const struct field *field = &schemas[k]->field[i];
            assert_true(strlen(field->name) <= 20);
            if (field->type == FIELD_COUNT)
                *(int64_t *)(row.bytes + field->offset) = INT64_MIN;
            else
                *(double *)(row.bytes + field->offset) = -1.23456789e-300;
        }
        size_t size = schema_format(schemas[k], &row, line);
        assert_int_equal(strlen(line), size);
        assert_string_equal(line + size - 2, "}\n");
    }
}

static void test_refuses_to_overwrite(void **state)
{
    struct fixture *f = *state;
    write_run(f, 3, 1);
    size_t before, after;
    char *old = scratch_read(f->dir, "run.json", &before);
    struct record *r;
    assert_int_equal(record_create(f->dir, &f->info, &r), STATUS_USAGE);
    assert_non_null(strstr(status_message(), f->dir));
    assert_non_null(strstr(status_message(), "--resume auto"));
    assert_non_null(strstr(status_message(), "--out"));
    char *now = scratch_read(f->dir, "run.json", &after);
    assert_string_equal(old, now);
    free(old);
    free(now);
    struct run *run = load(f->dir);
    assert_int_equal(run->n_steps, 3);
    run_free(run);
}

static void test_one_writer(void **state)
{
    struct fixture *f = *state;
    struct record *first, *second;
    assert_int_equal(record_create(f->dir, &f->info, &first), STATUS_OK);
    assert_int_equal(record_resume(f->dir, &f->info, 0, 0, &second), STATUS_IO);
    assert_non_null(strstr(status_message(), "in use"));
    assert_int_equal(record_close(first), STATUS_OK);
    assert_int_equal(record_resume(f->dir, &f->info, 0, 0, &second), STATUS_OK);
    assert_int_equal(record_close(second), STATUS_OK);
}

static void *close_late(void *record)
{
    usleep(500000);
    return record_close(record) == STATUS_OK ? record : NULL;
}

/* The ranks of a failed job lock the record until they exit. A resumed run waits for the lock. */
static void test_a_dying_writer_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct record *first, *second;
    pthread_t closer;
    void *closed;
    assert_int_equal(record_create(f->dir, &f->info, &first), STATUS_OK);
    assert_int_equal(pthread_create(&closer, NULL, close_late, first), 0);
    assert_int_equal(record_resume(f->dir, &f->info, 0, 0, &second), STATUS_OK);
    assert_int_equal(pthread_join(closer, &closed), 0);
    assert_non_null(closed);
    assert_int_equal(record_close(second), STATUS_OK);
}

static void test_folder_is_a_file(void **state)
{
    struct fixture *f = *state;
    scratch_write(f->dir, "file", "x", 1);
    char path[SCRATCH_MAX + 8];
    snprintf(path, sizeof path, "%s/file", f->dir);
    struct record *r;
    assert_int_equal(record_create(path, &f->info, &r), STATUS_IO);
    assert_non_null(strstr(status_message(), path));
}

/* The first attempt writes a checkpoint at step 17 of epoch 1, and is killed while it writes step
 * 25. The second attempt resumes from the checkpoint. From step 17 and epoch 1 on, only the records
 * of the second attempt are read. */
static void test_resume_after_kill(void **state)
{
    struct fixture *f = *state;
    struct record *r;
    assert_int_equal(record_create(f->dir, &f->info, &r), STATUS_OK);
    add_steps(r, 0, 25, 1);
    for (int i = 0; i < 2; i++) {
        struct epoch_record e = {.epoch = i, .steps = 10 * i + 10, .train_loss = 1};
        assert_int_equal(record_epoch(r, &e), STATUS_OK);
    }
    assert_int_equal(record_close(r), STATUS_OK);
    scratch_append(f->dir, "steps.jsonl", "{\"epoch\":2,\"st", 14);
    scratch_append(f->dir, "epochs.jsonl", "{", 1);

    struct run *run = load(f->dir);
    assert_int_equal(run->n_steps, 25);
    assert_int_equal(run->n_epochs, 2);
    double elapsed = run->elapsed;
    run_free(run);

    assert_int_equal(record_resume(f->dir, &f->info, 17, 1, &r), STATUS_OK);
    run = load(f->dir);
    assert_int_equal(run->n_steps, 17);
    assert_int_equal(run->n_epochs, 1);
    assert_int_equal(run->resumes, 1);
    run_free(run);
    add_steps(r, 17, 20, 2);
    struct epoch_record e = {.epoch = 1, .steps = 20, .train_loss = 2};
    assert_int_equal(record_epoch(r, &e), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);

    run = load(f->dir);
    assert_int_equal(run->n_steps, 20);
    assert_true(run->step[16].loss == 1 && run->step[17].loss == 2 && run->step[19].step == 19);
    assert_true(run->step[17].elapsed >= elapsed);
    assert_int_equal(run->n_epochs, 2);
    assert_true(run->epoch[0].train_loss == 1 && run->epoch[1].train_loss == 2);
    assert_null(run->summary);
    run_free(run);
}

static void test_resume_begins_where_nothing_is(void **state)
{
    struct fixture *f = *state;
    char dir[SCRATCH_MAX + 8];
    snprintf(dir, sizeof dir, "%s/a/b", f->dir);
    struct record *r;
    assert_int_equal(record_resume(dir, &f->info, 0, 0, &r), STATUS_OK);
    add_steps(r, 0, 2, 1);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = load(dir);
    assert_int_equal(run->n_steps, 2);
    assert_int_equal(run->resumes, 0);
    assert_string_equal(run->name, "b");
    run_free(run);
}

static void test_resume_of_a_finished_run(void **state)
{
    struct fixture *f = *state;
    struct record *r;
    json_t *summary = json_object();
    assert_int_equal(record_create(f->dir, &f->info, &r), STATUS_OK);
    add_steps(r, 0, 10, 1);
    assert_int_equal(record_finish(r, summary), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    json_decref(summary);

    assert_int_equal(record_resume(f->dir, &f->info, 10, 1, &r), STATUS_OK);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = load(f->dir);
    assert_null(run->summary);
    assert_int_equal(run->n_steps, 10);
    run_free(run);
    size_t size;
    free(scratch_read(f->dir, "summary-10.json", &size));
}

/* A run with a damaged file cannot be resumed. */
static void test_resume_of_a_damaged_run(void **state)
{
    struct fixture *f = *state;
    write_run(f, 3, 1);
    scratch_append(f->dir, "steps.jsonl", "rubbish\n", 8);
    struct record *r;
    assert_int_equal(record_resume(f->dir, &f->info, 3, 0, &r), STATUS_DATA);
    assert_non_null(strstr(status_message(), "steps.jsonl' line 4"));
}

/* Records steps until a write fails. The message must name the file, and the run must not appear to
 * be complete. */
static void check_cut_short(const struct fixture *f, const char *dir, const char *reason)
{
    struct record *r;
    enum status st = record_create(dir, &f->info, &r);
    assert_int_equal(st, STATUS_OK);
    for (int64_t i = 0; st == STATUS_OK && i < 100000; i++) {
        struct step_record s = make_step(i, 1);
        st = record_step(r, &s);
    }
    assert_int_equal(st, STATUS_IO);
    assert_non_null(strstr(status_message(), "/steps.jsonl': "));
    assert_non_null(strstr(status_message(), reason));
    assert_non_null(strstr(status_message(), "--resume auto"));
    struct epoch_record e = {.epoch = 0};
    json_t *summary = json_object();
    assert_int_equal(record_epoch(r, &e), STATUS_IO);
    assert_int_equal(record_finish(r, summary), STATUS_IO);
    assert_int_equal(record_close(r), STATUS_IO);
    json_decref(summary);
}

static void test_file_limit(void **state)
{
    struct fixture *f = *state;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = old;
    low.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    check_cut_short(f, f->dir, strerror(EFBIG));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);

    struct run *run = load(f->dir);
    int64_t n = run->n_steps;
    assert_true(n > 10);
    assert_null(run->summary);
    run_free(run);
    struct record *r;
    assert_int_equal(record_resume(f->dir, &f->info, n, n / 10, &r), STATUS_OK);
    add_steps(r, n, n + 5, 2);
    assert_int_equal(record_close(r), STATUS_OK);
    run = load(f->dir);
    assert_int_equal(run->n_steps, n + 5);
    run_free(run);
}

/* The test uses a child process, because a process cannot leave a mount namespace that it has
 * entered. */
static void test_full_disk(void **state)
{
    enum { CANNOT_MOUNT = 77 };
    struct fixture *f = *state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", f->dir, "tmpfs", 0, "size=128k") != 0)
            _exit(CANNOT_MOUNT);
        char dir[SCRATCH_MAX + 32];
        snprintf(dir, sizeof dir, "%s/run", f->dir);
        check_cut_short(f, dir, "No space left on device; free some space");
        strcat(dir, "/summary.json");
        _exit(path_exists(dir));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT_MOUNT) {
        print_message("skipped: a file system of 128 KiB cannot be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_journal_on_full_device(void **state)
{
    (void)state;
    struct journal j = {.path = "x/steps.jsonl"};
    j.stream = fopen("/dev/full", "wb");
    if (!j.stream) {
        print_message("skipped: there is no /dev/full\n");
        skip();
    }
    assert_int_equal(journal_write(&j, "line\n", 5), STATUS_OK);
    assert_int_equal(journal_flush(&j, false), STATUS_IO);
    assert_string_equal(status_message(),
                        "cannot write 'x/steps.jsonl': No space left on device; free some space "
                        "and resume with --resume auto");
    assert_int_equal(journal_write(&j, "line\n", 5), STATUS_IO);
    assert_int_equal(journal_close(&j), STATUS_IO);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_round_trip),
        WITH_FOLDER(test_lines_are_plain_json),
        cmocka_unit_test(test_longest_line),
        WITH_FOLDER(test_refuses_to_overwrite),
        WITH_FOLDER(test_one_writer),
        WITH_FOLDER(test_a_dying_writer_is_waited_for),
        WITH_FOLDER(test_folder_is_a_file),
        WITH_FOLDER(test_resume_after_kill),
        WITH_FOLDER(test_resume_begins_where_nothing_is),
        WITH_FOLDER(test_resume_of_a_finished_run),
        WITH_FOLDER(test_resume_of_a_damaged_run),
        WITH_FOLDER(test_file_limit),
        WITH_FOLDER(test_full_disk),
        cmocka_unit_test(test_journal_on_full_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
