/* Tests following a run while another process writes it: several attempts,
 * replaced files, long files. */
#include "results/follow.h"
#include "run_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin_run(const char *dir)
{
    scratch_write_text(dir, "run.json", "{\"schema\":1}");
}

static void add_steps(const char *dir, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        struct step_record s = {.step = i, .elapsed = (double)i + 1};
        run_rig_append(dir, &step_schema, &s);
    }
}

static struct follow *open_follow(const char *dir)
{
    struct follow *follow;
    expect_ok(follow_open(dir, &follow));
    return follow;
}

static const struct run *polled(struct follow *follow)
{
    expect_ok(follow_poll(follow));
    return follow_run(follow);
}

static void expect_steps(const struct run *run, int64_t begin, int64_t end)
{
    assert_int_equal(run->n_steps, end - begin);
    for (int64_t i = begin; i < end; i++)
        assert_int_equal(run->step[i - begin].step, i);
}

/* The run ends with an incomplete line. The resumed attempt removes this line before it writes its
 * own lines. At last, the run is complete, and is resumed again. */
static void test_resumed(void **state)
{
    const struct run_rig *f = *state;
    struct record *r = run_rig_open(f, 1, NULL, 0);
    for (int64_t i = 0; i < 5; i++)
        expect_ok(record_step(r, &(struct step_record){.step = i}));
    expect_ok(record_close(r));
    scratch_append(f->dir, "steps.jsonl", "{\"epoch\":0,\"step\":5,\"ba", 22);
    struct follow *follow = open_follow(f->dir);
    expect_steps(follow_run(follow), 0, 5);
    expect_ok(record_resume(f->dir, &f->info, 3, 0, &r));
    expect_steps(polled(follow), 0, 3);
    assert_int_equal(follow_run(follow)->resumes, 1);
    for (int64_t i = 3; i < 9; i++)
        expect_ok(record_step(r, &(struct step_record){.step = i, .loss = 2}));
    run_rig_add_epoch(r, 0, 0);
    expect_steps(polled(follow), 0, 9);
    assert_true(follow_run(follow)->step[4].loss == 2 && follow_run(follow)->n_epochs == 1);
    assert_null(follow_run(follow)->summary);
    json_t *summary = json_object();
    expect_ok(record_finish(r, summary));
    json_decref(summary);
    assert_non_null(polled(follow)->summary);
    expect_ok(record_close(r));
    r = run_rig_open(f, 1, NULL, 1);
    assert_null(polled(follow)->summary);
    expect_ok(record_close(r));
    follow_close(follow);
}

/* A file is replaced by one with another inode number, then truncated. Then the run is removed, and
 * another one is written in its place; that one is damaged. */
static void test_replaced(void **state)
{
    const struct run_rig *f = *state;
    begin_run(f->dir);
    add_steps(f->dir, 0, 50);
    struct follow *follow = open_follow(f->dir), *other;
    expect_steps(follow_run(follow), 0, 50);
    scratch_remove_file(f->dir, "steps.jsonl");
    add_steps(f->dir, 0, 60);
    expect_steps(polled(follow), 0, 60);
    scratch_write_text(f->dir, "steps.jsonl", "");
    add_steps(f->dir, 0, 1);
    expect_steps(polled(follow), 0, 1);
    scratch_remove_file(f->dir, "run.json");
    scratch_remove_file(f->dir, "steps.jsonl");
    assert_int_equal(follow_poll(follow), STATUS_DATA);
    assert_null(follow_run(follow));
    assert_int_equal(follow_open(f->dir, &other), STATUS_DATA);
    begin_run(f->dir);
    add_steps(f->dir, 0, 2);
    expect_steps(polled(follow), 0, 2);
    scratch_append(f->dir, "steps.jsonl", "{}\n", 3);
    assert_int_equal(follow_poll(follow), STATUS_DATA);
    assert_non_null(strstr(status_message(), "steps.jsonl' line 3: 'epoch' is missing"));
    follow_close(follow);
}

/* Follows a long file. All events are read, but only the steps at the end of the file. Steps that
 * are not read may be invalid. */
static void test_long_file(void **state)
{
    enum { FIRST = 10, STEPS = 20000, TAIL_BYTES = 4 << 20 };
    const struct run_rig *f = *state;
    char line[SCHEMA_LINE_MAX], *text = NULL;
    size_t size = 0;
    static const char event[] =
        "{\"event\":\"resume\",\"step\":7,\"ranks\":[{\"rank\":0,\"host\":\"a\",\"pid\":1}]}\n";
    begin_run(f->dir);
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < FIRST; i++)
        fprintf(out, "{\"not a step\":%d}\n%s", i, i == 3 ? event : "");
    for (int64_t i = 0; i < STEPS; i++) {
        struct step_record s = {.step = i, .elapsed = (double)i};
        fwrite(line, 1, schema_format(&step_schema, &s, line), out);
    }
    fclose(out);
    assert_true(size > TAIL_BYTES); /* a shorter file would be read as a whole */
    scratch_write(f->dir, "steps.jsonl", text, size);
    free(text);
    struct follow *follow = open_follow(f->dir);
    expect_steps(follow_run(follow), STEPS - FOLLOW_KEEP, STEPS);
    assert_int_equal(follow_run(follow)->resumes, 1);
    assert_int_equal(run_attempt_ranks(follow_run(follow), 1), 1);
    add_steps(f->dir, STEPS, STEPS + 5);
    expect_steps(polled(follow), STEPS + 5 - FOLLOW_KEEP, STEPS + 5);
    follow_close(follow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {RUN_RIG_TEST(test_resumed), RUN_RIG_TEST(test_replaced),
                                       RUN_RIG_TEST(test_long_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
