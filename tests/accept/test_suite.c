/* Runs test suites with a shell script as the program (suite_program.sh), whose checks pass, crash,
 * hang or print wrong results. Also resumes suites that were stopped. */
#include "accept/accept_suite.h"
#include "base/file.h"
#include "base/stop.h"
#include "rig.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A check with a time limit of a second, and two repeats if it does not fail. */
#define SHORT(kind)                                                                                \
    "{'name': '" kind "', 'kind': '" kind "', 'level': 1, 'seconds': 1, 'limit_s': 1, "            \
    "'repeats': 2}"

struct rig {
    char dir[SCRATCH_MAX];
    char path[SCRATCH_MAX + 16], out[SCRATCH_MAX + 16], proc[SCRATCH_MAX + 16];
};

static int set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    size_t size;
    assert_non_null(r);
    scratch_make(r->dir);
    char *script = scratch_read(ACCEPT_TEST_DIR, "suite_program.sh", &size);
    scratch_write(r->dir, "program", script, size);
    free(script);
    snprintf(r->path, sizeof r->path, "%s/program", r->dir);
    snprintf(r->out, sizeof r->out, "%s/out", r->dir);
    snprintf(r->proc, sizeof r->proc, "%s/proc", r->dir);
    expect_ok(dir_make(r->proc));
    *state = r;
    return chmod(r->path, 0755);
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    scratch_remove(r->dir);
    free(r);
    return 0;
}

/* Runs the checks of a spec that `only` names; NULL: all. The load is read from the folder "proc",
 * which is empty unless a test fills it: then it is not known, and nothing is disturbed. */
static enum status run(const struct rig *r, const char *spec, struct accept_options o,
                       const char *only, struct accept_report *report)
{
    struct accept_spec s;
    o.program = r->path;
    o.dir = r->out;
    o.proc = r->proc;
    o.level = 1;
    spec_take(spec, &s);
    expect_ok(accept_spec_select(&s, only, 0));
    stop_install(); /* forgets the signal to an earlier suite */
    enum status st = accept_run(&s, &o, report);
    accept_spec_free(&s);
    return st;
}

static const struct accept_options anew = {.level = 1}, resumed = {.resume = true};

/* Checks a result's verdict, number of repeats and a part of its reason. */
static void ended(const struct accept_result *c, enum verdict v, int repeats, const char *why)
{
    if (c->verdict != v || c->repeats != repeats || !strstr(c->reason, why))
        fail_msg("%s: %s after %d repeats, '%s'", c->name, verdict_str(c->verdict), c->repeats,
                 c->reason);
}

static double median(const struct accept_result *c, const char *metric)
{
    const struct accept_metric *m = accept_metric_find(c, metric);
    assert_non_null(m);
    return accept_metric_median(m);
}

/* Counts the calls of the program. */
static int calls(const struct rig *r, const char *call)
{
    size_t size;
    char *text = scratch_read(r->dir, "calls", &size);
    int n = 0;
    for (const char *at = text; (at = strstr(at, call)); at++)
        n++;
    free(text);
    return n;
}

static void test_endings(void **state)
{
    struct accept_report r;
    expect_ok(
        run(*state,
            SPEC("cpu", SHORT("memory") "," SHORT("peak") "," SHORT("conv") "," SHORT("gemm") "," //
                 SHORT("collective") "," SHORT("selftest")),
            anew, NULL, &r));
    assert_int_equal(r.n_checks, 7);
    assert_string_equal(r.device, "made up");
    ended(&r.check[0], VERDICT_PASS, 1, "");
    ended(&r.check[1], VERDICT_PASS, 2, "");
    ended(&r.check[2], VERDICT_FAIL, 1, "ended by a signal: Segmentation fault");
    ended(&r.check[3], VERDICT_FAIL, 1, "not done within the limit of 1 s");
    ended(&r.check[4], VERDICT_MISSING, 1, "not valid JSON");
    ended(&r.check[5], VERDICT_MISSING, 1, "no such network");
    ended(&r.check[6], VERDICT_FAIL, 1, "it does not hold");
    assert_true(median(&r.check[6], "wrong") == 1);
    assert_int_equal(verdict_exit_code(r.count, false), 4);
    accept_report_free(&r);
}

