/* Tests verdicts and exit codes, and writes and reads results as JSON. */
#include "accept/accept_report.h"
#include "rig.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

#define BOUNDS "'min': 10, 'warn_min': 12, 'warn_max': 18, 'max': 20"
#define NEAR   "'baseline': 100, 'within': 10, 'warn_within': 5"
#define LATER  "'at_least': '535.104.5'"

static void make_spec(const char *limit, struct accept_spec *s)
{
    char text[1024];
    snprintf(text, sizeof text,
             SPEC("cpu", MADE_CHECK("a", "memory", ", 'repeats': 2, 'limits': {'x': {%s}}")),
             limit);
    spec_take(text, s);
}

/* Judges the result of a check whose metric "x" has the limit. */
static enum verdict judge(const char *limit, struct accept_result *r)
{
    struct accept_spec s;
    make_spec(limit, &s);
    expect_ok(accept_judge(&s.check[1], r));
    enum verdict v = accept_metric_find(r, "x")->verdict;
    assert_int_equal(v, r->verdict);
    assert_true(v == VERDICT_PASS || *r->reason);
    accept_result_free(r);
    accept_spec_free(&s);
    return v;
}

static void test_numbers(void **state)
{
    static const struct {
        const char *limit;
        enum accept_better better;
        double x[2];
        int n;
        enum verdict want;
    } rows[] = {
        {BOUNDS, ACCEPT_HIGHER, {9.99, 9.99}, 2, VERDICT_FAIL},
        {BOUNDS, ACCEPT_HIGHER, {10, 10}, 2, VERDICT_WARN},
        {BOUNDS, ACCEPT_HIGHER, {12, 12}, 2, VERDICT_PASS},
        {BOUNDS, ACCEPT_HIGHER, {18, 18}, 2, VERDICT_PASS},
        {BOUNDS, ACCEPT_HIGHER, {20, 20}, 2, VERDICT_WARN},
        {BOUNDS, ACCEPT_HIGHER, {20.01, 20.01}, 2, VERDICT_FAIL},
        {NEAR, ACCEPT_HIGHER, {89, 89}, 2, VERDICT_FAIL},
        {NEAR, ACCEPT_HIGHER, {94, 94}, 2, VERDICT_WARN},
        {NEAR, ACCEPT_HIGHER, {500, 500}, 2, VERDICT_PASS},
        {NEAR, ACCEPT_LOWER, {111, 111}, 2, VERDICT_FAIL},
        {NEAR, ACCEPT_LOWER, {1, 1}, 2, VERDICT_PASS},
        {NEAR, ACCEPT_EVEN, {106, 106}, 2, VERDICT_WARN},
        {NEAR, ACCEPT_EVEN, {111, 111}, 2, VERDICT_FAIL},
        {NEAR, ACCEPT_EVEN, {89, 89}, 2, VERDICT_FAIL},
        {"'fleet_within': 10", ACCEPT_HIGHER, {1, 1}, 2, VERDICT_SKIP},
        {"'min': 10", ACCEPT_HIGHER, {0}, 0, VERDICT_MISSING},
        {"'min': 10", ACCEPT_HIGHER, {15}, 1, VERDICT_MISSING},
        {"'min': 10, 'absent': 'skip'", ACCEPT_HIGHER, {0}, 0, VERDICT_SKIP},
        {"'matches': '*'", ACCEPT_HIGHER, {15, 15}, 2, VERDICT_MISSING},
        {"'same': true", ACCEPT_EVEN, {15, 15}, 2, VERDICT_PASS},
        {"'same': true", ACCEPT_EVEN, {15, 15.000001}, 2, VERDICT_FAIL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct accept_result r = {.name = "a", .repeats = 2, .wanted = 2};
        for (int k = 0; k < rows[i].n; k++)
            expect_ok(accept_result_number(&r, "x", "GB/s", rows[i].better, rows[i].x[k]));
        if (judge(rows[i].limit, &r) != rows[i].want)
            fail_msg("row %zu: %g, limit %s", i, rows[i].x[0], rows[i].limit);
    }
}

static void test_texts(void **state)
{
    static const struct {
        const char *limit, *x[2];
        enum verdict want;
    } rows[] = {
        {"'matches': '535.*'", {"535.1", "535.2"}, VERDICT_PASS},
        {"'matches': '535.*'", {"535.1", "536.1"}, VERDICT_FAIL},
        {"'same': true", {"a", "a"}, VERDICT_PASS},
        {"'same': true", {"a", "b"}, VERDICT_FAIL},
        {LATER, {"535.104.05", "535.104.05"}, VERDICT_PASS},
        {LATER, {"550.9", "1000"}, VERDICT_PASS},
        {LATER, {"535.99.9", "550"}, VERDICT_FAIL},
        {LATER, {"none", "550"}, VERDICT_FAIL},
        {"'min': 1", {"1", "1"}, VERDICT_MISSING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct accept_result r = {.name = "a", .repeats = 2, .wanted = 2};
        for (int k = 0; k < 2; k++)
            expect_ok(accept_result_text(&r, "x", rows[i].x[k]));
        if (judge(rows[i].limit, &r) != rows[i].want)
            fail_msg("row %zu: %s, limit %s", i, rows[i].x[0], rows[i].limit);
    }
}

/* The reason names the place of the worst repeat. The place is still there after writing and
 * reading the result. A negative time of a check is refused: a burn-in would never end. */
static void test_place(void **state)
{
    static const double x[] = {60, 91, 91, 70};
    struct accept_spec s;
    struct accept_result r = {.name = "a", .kind = "memory", .level = 1, .repeats = 4}, back;
    char where[32], words[160];
    make_spec("'max': 65", &s);
    for (int i = 0; i < 4; i++) {
        expect_ok(accept_result_number(&r, "x", "C", ACCEPT_LOWER, x[i]));
        snprintf(where, sizeof where, "node7 cuda:%d", i);
        accept_metric_place(accept_metric_find(&r, "x"), where);
    }
    expect_ok(accept_judge(&s.check[1], &r));
    assert_string_equal(r.reason, "x: 80.5 is above 65; worst on node7 cuda:1");
    json_t *o = accept_result_json(&r);
    assert_non_null(o);
    expect_ok(accept_result_parse(o, &back));
    accept_spread_words(&back.metric[0], words, sizeof words);
    assert_string_equal(words, "60 to 91 in 4 repeats, worst on node7 cuda:1");
    accept_result_free(&back);
    json_object_set_new(o, "seconds", json_real(-1e9));
    assert_int_equal(accept_result_parse(o, &back), STATUS_DATA);
    json_decref(o);
    accept_result_free(&r);
    accept_spec_free(&s);
}

/* Other work took 63 % of two processors for ten seconds. */
static const struct host_noise busy = {.seconds = 10, .processors = 2, .others = 0.63};

/* Speeds measured beside other work neither pass nor fail; what does not depend on time is judged.
 * The verdict is the same after writing and reading, also if the record calls the check
 * undisturbed. */
static void test_disturbed(void **state)
{
    static const struct {
        const char *limit, *unit;
        double x;
        enum verdict want;
    } rows[] = {
        {"'min': 10", "GB/s", 5, VERDICT_MISSING},
        {"'min': 10", "GB/s", 15, VERDICT_MISSING},
        {"'max': 10", "ms", 15, VERDICT_MISSING},
        {"'fleet_within': 10", "images/s", 15, VERDICT_MISSING},
        {"'min': 0.9", "x", 1, VERDICT_MISSING},
        {"'max': 0", "", 0, VERDICT_PASS},
        {"'max': 0", "", 1, VERDICT_FAIL},
        {"'max': 80", "C", 90, VERDICT_FAIL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct accept_result back, r = {.name = "a", .level = 1, .repeats = 2, .noise = busy};
        struct accept_spec s;
        make_spec(rows[i].limit, &s);
        for (int k = 0; k < 2; k++)
            expect_ok(accept_result_number(&r, "x", rows[i].unit, ACCEPT_HIGHER, rows[i].x));
        expect_ok(accept_judge(&s.check[1], &r));
        if (r.verdict != rows[i].want || r.metric[0].verdict != rows[i].want)
            fail_msg("row %zu: %s", i, verdict_str(r.verdict));
        if (r.verdict == VERDICT_MISSING)
            assert_string_equal(r.reason, "disturbed: 63.0 % of the processors' time went to other "
                                          "processes; repeat on an idle node");
        json_t *o = accept_result_json(&r);
        json_object_set_new(json_object_get(o, "noise"), "disturbed", json_false());
        json_object_set_new(o, "verdict", json_string("PASS"));
        json_object_set_new(json_array_get(json_object_get(o, "metrics"), 0), "verdict",
                            json_string("PASS"));
        expect_ok(accept_result_parse(o, &back));
        assert_int_equal(back.verdict == VERDICT_MISSING, r.verdict == VERDICT_MISSING);
        json_decref(o);
        accept_result_free(&back);
        accept_result_free(&r);
        accept_spec_free(&s);
    }
}

/* A limit is one bound, and names its baseline. */
static void test_words(void **state)
{
    static const struct {
        const char *limit;
        enum accept_better better;
        const char *want;
    } rows[] = {
        {NEAR, ACCEPT_HIGHER,
         "at least 90 (baseline 100 less 10 %), warns beyond 5 % of baseline 100"},
        {"'baseline': 100, 'within': 10", ACCEPT_LOWER, "at most 110 (baseline 100 plus 10 %)"},
        {"'baseline': 100, 'within': 10", ACCEPT_EVEN, "90 to 110 (baseline 100, up to 10 % away)"},
        {"'fleet_within': 15", ACCEPT_HIGHER, "within 15 % of the fleet's median"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct accept_result r = {.name = "a", .repeats = 1};
        struct accept_spec s;
        make_spec(rows[i].limit, &s);
        expect_ok(accept_result_number(&r, "x", "GB/s", rows[i].better, 100));
        expect_ok(accept_judge(&s.check[1], &r));
        assert_string_equal(r.metric[0].limit, rows[i].want);
        accept_result_free(&r);
        accept_spec_free(&s);
    }
}

/* One node of the built-in spec shows that its links, slots and memory are good, and which is not.
 */
static void test_one_node(void **state)
{
    static const struct {
        const char *check, *metric, *unit;
        double good, bad;
    } rows[] = {
        {"peers", "staged", "", 0, 56}, /* NVLink without peer access */
        {"peers", "copy_0_1", "GB/s", 380, 55},
        {"allreduce", "busbw_268435456_out", "GB/s", 440, 40},
        {"allreduce", "busbw_268435456_in", "GB/s", 440, 40},
        {"memory.0", "h2d", "GB/s", 54, 25},
        {"memory.0", "d2h", "GB/s", 54, 25},
        {"facts", "max_pcie_generation", "", 5, 4},
        {"facts", "max_pcie_width", "", 16, 8},
        {"facts", "max_clock_mhz", "MHz", 1980, 1755},
        {"facts", "remapping_failed", "", 0, 1},
    };
    struct accept_spec s;
    expect_ok(accept_spec_load("h100", NULL, 0, &s));
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct accept_check *check = s.check;
        while (strcmp(check->name, rows[i].check) != 0)
            assert_true(++check < s.check + s.n_checks);
        for (int bad = 0; bad < 2; bad++) {
            struct accept_result r = {.repeats = 1};
            expect_ok(accept_result_number(&r, rows[i].metric, rows[i].unit, ACCEPT_HIGHER,
                                           bad ? rows[i].bad : rows[i].good));
            expect_ok(accept_judge(check, &r));
            if (r.metric[0].verdict != (bad ? VERDICT_FAIL : VERDICT_PASS))
                fail_msg("%s is %s", rows[i].metric, verdict_str(r.metric[0].verdict));
            assert_true(*r.metric[0].source);
            accept_result_free(&r);
        }
    }
    accept_spec_free(&s);
}

static void test_exit_codes(void **state)
{
    static const struct {
        enum verdict v[2];
        int code, strict_code;
    } rows[] = {
        {{VERDICT_PASS, VERDICT_WARN}, 0, 4},    {{VERDICT_PASS, VERDICT_SKIP}, 0, 0},
        {{VERDICT_SKIP, VERDICT_SKIP}, 5, 5},    {{VERDICT_PASS, VERDICT_MISSING}, 5, 5},
        {{VERDICT_MISSING, VERDICT_FAIL}, 4, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int count[VERDICTS] = {0};
        for (int k = 0; k < 2; k++)
            count[rows[i].v[k]]++;
        assert_int_equal(verdict_exit_code(count, false), rows[i].code);
        assert_int_equal(verdict_exit_code(count, true), rows[i].strict_code);
    }
}

/* A report is the same after it was written and read. Its page and its XML escape text. A metric
 * has either numbers or texts, and a name without control characters. */
static void test_files(void **state)
{
    static const char *const want[][2] = {
        {"accept.html", "&amp; &lt;b&gt;"},
        {"accept.xml", "n&lt;1&gt;"},
        {"accept.xml", "disturbed: 63.0 %"},
        {"accept.html", "disturbed: 63.0 %"},
        {"accept.md", "disturbed: 63.0 %"},
        {"accept.xml", "tests=\"1\" failures=\"1\" errors=\"0\""}};
    struct accept_result c = {
        .name = "c", .level = 1, .repeats = 1, .wanted = 1, .reason = "a & <b>"};
    struct accept_report r = {
        .spec = "made", .node = "n<1>", .level = 1, .n_checks = 1, .check = &c};
    struct accept_report back;
    size_t size;
    c.ended = c.verdict = VERDICT_FAIL;
    c.noise = busy;
    r.count[VERDICT_FAIL] = 1;
    expect_ok(accept_result_number(&c, "x", "GB/s", ACCEPT_HIGHER, 1.1));
    expect_ok(accept_result_text(&c, "y\n", "text"));
    assert_int_equal(accept_result_text(&c, "x", "text"), STATUS_DATA);
    assert_int_equal(accept_result_number(&c, "y\n", "", ACCEPT_EVEN, 1), STATUS_DATA);
    expect_ok(accept_write(&r, false, *state));
    expect_ok(accept_report_load(*state, &back));
    assert_int_equal(back.n_checks, 1);
    assert_int_equal(back.count[VERDICT_FAIL], 1);
    assert_string_equal(back.check[0].reason, c.reason);
    assert_true(back.check[0].metric[0].number[0] == 1.1);
    assert_string_equal(accept_metric_find(&back.check[0], "y?")->text[0], "text");
    accept_report_free(&back);
    accept_result_free(&c);
    for (int i = 0; i < COUNT(want); i++) {
        char *text = scratch_read(*state, want[i][0], &size);
        assert_non_null(strstr(text, want[i][1]));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_texts),
        cmocka_unit_test(test_place),     cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_disturbed), cmocka_unit_test(test_words),
        cmocka_unit_test(test_one_node),  IN_FOLDER(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
