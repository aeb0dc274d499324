/* Runs test suites with a fake program, whose checks pass, crash, hang or print wrong results. Also
 * resumes a suite that was stopped. */
#include "../results/scratch.h"
#include "accept/accept_judge.h"
#include "accept/accept_suite.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* The fake program. It records its calls in "calls", and behaves differently for each kind of
 * check. */
static const char program[] =
    "#!/bin/sh\n"
    "echo $1 $2 >>\"${0%/*}/calls\"\n"
    "case \"$1 $2\" in\n"
    "'info --json') echo '{\"devices\": [{\"device\": \"cpu\", \"usable\": true,"
    " \"description\": \"made up\"}, {\"device\": \"cuda:0\", \"usable\": true, \"description\":"
    " \"a\"}, {\"device\": \"cuda:1\", \"usable\": true, \"description\": \"b\"}]}' ;;\n"
    "'bench memory') echo '{\"rows\": [{\"kernel\": \"copy\", \"median_gb_per_s\": 10,"
    " \"wrong\": 0}]}' ;;\n"
    "'bench peak') kill -SEGV $$ ;;\n"
    "'bench conv') sleep 60 ;;\n"
    /* Prints half of its rows when it gets SIGTERM. */
    "'bench input') trap 'echo \"{\\\"rows\\\": [{\\\"stage\\\": \\\"read\\\", \\\"from\\\": "
    "\\\"memory\\\","
    " \\\"threads\\\": 1, \\\"images_per_s\\\": 7}]}\"; exit 5' TERM\n"
    " n=0; while [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done ;;\n"
    "'bench gemm') echo 'no JSON' ;;\n"
    "'bench optimizer') cp \"${0%/*}/out/checks/optimizer.part\" \"${0%/*}/part\";"
    " echo '{\"rows\": []}' ;;\n"
    "'bench collective') echo 'ampscale: no such network' >&2; exit 5 ;;\n"
    /* Writes the record of a finished turn, then ends as the file "end" says. */
    "'bench throughput') echo \"$*\" >\"${0%/*}/args\"\n"
    " while [ $# -gt 1 ]; do [ $1 != --out ] || work=$2; shift; done\n"
    " mkdir -p $work; echo '{\"rows\": [{\"precision\": \"amp\", \"batch\": 2, \"who\": "
    "\"ampscale\", \"images_per_s\": {\"median\": 9}}]}' >$work/throughput.json\n"
    " eval \"$(cat \"${0%/*}/end\")\" ;;\n"
    "'selftest --json') echo '{\"cases\": [{\"ok\": true}, {\"ok\": false}]}';"
    " echo 'ampscale: it does not hold' >&2; exit 4 ;;\n"
    /* Each device waits until both have started. Then device 1 dies, and device 0 passes. */
    "'bench overhead') for device; do :; done; cd \"${0%/*}\"; echo >\"at $device\"; n=0\n"
    " until [ -e 'at cuda:0' ] && [ -e 'at cuda:1' ]; do\n"
    "  n=$((n + 1)); [ $n -lt 200 ] || exit 5; sleep 0.05\n"
    " done\n"
    " [ $device = cuda:0 ] || kill -KILL $$\n"
    " echo '{\"rows\": [{\"what\": \"step\", \"valid\": true, \"seconds\": {\"median\": 1}}]}' ;;\n"
    /* Device 1 sends SIGTERM to the process that runs the suite. */
    "'bench step') for device; do :; done; [ $device = cuda:0 ] || kill -TERM $PPID; sleep 60 ;;\n"
    "*) exit 1 ;;\n"
    "esac\n";

struct rig {
    char dir[SCRATCH_MAX];
    char path[SCRATCH_MAX + 16], out[SCRATCH_MAX + 16];
};

static int begin(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    if (!r)
        return -1;
    scratch_make(r->dir);
    scratch_write(r->dir, "program", program, sizeof program - 1);
    snprintf(r->path, sizeof r->path, "%s/program", r->dir);
    snprintf(r->out, sizeof r->out, "%s/out", r->dir);
    *state = r;
    return chmod(r->path, 0755);
}

static int end(void **state)
{
    struct rig *r = *state;
    scratch_remove(r->dir);
    free(r);
    return 0;
}

