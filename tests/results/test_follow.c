/* Tests following a run while another process writes it: incomplete lines, several attempts,
 * replaced files, long files. */
#include "results/follow.h"
#include "results/record.h"
#include "scratch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct fixture {
    char dir[SCRATCH_MAX];
    json_t *config;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    f->config = json_pack("{s:s}", "arch", "resnet18");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    json_decref(f->config);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

static size_t step_line(int64_t step, char line[SCHEMA_LINE_MAX])
{
    struct step_record r = {.step = step, .images = 1, .total_s = 1, .elapsed = (double)step + 1};
    return schema_format(&step_schema, &r, line);
}

static void begin_run(const struct fixture *f)
{
    static const char info[] = "{\"schema\":1,\"config\":{\"arch\":\"resnet18\"}}";
    scratch_write(f->dir, "run.json", info, strlen(info));
}

static void add_steps(const struct fixture *f, int64_t begin, int64_t end)
{
    char line[SCHEMA_LINE_MAX];
    for (int64_t i = begin; i < end; i++)
        scratch_append(f->dir, "steps.jsonl", line, step_line(i, line));
}

static struct follow *open_follow(const struct fixture *f)
{
    struct follow *follow;
    if (follow_open(f->dir, &follow) != STATUS_OK)
        fail_msg("%s", status_message());
    return follow;
}

static const struct run *polled(struct follow *follow)
{
    if (follow_poll(follow) != STATUS_OK)
        fail_msg("%s", status_message());
    return follow_run(follow);
}

static void expect_steps(const struct run *run, int64_t begin, int64_t end)
{
    assert_int_equal(run->n_steps, end - begin);
    for (int64_t i = begin; i < end; i++)
        assert_int_equal(run->step[i - begin].step, i);
}

static void test_growing(void **state)
{
    char line[SCHEMA_LINE_MAX];
    struct fixture *f = *state;
    begin_run(f);
    struct follow *follow = open_follow(f);
    expect_steps(follow_run(follow), 0, 0);
    add_steps(f, 0, 3);
    expect_steps(polled(follow), 0, 3);
    assert_true(follow_quiet(follow) < 60);
    /* Appends a line in three parts. The line must be read only when it is complete. */
    size_t size = step_line(3, line);
    scratch_append(f->dir, "steps.jsonl", line, 20);
    expect_steps(polled(follow), 0, 3);
    scratch_append(f->dir, "steps.jsonl", line + 20, 7);
    expect_steps(polled(follow), 0, 3);
    scratch_append(f->dir, "steps.jsonl", line + 27, size - 27);
    expect_steps(polled(follow), 0, 4);
    assert_true(polled(follow)->elapsed == 4);
    follow_close(follow);
}

/* The run ends with an incomplete line. The resumed attempt removes this line before it writes its
 * own lines. */
static void test_resumed(void **state)
{
    struct fixture *f = *state;
    struct record *record;
    struct run_info info = {.device = "cpu", .config = f->config};
    assert_int_equal(record_create(f->dir, &info, &record), STATUS_OK);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(record_step(record, &(struct step_record){.step = i}), STATUS_OK);
    assert_int_equal(record_close(record), STATUS_OK);
    scratch_append(f->dir, "steps.jsonl", "{\"epoch\":0,\"step\":5,\"ba", 22);
    struct follow *follow = open_follow(f);
    expect_steps(follow_run(follow), 0, 5);
    assert_int_equal(record_resume(f->dir, &info, 3, 0, &record), STATUS_OK);
    expect_steps(polled(follow), 0, 3);
    assert_int_equal(follow_run(follow)->resumes, 1);
    for (int64_t i = 3; i < 9; i++)
        assert_int_equal(record_step(record, &(struct step_record){.step = i, .loss = 2}),
                         STATUS_OK);
    assert_int_equal(record_epoch(record, &(struct epoch_record){.steps = 9}), STATUS_OK);
    expect_steps(polled(follow), 0, 9);
    assert_true(follow_run(follow)->step[4].loss == 2);
    assert_int_equal(follow_run(follow)->n_epochs, 1);
    /* Ends the run and resumes it. */
    assert_null(follow_run(follow)->summary);
    json_t *summary = json_object();
    assert_int_equal(record_finish(record, summary), STATUS_OK);
    json_decref(summary);
    assert_non_null(polled(follow)->summary);
    assert_int_equal(record_close(record), STATUS_OK);
    assert_int_equal(record_resume(f->dir, &info, 9, 1, &record), STATUS_OK);
    assert_null(polled(follow)->summary);
    assert_int_equal(record_close(record), STATUS_OK);
    follow_close(follow);
}

