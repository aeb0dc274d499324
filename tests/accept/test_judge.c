/* Tests verdicts and exit codes, and writes and reads results as JSON. */
#include "../results/scratch.h"
#include "accept/accept_judge.h"
#include "accept/accept_report.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Makes a spec with one check of two repeats, whose metric "x" has the given limit. */
static void make_spec(const char *limit, struct accept_spec *s)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\", "
             "\"hardware\": [\"*\"], \"checks\": [{\"name\": \"a\", \"kind\": \"memory\", "
             "\"level\": 1, \"repeats\": 2, \"seconds\": 1, \"limit_s\": 9, \"limits\": {%s}}]}",
             limit);
    if (accept_spec_parse(text, strlen(text), "made", 0, s) != STATUS_OK)
        fail_msg("%s", status_message());
}

static void take(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", status_message());
}

/* Returns the verdict of "x", measured in n repeats. The verdict of its check must be the same. */
static enum verdict judge_n(const char *limit, enum accept_better better, const double *x, int n)
{
    struct accept_spec s;
    struct accept_result r = {.name = "a", .repeats = 2, .wanted = 2};
    make_spec(limit, &s);
    for (int i = 0; i < n; i++)
        take(accept_result_number(&r, "x", "GB/s", better, x[i]));
    take(accept_judge(&s.check[1], &r));
    enum verdict v = accept_metric_find(&r, "x")->verdict;
    assert_int_equal(v, r.verdict);
    assert_true(v == VERDICT_PASS || *r.reason);
    accept_result_free(&r);
    accept_spec_free(&s);
    return v;
}

static enum verdict judge(const char *limit, enum accept_better better, double x)
{
    const double twice[] = {x, x};
    return judge_n(limit, better, twice, 2);
}

static void test_bounds(void **state)
{
    (void)state;
    static const char bounds[] =
        "\"x\": {\"min\": 10, \"warn_min\": 12, \"warn_max\": 18, \"max\": 20}";
    assert_int_equal(judge(bounds, ACCEPT_HIGHER, 9.99), VERDICT_FAIL);
    assert_int_equal(judge(bounds, ACCEPT_HIGHER, 10), VERDICT_WARN);
    assert_int_equal(judge(bounds, ACCEPT_HIGHER, 12), VERDICT_PASS);
    assert_int_equal(judge(bounds, ACCEPT_HIGHER, 18), VERDICT_PASS);
    assert_int_equal(judge(bounds, ACCEPT_HIGHER, 20), VERDICT_WARN);
    assert_int_equal(judge(bounds, ACCEPT_HIGHER, 20.01), VERDICT_FAIL);
}

static void test_baseline(void **state)
{
    (void)state;
    static const char near[] = "\"x\": {\"baseline\": 100, \"within\": 10, \"warn_within\": 5}";
    assert_int_equal(judge(near, ACCEPT_HIGHER, 89), VERDICT_FAIL);
    assert_int_equal(judge(near, ACCEPT_HIGHER, 94), VERDICT_WARN);
    assert_int_equal(judge(near, ACCEPT_HIGHER, 500), VERDICT_PASS);
    assert_int_equal(judge(near, ACCEPT_LOWER, 111), VERDICT_FAIL);
    assert_int_equal(judge(near, ACCEPT_LOWER, 1), VERDICT_PASS);
    assert_int_equal(judge(near, ACCEPT_EVEN, 111), VERDICT_FAIL);
    assert_int_equal(judge(near, ACCEPT_EVEN, 89), VERDICT_FAIL);
    assert_int_equal(judge(near, ACCEPT_EVEN, 106), VERDICT_WARN);
}

static void test_fleet(void **state)
{
    (void)state;
    static const char near[] = "\"x\": {\"fleet_within\": 10, \"fleet_warn_within\": 5}";
    assert_int_equal(judge(near, ACCEPT_HIGHER, 1), VERDICT_SKIP);
}

static void test_missing(void **state)
{
    (void)state;
    const double once[] = {15};
    assert_int_equal(judge_n("\"x\": {\"min\": 10}", ACCEPT_HIGHER, once, 0), VERDICT_MISSING);
    assert_int_equal(judge_n("\"x\": {\"min\": 10}", ACCEPT_HIGHER, once, 1), VERDICT_MISSING);
    assert_int_equal(judge_n("\"x\": {\"min\": 10, \"absent\": \"skip\"}", ACCEPT_HIGHER, once, 0),
                     VERDICT_SKIP);
    assert_int_equal(judge("\"x\": {\"min\": 10}", ACCEPT_HIGHER, 15), VERDICT_PASS);
    /* A number does not match a limit for text. */
    assert_int_equal(judge("\"x\": {\"matches\": \"*\"}", ACCEPT_HIGHER, 15), VERDICT_MISSING);
    assert_int_equal(judge("\"x\": {\"same\": true, \"matches\": \"*\"}", ACCEPT_HIGHER, 15),
                     VERDICT_MISSING);
}