/* Runs a spec for a device of this name, with one check of each kind. */
static enum status run(const struct rig *r, const char *hardware, const char *const *kinds,
                       bool resume, struct accept_report *report)
{
    char text[4096];
    struct accept_spec s;
    const struct accept_options o = {
        .program = r->path, .dir = r->out, .level = 1, .resume = resume};
    int used = snprintf(text, sizeof text,
                        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": "
                        "\"cpu\", \"hardware\": [\"%s\"], \"checks\": [",
                        hardware);
    for (int i = 0; kinds[i]; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s{\"name\": \"%s\", \"kind\": \"%s\", \"level\": 1, \"seconds\": 1, "
                         "\"limit_s\": 1, \"repeats\": 2}",
                         i ? ", " : "", kinds[i], kinds[i]);
    strcat(text, "]}");
    if (accept_spec_parse(text, strlen(text), "made", 0, &s) != STATUS_OK)
        fail_msg("%s", status_message());
    enum status st = accept_run(&s, &o, report);
    accept_spec_free(&s);
    return st;
}

static void ended(const struct accept_result *c, enum verdict v, int repeats, const char *why)
{
    if (c->verdict != v || c->repeats != repeats || !strstr(c->reason, why))
        fail_msg("%s: %s after %d repeats, '%s'", c->name, verdict_str(c->verdict), c->repeats,
                 c->reason);
}

static void test_endings(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"memory",     "peak",     "conv", "gemm",
                                        "collective", "selftest", NULL};
    struct accept_report r;
    assert_int_equal(run(rig, "made*", kinds, false, &r), STATUS_OK);
    assert_int_equal(r.n_checks, 7);
    assert_string_equal(r.device, "made up");
    ended(&r.check[0], VERDICT_PASS, 1, "");
    ended(&r.check[1], VERDICT_PASS, 2, "");
    ended(&r.check[2], VERDICT_FAIL, 1, "ended by a signal: Segmentation fault");
    ended(&r.check[3], VERDICT_FAIL, 1, "not done within the limit of 1 s");
    ended(&r.check[4], VERDICT_MISSING, 1, "not valid JSON");
    ended(&r.check[5], VERDICT_MISSING, 1, "no such network");
    ended(&r.check[6], VERDICT_FAIL, 1, "it does not hold");
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
    assert_int_equal(run(rig, "*H200*", kinds, false, &r), STATUS_OK);
    ended(&r.check[0], VERDICT_FAIL, 1, "does not match the pattern '*H200*'");
    ended(&r.check[1], VERDICT_MISSING, 0, "not run");
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
    assert_int_equal(run(rig, "made*", kinds, false, &r), STATUS_OK);
    accept_report_free(&r);
    assert_int_equal(run(rig, "made*", kinds, false, &r), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "--resume"));
    assert_int_equal(run(rig, "made*", others, true, &r), STATUS_USAGE);
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

    assert_int_equal(run(rig, "made*", kinds, true, &r), STATUS_OK);
    ended(&r.check[1], VERDICT_PASS, 2, "");
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
    assert_int_equal(run(rig, "made*", kinds, true, &r), STATUS_OK);
    ended(&r.check[2], VERDICT_FAIL, 1, "it does not hold");
    accept_report_free(&r);
}

/* The stored result of the hardware check has a number instead of the device's description. */
static void test_strange_device(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"memory", NULL};
    struct accept_report r;
    size_t size;
    assert_int_equal(run(rig, "made*", kinds, false, &r), STATUS_OK);
    accept_report_free(&r);
    char *text = scratch_read(rig->dir, "out/checks/hardware.json", &size);
    char *device = strstr(text, "\"made up\"");
    assert_non_null(device);
    memset(device, '1', strlen("\"made up\""));
    scratch_write(rig->dir, "out/checks/hardware.json", text, size);
    free(text);
    assert_int_equal(run(rig, "made*", kinds, true, &r), STATUS_OK);
    assert_string_equal(r.device, "");
    ended(&r.check[0], VERDICT_MISSING, 1, "the limit is a text");
    accept_report_free(&r);
}

