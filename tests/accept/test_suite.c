/* Runs test suites with a fake program, whose checks pass, crash, hang or print wrong results. Also
 * resumes a suite that was stopped. */
#include "base/file.h"
#include "suite_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_endings(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"memory",     "peak",     "conv", "gemm",
                                        "collective", "selftest", NULL};
    struct accept_report r;
    assert_int_equal(suite_run(rig, "made*", kinds, false, &r), STATUS_OK);
    assert_int_equal(r.n_checks, 7);
    assert_string_equal(r.device, "made up");
    suite_ended(&r.check[0], VERDICT_PASS, 1, "");
    suite_ended(&r.check[1], VERDICT_PASS, 2, "");
    suite_ended(&r.check[2], VERDICT_FAIL, 1, "ended by a signal: Segmentation fault");
    suite_ended(&r.check[3], VERDICT_FAIL, 1, "not done within the limit of 1 s");
    suite_ended(&r.check[4], VERDICT_MISSING, 1, "not valid JSON");
    suite_ended(&r.check[5], VERDICT_MISSING, 1, "no such network");
    suite_ended(&r.check[6], VERDICT_FAIL, 1, "it does not hold");
    assert_true(accept_metric_median(accept_metric_find(&r.check[6], "wrong")) == 1);
    assert_int_equal(verdict_exit_code(r.count, false), 4);
    accept_report_free(&r);
}

/* On hardware that does not match the spec, no further check is run. */
static void test_other_hardware(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"memory", NULL};
    struct accept_report r;
    size_t size;
    assert_int_equal(suite_run(rig, "*H200*", kinds, false, &r), STATUS_OK);
    suite_ended(&r.check[0], VERDICT_FAIL, 1, "does not match the pattern '*H200*'");
    suite_ended(&r.check[1], VERDICT_MISSING, 0, "not run");
    accept_report_free(&r);
    char *calls = scratch_read(rig->dir, "calls", &size);
    assert_string_equal(calls, "info --json\n");
    free(calls);
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        n++;
    return n;
}

/* One of the two repeats of "memory" is removed. Resuming measures only this repeat again. */
static void test_resume(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"memory", "selftest", NULL};
    static const char *const others[] = {"memory", NULL};
    struct accept_report r;
    char path[128], from[128];
    size_t size;
    assert_int_equal(suite_run(rig, "made*", kinds, false, &r), STATUS_OK);
    accept_report_free(&r);
    assert_int_equal(suite_run(rig, "made*", kinds, false, &r), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "--resume"));
    assert_int_equal(suite_run(rig, "made*", others, true, &r), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "differs from"));

    /* The files are as after a kill between the two repeats of "memory". */
    char *whole = scratch_read(rig->dir, "out/checks/memory.json", &size);
    json_t *o = json_loads(whole, 0, NULL);
    free(whole);
    json_object_set_new(o, "repeats", json_integer(1));
    json_t *values = json_object_get(json_array_get(json_object_get(o, "metrics"), 0), "values");
    json_array_remove(values, 1);
    values = json_object_get(json_array_get(json_object_get(o, "metrics"), 1), "values");
    json_array_remove(values, 1);
    snprintf(from, sizeof from, "%s/out/checks/memory.json", rig->dir);
    assert_int_equal(remove(from), 0);
    snprintf(path, sizeof path, "%s/out/checks/memory.part", rig->dir);
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);

    assert_int_equal(suite_run(rig, "made*", kinds, true, &r), STATUS_OK);
    suite_ended(&r.check[1], VERDICT_PASS, 2, "");
    assert_int_equal(accept_metric_find(&r.check[1], "copy")->n, 2);
    accept_report_free(&r);
    assert_false(path_exists(path));
    char *calls = scratch_read(rig->dir, "calls", &size);
    assert_int_equal(count(calls, "memory"), 3);
    assert_int_equal(count(calls, "selftest"), 1);
    assert_int_equal(count(calls, "info"), 1);
    free(calls);

    /* A damaged file is treated like a missing one. */
    scratch_write(rig->dir, "out/checks/selftest.json", "{\"name\": 1}", 11);
    assert_int_equal(suite_run(rig, "made*", kinds, true, &r), STATUS_OK);
    suite_ended(&r.check[2], VERDICT_FAIL, 1, "it does not hold");
    accept_report_free(&r);
}

/* The stored result of the hardware check has a number instead of the device's description. */
static void test_strange_device(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"memory", NULL};
    struct accept_report r;
    size_t size;
    assert_int_equal(suite_run(rig, "made*", kinds, false, &r), STATUS_OK);
    accept_report_free(&r);
    char *text = scratch_read(rig->dir, "out/checks/hardware.json", &size);
    char *device = strstr(text, "\"made up\"");
    assert_non_null(device);
    memset(device, '1', strlen("\"made up\""));
    scratch_write(rig->dir, "out/checks/hardware.json", text, size);
    free(text);
    assert_int_equal(suite_run(rig, "made*", kinds, true, &r), STATUS_OK);
    assert_string_equal(r.device, "");
    suite_ended(&r.check[0], VERDICT_MISSING, 1, "the limit is a text");
    accept_report_free(&r);
}