/* On hardware that does not match the spec, no further check is run. */
static void test_other_hardware(void **state)
{
    struct accept_report r;
    expect_ok(run(*state,
                  "{'schema': 1, 'name': 'made', 'about': 'a test', 'device': 'cpu', 'hardware': "
                  "['*H200*'], 'checks': [" SHORT("memory") "]}",
                  anew, NULL, &r));
    ended(&r.check[0], VERDICT_FAIL, 1, "does not match the pattern '*H200*'");
    ended(&r.check[1], VERDICT_MISSING, 0, "not run");
    accept_report_free(&r);
    assert_int_equal(calls(*state, "bench"), 0);
}

/* A signal interrupts a suite during the second repeat of "memory". Resuming keeps the value of the
 * first repeat, and measures the rest. */
static void test_resume(void **state)
{
    static const char spec[] = SPEC("cpu", SHORT("memory") "," SHORT("selftest"));
    const struct rig *rig = *state;
    struct accept_report r;
    size_t size;
    scratch_write(rig->dir, "stop", "2", 1);
    assert_int_equal(run(rig, spec, anew, NULL, &r), STATUS_INTERRUPTED);
    expect_failed(run(rig, spec, anew, NULL, &r), STATUS_USAGE, "--resume");
    expect_failed(run(rig, SPEC("cpu", SHORT("memory")), resumed, NULL, &r), STATUS_USAGE,
                  "differs");
    expect_ok(run(rig, spec, resumed, NULL, &r));
    ended(&r.check[1], VERDICT_PASS, 2, "");
    assert_true(median(&r.check[1], "copy") == 2); /* of 1 and 3 */
    ended(&r.check[2], VERDICT_FAIL, 1, "it does not hold");
    accept_report_free(&r);
    assert_int_equal(calls(rig, "memory"), 3);
    /* a damaged file is treated like a missing one */
    scratch_write(rig->dir, "out/checks/selftest.json", "{\"name\": 1}", 11);
    expect_ok(run(rig, spec, resumed, NULL, &r));
    accept_report_free(&r);
    assert_int_equal(calls(rig, "selftest"), 2);
    /* one that cannot be read may be whole */
    scratch_remove_file(rig->out, "checks/selftest.json");
    assert_int_equal(symlink("selftest.json", scratch_path(rig->out, "checks/selftest.json")), 0);
    expect_failed(run(rig, spec, resumed, NULL, &r), STATUS_IO, "checks/selftest.json'");
    assert_int_equal(calls(rig, "selftest"), 2);
    scratch_remove_file(rig->out, "checks/selftest.json");
    /* a number instead of the device's description */
    char *text = scratch_read(rig->out, "checks/hardware.json", &size);
    scratch_write_changed(rig->out, "checks/hardware.json", text, "\"made up\"", "7");
    free(text);
    expect_ok(run(rig, spec, resumed, NULL, &r));
    assert_string_equal(r.device, "");
    ended(&r.check[0], VERDICT_MISSING, 1, "the limit is a text");
    accept_report_free(&r);
}

/* A budget reserves the time of later checks. If the budget stops a check, the metrics measured so
 * far get verdicts, and all other metrics of the check are missing. A later call runs the stopped
 * check again. A check that is not selected is neither run nor missing. */
static void test_budget(void **state)
{
    static const char spec[] =
        SPEC("cpu", MADE_CHECK("a", "memory", "") "," //
             MADE_CHECK("b", "input",
                        ", 'limits': {'read_*': {'min': 5}, 'decode_*': {'min': 5}}") "," //
             MADE_CHECK("c", "memory", ""));
    const struct accept_options short_time = {.resume = true, .budget_s = 3};
    const struct rig *rig = *state;
    struct accept_report r;
    expect_ok(run(rig, spec, short_time, "c", &r));
    assert_string_equal(r.check[1].name, "c");
    ended(&r.check[1], VERDICT_PASS, 1, "");
    ended(&r.check[2], VERDICT_SKIP, 0, "not selected");
    ended(&r.check[3], VERDICT_SKIP, 0, "not selected");
    assert_int_equal(verdict_exit_code(r.count, false), 0);
    accept_report_free(&r);
    expect_ok(run(rig, spec, short_time, NULL, &r));
    ended(&r.check[1], VERDICT_PASS, 1, "");
    ended(&r.check[2], VERDICT_MISSING, 1, "stopped after");
    assert_true(median(&r.check[2], "read_memory_1") == 7);
    assert_int_equal(accept_metric_find(&r.check[2], "read_memory_1")->verdict, VERDICT_PASS);
    assert_int_equal(accept_metric_find(&r.check[2], "decode_*")->verdict, VERDICT_MISSING);
    assert_int_equal(verdict_exit_code(r.count, false), 5);
    accept_report_free(&r);
    expect_ok(run(rig, spec, short_time, "a,c", &r));
    assert_string_equal(r.check[2].name, "b");
    ended(&r.check[2], VERDICT_MISSING, 1, "stopped after"); /* of the earlier call */
    accept_report_free(&r);
    assert_int_equal(calls(rig, "bench memory"), 2);
    assert_int_equal(calls(rig, "bench input"), 1);
}

