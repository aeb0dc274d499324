/* Checks that were killed, late or failed before they printed anything: their partial records, and
 * calls that continue them. */
#include "base/file.h"
#include "suite_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Checks that the throughput check has the result of its finished turn. */
static void assert_partial(const struct accept_result *c, enum verdict v, const char *why)
{
    suite_ended(c, v, 1, why);
    assert_non_null(strstr(c->reason, "partial record, throughput.json"));
    assert_true(accept_metric_median(accept_metric_find(c, "images_per_s_amp_2")) == 9);
}

/* Whether the last command of the throughput check continued its record. */
static bool is_resumed(const struct rig *r)
{
    size_t size;
    char *args = scratch_read(r->dir, "args", &size);
    bool resumed = strstr(args, " --resume");
    free(args);
    return resumed;
}

/* A command that is killed, is late or fails before it prints anything has left a record in its
 * folder, which a later call continues. */
static void test_partial(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"throughput", NULL};
    static const struct {
        const char *end, *why;
        enum verdict verdict;
    } endings[] = {{"kill -KILL $$", "ended by a signal: Killed", VERDICT_MISSING},
                   {"kill -SEGV $$", "ended by a signal: Segmentation fault", VERDICT_FAIL},
                   {"exec sleep 60", "stopped after 1 s, its time limit", VERDICT_MISSING},
                   {"exit 1", "exit code 1", VERDICT_FAIL},
                   {"exit 0", "the command printed no output", VERDICT_MISSING}};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct accept_report r;
        char part[SCRATCH_MAX + 64], run[SCRATCH_MAX + 64];
        scratch_write(rig->dir, "end", endings[i].end, strlen(endings[i].end));
        assert_int_equal(suite_run(rig, "*", kinds, false, &r), STATUS_OK);
        assert_partial(&r.check[1], endings[i].verdict, endings[i].why);
        accept_report_free(&r);
        assert_false(is_resumed(rig));
        snprintf(part, sizeof part, "%s/checks/throughput.json", rig->out);
        if (endings[i].verdict == VERDICT_FAIL) /* a failed check is not run again */
            assert_int_equal(remove(part), 0);
        scratch_write(rig->out, "checks/throughput/r1/work/run", "", 0);
        assert_int_equal(suite_run(rig, "*", kinds, true, &r), STATUS_OK);
        assert_partial(&r.check[1], endings[i].verdict, endings[i].why);
        accept_report_free(&r);
        /* Where the result was removed, the check begins with an empty folder. */
        snprintf(run, sizeof run, "%s/checks/throughput/r1/work/run", rig->out);
        assert_int_equal(is_resumed(rig), endings[i].verdict == VERDICT_MISSING);
        assert_int_equal(path_exists(run), endings[i].verdict == VERDICT_MISSING);
        assert_int_equal(dir_remove(rig->out), STATUS_OK);
    }
}

/* A damaged record is no record to continue: the check begins with an empty folder. */
static void test_damaged_record(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"throughput", NULL}, *const damaged[] = {"[1]", "{\"rows\"",
                                                                                 ""};
    struct accept_report r;
    char work[SCRATCH_MAX + 64], old[SCRATCH_MAX + 80];
    scratch_write(rig->dir, "end", "kill -KILL $$", 13);
    snprintf(work, sizeof work, "%s/checks/throughput/r1/work", rig->out);
    snprintf(old, sizeof old, "%s/old", work);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_int_equal(suite_run(rig, "*", kinds, i > 0, &r), STATUS_OK);
        accept_report_free(&r);
        scratch_write(work, "throughput.json", damaged[i], strlen(damaged[i]));
        scratch_write(work, "old", "", 0);
        assert_int_equal(suite_run(rig, "*", kinds, true, &r), STATUS_OK);
        assert_partial(&r.check[1], VERDICT_MISSING, "ended by a signal: Killed");
        accept_report_free(&r);
        assert_false(is_resumed(rig) || path_exists(old));
    }
}

/* A check that was cut off is continued at the end of the same call, if the budget leaves time. */
static void test_rest(void **state)
{
    struct rig *rig = *state;
    static const char text[] =
        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\", "
        "\"hardware\": [\"*\"], \"checks\": ["
        "{\"name\": \"a\", \"kind\": \"throughput\", \"level\": 1, \"seconds\": 1, \"limit_s\": "
        "60},"
        "{\"name\": \"b\", \"kind\": \"memory\", \"level\": 1, \"seconds\": 1, \"limit_s\": 60}]}";
    static const char first[] = "echo 'cat $work/throughput.json' >\"${0%/*}/end\"; exit 5";
    static const struct {
        int64_t budget_s;
        enum verdict verdict;
    } cases[] = {{1000, VERDICT_PASS}, {20, VERDICT_MISSING}, {0, VERDICT_MISSING}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accept_spec s;
        struct accept_report r;
        const struct accept_options o = {
            .program = rig->path, .dir = rig->out, .level = 1, .budget_s = cases[i].budget_s};
        scratch_write(rig->dir, "end", first, sizeof first - 1);
        assert_int_equal(accept_spec_parse(text, strlen(text), "made", 0, &s), STATUS_OK);
        assert_int_equal(accept_run(&s, &o, &r), STATUS_OK);
        assert_int_equal(r.n_checks, 3);
        assert_int_equal(r.check[1].verdict, cases[i].verdict);
        assert_int_equal(r.check[2].verdict, VERDICT_PASS);
        assert_int_equal(is_resumed(rig), cases[i].verdict == VERDICT_PASS);
        accept_report_free(&r);
        accept_spec_free(&s);
        assert_int_equal(dir_remove(rig->out), STATUS_OK);
    }
}

/* The suite itself was killed. The report of a later call that does not select the check has the
 * results of its finished turns. */
static void test_partial_of_killed_suite(void **state)
{
    struct rig *rig = *state;
    static const char record[] = "{\"rows\": [{\"precision\": \"amp\", \"batch\": 2, \"who\": "
                                 "\"ampscale\", \"images_per_s\": {\"median\": 9}}]}";
    static const char text[] =
        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\", "
        "\"hardware\": [\"*\"], \"checks\": ["
        "{\"name\": \"a\", \"kind\": \"memory\", \"level\": 1, \"seconds\": 1, \"limit_s\": 60},"
        "{\"name\": \"b\", \"kind\": \"throughput\", \"level\": 1, \"seconds\": 1, \"limit_s\": "
        "60}]}";
    struct accept_spec s;
    struct accept_report r;
    char work[SCRATCH_MAX + 64];
    const struct accept_options o = {
        .program = rig->path, .dir = rig->out, .level = 1, .resume = true};
    snprintf(work, sizeof work, "%s/checks/b/r1/work", rig->out);
    assert_int_equal(dir_make(work), STATUS_OK);
    scratch_write(work, "throughput.json", record, sizeof record - 1);
    assert_int_equal(accept_spec_parse(text, strlen(text), "made", 0, &s), STATUS_OK);
    assert_int_equal(accept_spec_select(&s, "a", 0), STATUS_OK);
    assert_int_equal(accept_run(&s, &o, &r), STATUS_OK);
    assert_string_equal(r.check[2].name, "b");
    assert_partial(&r.check[2], VERDICT_MISSING, "interrupted; --resume runs it again");
    accept_report_free(&r);
    accept_spec_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_partial, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_damaged_record, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_rest, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_partial_of_killed_suite, suite_begin, suite_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