/* The measurements of a repeat are stored before the next repeat begins. */
static void test_part(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"optimizer", NULL};
    struct accept_report r;
    size_t size;
    assert_int_equal(suite_run(rig, "made*", kinds, false, &r), STATUS_OK);
    suite_ended(&r.check[1], VERDICT_PASS, 2, "");
    accept_report_free(&r);
    char *part = scratch_read(rig->dir, "part", &size);
    assert_non_null(strstr(part, "\"repeats\": 1"));
    free(part);
}

/* Runs a spec with a budget. Its checks are "memory", "input" (which exceeds any budget) and
 * "memory". `only` selects checks by name; NULL: all. */
static struct accept_report run_budget(const struct rig *r, int64_t budget, const char *only)
{
    static const char text[] =
        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\", "
        "\"hardware\": [\"*\"], \"checks\": ["
        "{\"name\": \"a\", \"kind\": \"memory\", \"level\": 1, \"seconds\": 1, \"limit_s\": 60},"
        "{\"name\": \"b\", \"kind\": \"input\", \"level\": 1, \"seconds\": 1, \"limit_s\": 600, "
        "\"limits\": {\"read_*\": {\"min\": 5}, \"decode_*\": {\"min\": 5}}},"
        "{\"name\": \"c\", \"kind\": \"memory\", \"level\": 1, \"seconds\": 4, \"limit_s\": 60}]}";
    struct accept_spec s;
    struct accept_report report;
    const struct accept_options o = {
        .program = r->path, .dir = r->out, .level = 1, .resume = true, .budget_s = budget};
    assert_int_equal(accept_spec_parse(text, strlen(text), "made", 0, &s), STATUS_OK);
    assert_int_equal(accept_spec_select(&s, only, 0), STATUS_OK);
    assert_int_equal(accept_run(&s, &o, &report), STATUS_OK);
    accept_spec_free(&s);
    assert_int_equal(report.n_checks, 4);
    return report;
}

/* A budget reserves the time of later checks. If the budget stops a check, the metrics measured so
 * far get verdicts, and all other metrics of the check are missing. A later call runs the stopped
 * check again. */
static void test_budget(void **state)
{
    struct rig *rig = *state;
    size_t size;
    struct accept_report r = run_budget(rig, 6, NULL);
    suite_ended(&r.check[1], VERDICT_PASS, 1, "");
    suite_ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
    assert_true(accept_metric_median(accept_metric_find(&r.check[2], "read_memory_1")) == 7);
    assert_int_equal(accept_metric_find(&r.check[2], "read_memory_1")->verdict, VERDICT_PASS);
    assert_int_equal(accept_metric_find(&r.check[2], "decode_*")->verdict, VERDICT_MISSING);
    suite_ended(&r.check[3], VERDICT_PASS, 1, "");
    assert_int_equal(verdict_exit_code(r.count, false), 5);
    accept_report_free(&r);

    r = run_budget(rig, 6, "a,c");
    suite_ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
    accept_report_free(&r);
    r = run_budget(rig, 3, "b");
    suite_ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
    accept_report_free(&r);
    char *calls = scratch_read(rig->dir, "calls", &size);
    assert_int_equal(count(calls, "bench memory"), 2);
    assert_int_equal(count(calls, "bench input"), 2);
    free(calls);
}

/* The time limit of a check under a budget. */
static void test_room(void **state)
{
    (void)state;
    assert_int_equal(accept_plan_room(540, 50, 240, 300), 300); /* its own limit */
    assert_int_equal(accept_plan_room(340, 50, 240, 300), 220); /* half of 240 s is reserved */
    assert_int_equal(accept_plan_room(150, 50, 80, 300), 110);
    assert_int_equal(accept_plan_room(150, 50, 1000, 300), 75); /* at most half of the time left */
    assert_int_equal(accept_plan_room(150, 120, 1000, 300), 120); /* at least what it needs */
    assert_int_equal(accept_plan_room(100, 120, 1000, 300), 100);
    assert_int_equal(accept_plan_room(20.5, 1, 0, 300), 21); /* the last check takes the rest */
    assert_true(accept_plan_room(-0.5, 9, 100, 300) < 1 && accept_plan_room(-0.5, 9, 0, 300) < 1);
}