/* The time limit of a check under a budget. */
static void test_room(void **state)
{
    static const struct {
        double left, planned, later;
        int64_t room;
    } rows[] = {
        {540, 50, 240, 300},   /* its own limit */
        {340, 50, 240, 220},   /* half of 240 s is reserved */
        {150, 50, 80, 110},    //
        {150, 50, 1000, 75},   /* at most half of the time left */
        {150, 120, 1000, 120}, /* at least what it needs */
        {100, 120, 1000, 100}, //
        {20.5, 1, 0, 21},      /* the last check takes the rest */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(accept_plan_room(rows[i].left, rows[i].planned, rows[i].later, 300),
                         rows[i].room);
    assert_true(accept_plan_room(-0.5, 9, 100, 300) < 1 && accept_plan_room(-0.5, 9, 0, 300) < 1);
}

#define TOGETHER(kind)                                                                             \
    "{'schema': 1, 'name': 'made', 'about': 'a test', 'device': 'cuda', 'devices': 2, "            \
    "'hardware': ['*'], 'checks': [" MADE_CHECK("burn", kind,                                      \
                                                ", 'each': true, 'burn': true, 'repeats': 2") "]}"

/* All devices run a burn-in at the same time. If one ends early, the others continue for their full
 * time. */
static void test_together(void **state)
{
    const double seconds = 0.5;
    const struct accept_options o = {.hours = seconds / 3600};
    const struct rig *rig = *state;
    struct accept_report r;
    expect_ok(run(rig, TOGETHER("determinism"), o, NULL, &r));
    assert_int_equal(r.n_checks, 3);
    assert_string_equal(r.check[1].name, "burn.0");
    assert_int_equal(r.check[1].verdict, VERDICT_PASS);
    assert_true(r.check[1].repeats >= 2 && r.check[1].seconds >= seconds);
    assert_int_equal(accept_metric_find(&r.check[1], "wrong")->n, r.check[1].repeats);
    ended(&r.check[2], VERDICT_FAIL, 1, "ended by a signal: Killed");
    accept_report_free(&r);
    /* an interrupt ends the checks of all devices */
    expect_ok(dir_remove(rig->out));
    expect_failed(run(rig, TOGETHER("step"), anew, NULL, &r), STATUS_INTERRUPTED, "by SIGTERM");
}

/* Runs the check "turns", of which a turn was finished, after the program's script for the file
 * "end" was set. Returns whether the command continued a record. */
static bool run_turns(const struct rig *rig, const char *end, bool resume, int64_t budget_s,
                      enum verdict v, const char *why)
{
    static const char spec[] =
        SPEC("cpu", "{'name': 'turns', 'kind': 'throughput', 'level': 1, 'seconds': 1, 'limit_s': "
                    "2}," MADE_CHECK("b", "memory", ""));
    const struct accept_options o = {.resume = resume, .budget_s = budget_s};
    struct accept_report r;
    size_t size;
    scratch_write(rig->dir, "end", end, strlen(end));
    expect_ok(run(rig, spec, o, NULL, &r));
    ended(&r.check[1], v, 1, why);
    ended(&r.check[2], VERDICT_PASS, 1, "");
    assert_true(median(&r.check[1], "images_per_s_amp_2") == 9);
    accept_report_free(&r);
    char *args = scratch_read(rig->dir, "args", &size);
    bool continued = strstr(args, " --resume");
    free(args);
    return continued;
}

/* A command that is killed, is late or fails before it prints anything has left a record in its
 * folder, which counts, and which a later call continues. A check that failed is not run again. */
static void test_partial(void **state)
{
    static const struct {
        const char *end, *why;
        enum verdict verdict;
    } endings[] = {{"kill -KILL $$", "ended by a signal: Killed", VERDICT_MISSING},
                   {"kill -SEGV $$", "ended by a signal: Segmentation fault", VERDICT_FAIL},
                   {"exit 1", "exit code 1", VERDICT_FAIL},
                   {"exec sleep 60", "stopped after 2 s, its time limit", VERDICT_MISSING},
                   {"exit 0", "the command printed no output", VERDICT_MISSING}};
    static const char kill[] = "kill -KILL $$";
    const struct rig *rig = *state;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        enum verdict v = endings[i].verdict;
        assert_false(run_turns(rig, endings[i].end, false, 0, v, endings[i].why));
        assert_int_equal(run_turns(rig, kill, true, 0, v, v == VERDICT_FAIL ? "" : "Killed"),
                         v == VERDICT_MISSING);
        expect_ok(dir_remove(rig->out));
    }
    /* a damaged record is no record to continue */
    run_turns(rig, kill, false, 0, VERDICT_MISSING, "Killed");
    scratch_write_text(rig->out, "checks/turns/r1/work/throughput.json", "{\"rows\"");
    assert_false(run_turns(rig, kill, true, 0, VERDICT_MISSING, "partial record, through"));
}