static void test_same(void **state)
{
    (void)state;
    const double alike[] = {15, 15}, apart[] = {15, 15.000001};
    assert_int_equal(judge_n("\"x\": {\"same\": true}", ACCEPT_EVEN, alike, 2), VERDICT_PASS);
    assert_int_equal(judge_n("\"x\": {\"same\": true}", ACCEPT_EVEN, apart, 2), VERDICT_FAIL);
}

static enum verdict judge_text(const char *limit, const char *a, const char *b)
{
    struct accept_spec s;
    struct accept_result r = {.name = "a", .repeats = 2, .wanted = 2};
    make_spec(limit, &s);
    take(accept_result_text(&r, "x", a));
    take(accept_result_text(&r, "x", b));
    take(accept_judge(&s.check[1], &r));
    enum verdict v = r.verdict;
    accept_result_free(&r);
    accept_spec_free(&s);
    return v;
}

static void test_text(void **state)
{
    (void)state;
    assert_int_equal(judge_text("\"x\": {\"matches\": \"535.*\"}", "535.1", "535.2"), VERDICT_PASS);
    assert_int_equal(judge_text("\"x\": {\"matches\": \"535.*\"}", "535.1", "536.1"), VERDICT_FAIL);
    assert_int_equal(judge_text("\"x\": {\"same\": true}", "a", "a"), VERDICT_PASS);
    assert_int_equal(judge_text("\"x\": {\"same\": true}", "a", "b"), VERDICT_FAIL);
    static const char later[] = "\"x\": {\"at_least\": \"535.104.5\"}";
    assert_int_equal(judge_text(later, "535.104.05", "535.104.05"), VERDICT_PASS);
    assert_int_equal(judge_text(later, "550.9", "1000"), VERDICT_PASS);
    assert_int_equal(judge_text(later, "535.99.9", "550"), VERDICT_FAIL);
    assert_int_equal(judge_text(later, "none", "550"), VERDICT_FAIL);
    assert_int_equal(judge_text("\"x\": {\"min\": 1}", "1", "1"), VERDICT_MISSING);
    assert_int_equal(judge_text("\"x\": {\"same\": true, \"min\": 1}", "1", "1"), VERDICT_MISSING);
}

/* A metric has either numbers or texts. Control characters in a metric's name are replaced when the
 * metric is stored. It is found by its new name. */
static void test_not_alike(void **state)
{
    (void)state;
    struct accept_result r = {.name = "a"};
    take(accept_result_text(&r, "x", "fast"));
    take(accept_result_number(&r, "y\n", "", ACCEPT_EVEN, 1));
    assert_int_equal(accept_result_number(&r, "x", "", ACCEPT_EVEN, 1), STATUS_DATA);
    assert_int_equal(accept_result_text(&r, "y\n", "slow"), STATUS_DATA);
    take(accept_result_number(&r, "y\n", "", ACCEPT_EVEN, 2));
    assert_int_equal(r.n_metrics, 2);
    assert_int_equal(accept_metric_find(&r, "x")->n, 1);
    assert_int_equal(accept_metric_find(&r, "y?")->n, 2);
    accept_result_free(&r);
}

/* The reason names the place of the worst repeat. The place is still there after writing and
 * reading the result. */
static void test_place(void **state)
{
    (void)state;
    const double x[] = {60, 91, 91, 70};
    struct accept_spec s;
    struct accept_result r = {.name = "a", .kind = "memory", .level = 1, .repeats = 4}, back;
    char where[32], words[160];
    make_spec("\"x\": {\"max\": 65}", &s);
    for (int i = 0; i < 4; i++) {
        take(accept_result_number(&r, "x", "C", ACCEPT_LOWER, x[i]));
        snprintf(where, sizeof where, "node7 cuda:%d", i);
        accept_metric_place(accept_metric_find(&r, "x"), where);
    }
    take(accept_judge(&s.check[1], &r));
    assert_int_equal(r.verdict, VERDICT_FAIL);
    assert_string_equal(r.reason, "x: 80.5 is above 65; worst on node7 cuda:1");
    json_t *o = accept_result_json(&r);
    assert_non_null(o);
    take(accept_result_parse(o, &back));
    json_decref(o);
    accept_spread_words(&back.metric[0], words, sizeof words);
    assert_string_equal(words, "60 to 91 in 4 repeats, worst on node7 cuda:1");
    accept_result_free(&back);
    accept_result_free(&r);
    accept_spec_free(&s);
}

/* A burn-in runs until its time is over, so a negative time is refused. */
static void test_seconds(void **state)
{
    (void)state;
    struct accept_result r = {.name = "a", .kind = "memory", .level = 1, .device = -1}, back;
    r.seconds = -1e9;
    json_t *o = accept_result_json(&r);
    assert_non_null(o);
    assert_int_equal(accept_result_parse(o, &back), STATUS_DATA);
    json_object_set_new(o, "seconds", json_real(1));
    take(accept_result_parse(o, &back));
    accept_result_free(&back);
    json_decref(o);
}