static void remove_file(const struct fixture *f, const char *file)
{
    char path[SCRATCH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", f->dir, file);
    assert_int_equal(remove(path), 0);
}

static void test_replaced(void **state)
{
    struct fixture *f = *state;
    begin_run(f);
    add_steps(f, 0, 50);
    struct follow *follow = open_follow(f);
    expect_steps(follow_run(follow), 0, 50);
    /* Replaces the file by a new file. The new file has another inode number, because the old file
     * is still open. */
    remove_file(f, "steps.jsonl");
    add_steps(f, 0, 60);
    expect_steps(polled(follow), 0, 60);
    /* Truncates the file. */
    char line[SCHEMA_LINE_MAX];
    scratch_write(f->dir, "steps.jsonl", line, step_line(0, line));
    expect_steps(polled(follow), 0, 1);
    /* Removes the run, and writes it again. */
    remove_file(f, "run.json");
    remove_file(f, "steps.jsonl");
    assert_int_equal(follow_poll(follow), STATUS_DATA);
    assert_null(follow_run(follow));
    begin_run(f);
    add_steps(f, 0, 2);
    expect_steps(polled(follow), 0, 2);
    follow_close(follow);
}

static void test_damaged(void **state)
{
    struct fixture *f = *state;
    struct follow *follow;
    begin_run(f);
    scratch_write(f->dir, "steps.jsonl", "{}\n", 3);
    assert_int_equal(follow_open(f->dir, &follow), STATUS_DATA);
    assert_non_null(strstr(status_message(), "steps.jsonl' line 1: 'epoch' is missing"));
    assert_int_equal(follow_open("/nonexistent", &follow), STATUS_DATA);
}

/* Follows a long file. All events are read, but only the steps at the end of the file. Steps that
 * are not read may be invalid. */
static void test_long_file(void **state)
{
    enum { FIRST = 10, STEPS = 20000, TAIL_BYTES = 4 << 20 };
    struct fixture *f = *state;
    char line[SCHEMA_LINE_MAX], *text = NULL;
    size_t size = 0;
    static const char event[] =
        "{\"event\":\"resume\",\"step\":7,\"ranks\":[{\"rank\":0,\"host\":\"a\",\"pid\":1}]}\n";
    begin_run(f);
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < FIRST; i++)
        fprintf(out, "{\"not a step\":%d}\n%s", i, i == 3 ? event : "");
    fflush(out);
    size_t junk = size;
    for (int64_t i = 0; i < STEPS; i++)
        fwrite(line, 1, step_line(i, line), out);
    fclose(out);
    scratch_write(f->dir, "steps.jsonl", text, size);
    free(text);
    assert_true(size - junk > TAIL_BYTES); /* a shorter file would be read as a whole */
    struct follow *follow = open_follow(f);
    expect_steps(follow_run(follow), STEPS - FOLLOW_KEEP, STEPS);
    assert_int_equal(follow_run(follow)->resumes, 1);
    assert_int_equal(run_attempt_ranks(follow_run(follow), 1), 1);
    add_steps(f, STEPS, STEPS + 5);
    expect_steps(polled(follow), STEPS + 5 - FOLLOW_KEEP, STEPS + 5);
    follow_close(follow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_growing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resumed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