/* A check that was cut off is continued at the end of the same call, if the budget leaves time. */
static void test_rest(void **state)
{
    static const char end[] = "echo 'cat $work/throughput.json' >\"$dir/end\"; exit 5";
    const struct rig *rig = *state;
    assert_true(run_turns(rig, end, false, 1000, VERDICT_PASS, ""));
    expect_ok(dir_remove(rig->out));
    assert_false(run_turns(rig, end, false, 20, VERDICT_MISSING, "exit code 5"));
}

/* The suite itself was killed. The report of a later call that does not select the check has the
 * results of its finished turns. */
static void test_killed_suite(void **state)
{
    static const char spec[] =
        SPEC("cpu", MADE_CHECK("a", "memory", "") "," MADE_CHECK("b", "throughput", ""));
    const struct rig *rig = *state;
    struct accept_report r;
    char work[SCRATCH_MAX + 64];
    snprintf(work, sizeof work, "%s/checks/b/r1/work", rig->out);
    expect_ok(dir_make(work));
    scratch_write_text(work, "throughput.json",
                       "{\"rows\": [{\"precision\": \"amp\", \"batch\": 2, \"who\": "
                       "\"ampscale\", \"images_per_s\": {\"median\": 9}}]}");
    expect_ok(run(rig, spec, resumed, "a", &r));
    ended(&r.check[2], VERDICT_MISSING, 1, "interrupted; --resume runs it again");
    assert_true(median(&r.check[2], "images_per_s_amp_2") == 9);
    accept_report_free(&r);
}

/* From now on, other processes take half of the processors' time during each call of the program
 * for "memory" before call number `calm`: the program replaces N in the file "busy" by the number
 * of the call, and copies it to "proc/stat". */
static void begin_load(const struct rig *rig, const char *calm)
{
    char text[CPU_SETSIZE * 64];
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        n +=
            snprintf(text + n, sizeof text - (size_t)n, "cpu%d N0000000 0 0 N0000000 0 0 0 0\n", i);
    scratch_write_text(rig->dir, "busy", text);
    scratch_write_text(rig->dir, "calm", calm);
}

#define FAST "'repeats': 2, 'limits': {'copy': {'min': 0.5}, 'wrong': {'max': 0}}"

/* A disturbed repeat is measured again, at most twice. If the last is disturbed too, the check is
 * MISSING, the other checks are measured, and --resume repeats it. */