/* A check that is not selected is neither run nor missing. Results of earlier calls are kept. */
static void test_only(void **state)
{
    struct rig *rig = *state;
    struct accept_report r = run_budget(rig, 0, "c");
    suite_ended(&r.check[0], VERDICT_PASS, 1, "");
    assert_string_equal(r.check[1].name, "c");
    suite_ended(&r.check[1], VERDICT_PASS, 1, "");
    suite_ended(&r.check[2], VERDICT_SKIP, 0, "not selected");
    suite_ended(&r.check[3], VERDICT_SKIP, 0, "not selected");
    assert_int_equal(verdict_exit_code(r.count, false), 0);
    accept_report_free(&r);
    r = run_budget(rig, 0, "a");
    assert_string_equal(r.check[1].name, "a");
    suite_ended(&r.check[1], VERDICT_PASS, 1, "");
    assert_string_equal(r.check[2].name, "c");
    suite_ended(&r.check[2], VERDICT_PASS, 1, "");
    suite_ended(&r.check[3], VERDICT_SKIP, 0, "not selected");
    accept_report_free(&r);
}

/* A burn-in runs for its time, and no longer. */
static void test_burn(void **state)
{
    struct rig *rig = *state;
    static const char text[] =
        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\", "
        "\"hardware\": [\"*\"], \"checks\": [{\"name\": \"a\", \"kind\": \"memory\", \"level\": "
        "1, \"seconds\": 1, \"limit_s\": 9, \"burn\": true}]}";
    const double seconds = 0.1;
    struct accept_spec s;
    struct accept_report r;
    const struct accept_options o = {
        .program = rig->path, .dir = rig->out, .level = 1, .hours = seconds / 3600};
    assert_int_equal(accept_spec_parse(text, strlen(text), "made", 0, &s), STATUS_OK);
    assert_int_equal(accept_run(&s, &o, &r), STATUS_OK);
    assert_true(r.check[1].repeats > 1);
    assert_true(r.check[1].seconds >= seconds);
    assert_int_equal(accept_metric_find(&r.check[1], "copy")->n, r.check[1].repeats);
    accept_report_free(&r);
    accept_spec_free(&s);
}

/* Runs a burn-in of the given kind on two GPUs. */
static enum status burn_two(const struct rig *rig, const char *kind, double hours,
                            struct accept_report *report)
{
    char text[512];
    struct accept_spec s;
    const struct accept_options o = {
        .program = rig->path, .dir = rig->out, .level = 1, .hours = hours};
    int n = snprintf(text, sizeof text,
                     "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": "
                     "\"cuda\", \"devices\": 2, \"hardware\": [\"*\"], \"checks\": [{\"name\": "
                     "\"burn\", \"kind\": \"%s\", \"level\": 1, \"seconds\": 1, \"limit_s\": 60, "
                     "\"each\": true, \"burn\": true, \"repeats\": 2}]}",
                     kind);
    if (accept_spec_parse(text, (size_t)n, "made", 0, &s) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(s.check[1].together, 2);
    enum status st = accept_run(&s, &o, report);
    accept_spec_free(&s);
    return st;
}

/* All devices run the burn-in at the same time, each in its own folder. If one ends early, the
 * others continue for their full time. */
static void test_together(void **state)
{
    struct rig *rig = *state;
    const double seconds = 0.1;
    struct accept_report r;
    char path[SCRATCH_MAX + 64];
    assert_int_equal(burn_two(rig, "determinism", seconds / 3600, &r), STATUS_OK);
    assert_int_equal(r.n_checks, 3);
    assert_string_equal(r.check[1].name, "burn.0");
    assert_int_equal(r.check[1].verdict, VERDICT_PASS);
    assert_true(r.check[1].repeats >= 2 && r.check[1].seconds >= seconds);
    assert_int_equal(accept_metric_find(&r.check[1], "wrong")->n, r.check[1].repeats);
    suite_ended(&r.check[2], VERDICT_FAIL, 1, "ended by a signal: Killed");
    accept_report_free(&r);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/checks/burn.%d/r1/log", rig->out, i);
        assert_true(path_exists(path));
    }
}

/* An interrupt ends the checks of all devices. No result is written. */
static void test_together_interrupted(void **state)
{
    struct rig *rig = *state;
    struct accept_report r;
    char path[SCRATCH_MAX + 64];
    assert_int_equal(burn_two(rig, "step", 0, &r), STATUS_INTERRUPTED);
    assert_non_null(strstr(status_message(), "interrupted by Terminated"));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/checks/burn.%d.json", rig->out, i);
        assert_false(path_exists(path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_endings, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_other_hardware, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_resume, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_part, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_strange_device, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_budget, suite_begin, suite_end),
        cmocka_unit_test(test_room),
        cmocka_unit_test_setup_teardown(test_only, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_burn, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_together, suite_begin, suite_end),
        cmocka_unit_test_setup_teardown(test_together_interrupted, suite_begin, suite_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