/* Makes a report of n checks with the verdicts `ended`. Each check has two metrics. */
static void make_report(const enum verdict *ended, int n, struct accept_report *r)
{
    *r = (struct accept_report){.spec = "made",
                                .node = "n<1>",
                                .level = 1,
                                .n_checks = n,
                                .check = calloc((size_t)n, sizeof *r->check)};
    assert_non_null(r->check);
    for (int i = 0; i < n; i++) {
        struct accept_result *c = &r->check[i];
        snprintf(c->name, sizeof c->name, "c%d", i);
        snprintf(c->reason, sizeof c->reason, "\"a\" & <b>");
        c->level = c->repeats = c->wanted = 1;
        c->ended = c->verdict = ended[i];
        take(accept_result_number(c, "x", "GB/s", ACCEPT_HIGHER, 0.1 + i));
        take(accept_result_text(c, "y", "text"));
        r->count[ended[i]]++;
    }
}

static void expect_exit(enum verdict a, enum verdict b, int code, int strict_code)
{
    const enum verdict v[] = {a, b};
    struct accept_report r;
    make_report(v, 2, &r);
    assert_int_equal(verdict_exit_code(r.count, false), code);
    assert_int_equal(verdict_exit_code(r.count, true), strict_code);
    accept_report_free(&r);
}

static void test_exit_codes(void **state)
{
    (void)state;
    expect_exit(VERDICT_PASS, VERDICT_PASS, 0, 0);
    expect_exit(VERDICT_PASS, VERDICT_WARN, 0, 4);
    expect_exit(VERDICT_PASS, VERDICT_SKIP, 0, 0);
    expect_exit(VERDICT_SKIP, VERDICT_SKIP, 5, 5); /* nothing passed */
    expect_exit(VERDICT_PASS, VERDICT_MISSING, 5, 5);
    expect_exit(VERDICT_MISSING, VERDICT_FAIL, 4, 4);
    expect_exit(VERDICT_PASS, VERDICT_FAIL, 4, 4);
}

/* If the report lacks a check of the spec, this check gets the verdict MISSING. */
static void test_not_run(void **state)
{
    (void)state;
    struct accept_spec s;
    struct accept_report r = {.level = 1};
    make_spec("\"x\": {\"min\": 1}", &s);
    take(accept_judge_report(&s, &r));
    assert_int_equal(r.n_checks, 2);
    assert_int_equal(r.count[VERDICT_MISSING], 2);
    assert_int_equal(verdict_exit_code(r.count, false), 5);
    accept_report_free(&r);
    accept_spec_free(&s);
}

static void test_round_trip(void **state)
{
    (void)state;
    const enum verdict v[] = {VERDICT_PASS, VERDICT_FAIL};
    struct accept_report r, back;
    make_report(v, 2, &r);
    json_t *o = accept_report_json(&r);
    assert_non_null(o);
    char *text = json_dumps(o, JSON_REAL_PRECISION(17));
    json_t *read = json_loads(text, 0, NULL);
    take(accept_report_parse(read, &back));
    assert_int_equal(back.n_checks, 2);
    assert_int_equal(back.count[VERDICT_FAIL], 1);
    assert_string_equal(back.check[1].reason, r.check[1].reason);
    assert_true(back.check[1].metric[0].number[0] == 1.1);
    assert_string_equal(back.check[1].metric[1].text[0], "text");
    accept_report_free(&back);
    json_decref(read);
    /* Damaged reports are refused or parsed, without a crash. */
    size_t size = strlen(text);
    for (uint64_t i = 0; i < 400; i++) {
        struct rng g = rng_at(2, RNG_TEST, i, 0);
        char *copy = strdup(text);
        assert_non_null(copy);
        copy[rng_below(&g, (uint32_t)size)] = (char)rng_u32(&g);
        read = json_loadb(copy, size, 0, NULL);
        if (read && accept_report_parse(read, &back) == STATUS_OK)
            accept_report_free(&back);
        json_decref(read);
        free(copy);
    }
    free(text);
    json_decref(o);
    accept_report_free(&r);
}

static void test_files(void **state)
{
    (void)state;
    const enum verdict v[] = {VERDICT_PASS, VERDICT_FAIL, VERDICT_MISSING, VERDICT_SKIP};
    char dir[SCRATCH_MAX];
    size_t size;
    struct accept_report r, back;
    scratch_make(dir);
    make_report(v, 4, &r);
    take(accept_write(&r, false, dir));
    take(accept_report_load(dir, &back));
    assert_int_equal(back.n_checks, 4);
    char *html = scratch_read(dir, "accept.html", &size);
    assert_null(strstr(html, "<b>"));
    assert_non_null(strstr(html, "&lt;b&gt;"));
    char *xml = scratch_read(dir, "accept.xml", &size);
    assert_non_null(strstr(xml, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""));
    free(html);
    free(xml);
    accept_report_free(&back);
    accept_report_free(&r);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),  cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_fleet),   cmocka_unit_test(test_missing),
        cmocka_unit_test(test_same),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_not_run), cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_files),   cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_seconds), cmocka_unit_test(test_not_alike),
        cmocka_unit_test(test_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