static void test_disturbed(void **state)
{
    static const char spec[] = SPEC("cpu", MADE_CHECK("a", "memory", ", " FAST));
    const struct rig *rig = *state;
    struct accept_report r;
    begin_load(rig, "3");
    expect_ok(run(rig, spec, anew, NULL, &r));
    ended(&r.check[1], VERDICT_PASS, 2, "");
    assert_true(median(&r.check[1], "copy") == 3.5); /* of 3 and 4 */
    accept_report_free(&r);
    assert_int_equal(calls(rig, "memory"), 4);
    expect_ok(dir_remove(rig->out));
    begin_load(rig, "8");
    expect_ok(run(rig, spec, anew, NULL, &r));
    ended(&r.check[1], VERDICT_MISSING, 2, "disturbed: ");
    assert_int_equal(accept_metric_find(&r.check[1], "wrong")->verdict, VERDICT_PASS);
    assert_int_equal(verdict_exit_code(r.count, false), 5);
    accept_report_free(&r);
    assert_int_equal(calls(rig, "memory"), 8); /* three for the first repeat, one for the second */
    expect_ok(run(rig, spec, resumed, NULL, &r));
    ended(&r.check[1], VERDICT_PASS, 2, "");
    accept_report_free(&r);
}

/* Without the time for it, nothing is measured again; nor is a check without a limit on a speed, or
 * one that found a wrong result. */
static void test_disturbed_once(void **state)
{
    static const struct {
        const char *more;
        int64_t budget_s;
        enum verdict verdict;
    } rows[] = {{", 'limits': {'copy': {'min': 0.5}}", 1, VERDICT_MISSING},
                {", 'limits': {'wrong': {'max': 0}}", 0, VERDICT_PASS},
                {", 'limits': {'wrong': {'min': 1}, 'copy': {'min': 0.5}}", 0, VERDICT_FAIL},
                {"", 0, VERDICT_PASS}};
    const struct rig *rig = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char spec[1024];
        struct accept_report r;
        const struct accept_options o = {.budget_s = rows[i].budget_s};
        snprintf(spec, sizeof spec,
                 SPEC("cpu",
                      "{'name': 'a', 'kind': 'memory', 'level': 1, 'seconds': 1, 'limit_s': 60%s}"),
                 rows[i].more);
        begin_load(rig, "99");
        expect_ok(run(rig, spec, o, NULL, &r));
        ended(&r.check[1], rows[i].verdict, 1, "");
        assert_true(r.check[1].noise.others > 0.4);
        accept_report_free(&r);
        assert_int_equal(calls(rig, "memory"), (int)i + 1);
        expect_ok(dir_remove(rig->out));
    }
}

/* The checks that run at the same time are no other work: a running child's time, and its
 * children's, are this process's own. */
static void test_descendants(void **state)
{
    const struct rig *rig = *state;
    struct load_meter meter;
    char dir[SCRATCH_MAX + 64];
    const struct {
        int pid;
        const char *children;
    } task[] = {{getpid(), "70 71 "}, {70, ""}, {71, "72 "}, {72, ""}, {73, ""}};
    load_open(&meter, rig->proc, NULL);
    double own = load_read(&meter).own_s;
    for (size_t i = 0; i < COUNT(task); i++) {
        char stat[160];
        const long tick = sysconf(_SC_CLK_TCK);
        snprintf(dir, sizeof dir, "%s/%d/task/%d", rig->proc, task[i].pid, task[i].pid);
        expect_ok(dir_make(dir));
        scratch_write_text(dir, "children", task[i].children);
        snprintf(dir, sizeof dir, "%s/%d", rig->proc, task[i].pid);
        snprintf(stat, sizeof stat, "%d (a) (b c) S 1 1 1 0 -1 0 0 0 0 0 %ld %ld %ld %ld 20 0 1",
                 task[i].pid, 1000 * tick, 200 * tick, 30 * tick, 4 * tick);
        scratch_write_text(dir, "stat", stat);
    }
    double all = accept_noise_load(&meter).own_s - own;
    assert_true(all >= 3 * 1234 && all < 3 * 1234 + 60);
}

#define SUITE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SUITE(test_endings),   SUITE(test_other_hardware),  SUITE(test_resume),
        SUITE(test_budget),    cmocka_unit_test(test_room), SUITE(test_together),
        SUITE(test_rest),      SUITE(test_killed_suite),    SUITE(test_partial),
        SUITE(test_disturbed), SUITE(test_disturbed_once),  SUITE(test_descendants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