/* The measurements of a repeat are stored before the next repeat begins. */
static void test_part(void **state)
{
    struct rig *rig = *state;
    static const char *const kinds[] = {"optimizer", NULL};
    struct accept_report r;
    size_t size;
    assert_int_equal(run(rig, "made*", kinds, false, &r), STATUS_OK);
    ended(&r.check[1], VERDICT_PASS, 2, "");
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
    ended(&r.check[1], VERDICT_PASS, 1, "");
    ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
    assert_true(accept_metric_median(accept_metric_find(&r.check[2], "read_memory_1")) == 7);
    assert_int_equal(accept_metric_find(&r.check[2], "read_memory_1")->verdict, VERDICT_PASS);
    assert_int_equal(accept_metric_find(&r.check[2], "decode_*")->verdict, VERDICT_MISSING);
    ended(&r.check[3], VERDICT_PASS, 1, "");
    assert_int_equal(verdict_exit_code(r.count, false), 5);
    accept_report_free(&r);

    r = run_budget(rig, 6, "a,c");
    ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
    accept_report_free(&r);
    r = run_budget(rig, 3, "b");
    ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
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

/* Checks that the throughput check has the result of its finished turn. */
static void assert_partial(const struct accept_result *c, enum verdict v, const char *why)
{
    ended(c, v, 1, why);
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
        char part[SCRATCH_MAX + 64];
        size_t size;
        scratch_write(rig->dir, "end", endings[i].end, strlen(endings[i].end));
        assert_int_equal(run(rig, "*", kinds, false, &r), STATUS_OK);
        assert_partial(&r.check[1], endings[i].verdict, endings[i].why);
        accept_report_free(&r);
        assert_false(is_resumed(rig));
        snprintf(part, sizeof part, "%s/checks/throughput.json", rig->out);
        if (endings[i].verdict == VERDICT_FAIL) /* a failed check is not run again */
            assert_int_equal(remove(part), 0);
        scratch_write(rig->out, "checks/throughput/r1/work/run", "", 0);
        assert_int_equal(run(rig, "*", kinds, true, &r), STATUS_OK);
        assert_partial(&r.check[1], endings[i].verdict, endings[i].why);
        accept_report_free(&r);
        assert_true(is_resumed(rig));
        free(scratch_read(rig->out, "checks/throughput/r1/work/run", &size));
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
        assert_int_equal(run(rig, "*", kinds, i > 0, &r), STATUS_OK);
        accept_report_free(&r);
        scratch_write(work, "throughput.json", damaged[i], strlen(damaged[i]));
        scratch_write(work, "old", "", 0);
        assert_int_equal(run(rig, "*", kinds, true, &r), STATUS_OK);
        assert_partial(&r.check[1], VERDICT_MISSING, "ended by a signal: Killed");
        accept_report_free(&r);
        assert_false(is_resumed(rig) || path_exists(old));
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

/* A check that is not selected is neither run nor missing. Results of earlier calls are kept. */
static void test_only(void **state)
{
    struct rig *rig = *state;
    struct accept_report r = run_budget(rig, 0, "c");
    ended(&r.check[0], VERDICT_PASS, 1, "");
    assert_string_equal(r.check[1].name, "c");
    ended(&r.check[1], VERDICT_PASS, 1, "");
    ended(&r.check[2], VERDICT_SKIP, 0, "not selected");
    ended(&r.check[3], VERDICT_SKIP, 0, "not selected");
    assert_int_equal(verdict_exit_code(r.count, false), 0);
    accept_report_free(&r);
    r = run_budget(rig, 0, "a");
    assert_string_equal(r.check[1].name, "a");
    ended(&r.check[1], VERDICT_PASS, 1, "");
    assert_string_equal(r.check[2].name, "c");
    ended(&r.check[2], VERDICT_PASS, 1, "");
    ended(&r.check[3], VERDICT_SKIP, 0, "not selected");
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
    assert_int_equal(burn_two(rig, "overhead", seconds / 3600, &r), STATUS_OK);
    assert_int_equal(r.n_checks, 3);
    assert_string_equal(r.check[1].name, "burn.0");
    assert_int_equal(r.check[1].verdict, VERDICT_PASS);
    assert_true(r.check[1].repeats >= 2 && r.check[1].seconds >= seconds);
    assert_int_equal(accept_metric_find(&r.check[1], "step_us")->n, r.check[1].repeats);
    ended(&r.check[2], VERDICT_FAIL, 1, "ended by a signal: Killed");
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
        cmocka_unit_test_setup_teardown(test_endings, begin, end),
        cmocka_unit_test_setup_teardown(test_other_hardware, begin, end),
        cmocka_unit_test_setup_teardown(test_resume, begin, end),
        cmocka_unit_test_setup_teardown(test_part, begin, end),
        cmocka_unit_test_setup_teardown(test_strange_device, begin, end),
        cmocka_unit_test_setup_teardown(test_budget, begin, end),
        cmocka_unit_test(test_room),
        cmocka_unit_test_setup_teardown(test_partial, begin, end),
        cmocka_unit_test_setup_teardown(test_damaged_record, begin, end),
        cmocka_unit_test_setup_teardown(test_partial_of_killed_suite, begin, end),
        cmocka_unit_test_setup_teardown(test_only, begin, end),
        cmocka_unit_test_setup_teardown(test_burn, begin, end),
        cmocka_unit_test_setup_teardown(test_together, begin, end),
        cmocka_unit_test_setup_teardown(test_together_interrupted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
