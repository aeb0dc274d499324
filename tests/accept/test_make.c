/* Tests limits made from results: outliers, few values, and whole folders. */
#include "../results/scratch.h"
#include "accept/accept_judge.h"
#include "accept/accept_make.h"
#include "accept/accept_report.h"
#include "base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void take(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", status_message());
}

static struct accept_made make(const double *values, int n, enum accept_better better)
{
    double x[16];
    struct accept_made m;
    memcpy(x, values, (size_t)n * sizeof *x);
    take(accept_make_limit(x, n, better, &m));
    return m;
}

static void test_alike(void **state)
{
    (void)state;
    const double x[] = {100, 100.1, 99.9, 100.05, 99.95};
    struct accept_made m = make(x, 5, ACCEPT_HIGHER);
    assert_int_equal(m.n, 5);
    assert_true(m.baseline == 100 && m.within == 0.03);
    m = make(x, 4, ACCEPT_HIGHER); /* with fewer than 5 values, bounds are twice as wide */
    assert_true(m.within == 0.06);
}

static void test_scattered(void **state)
{
    (void)state;
    const double x[] = {90, 95, 100, 105, 110};
    struct accept_made m = make(x, 5, ACCEPT_HIGHER);
    assert_int_equal(m.n, 5);
    assert_true(fabs(m.within - 5 * 1.4826 * 5 / 100) < 1e-12);
}

static void test_dropped(void **state)
{
    (void)state;
    const double x[] = {100, 100.1, 60, 99.9, 100.05, 99.95, 95};
    struct accept_made m = make(x, 7, ACCEPT_HIGHER);
    assert_int_equal(m.n, 5);
    assert_int_equal(m.dropped, 2);
    assert_true(m.baseline == 100);
    /* A value that is better than the rest is not dropped. */
    m = make(x, 7, ACCEPT_LOWER);
    assert_int_equal(m.dropped, 0);
    m = make(x, 7, ACCEPT_EVEN);
    assert_int_equal(m.dropped, 2);
    const double zero[] = {0, 0, 0, 0, 0};
    assert_true(isnan(make(zero, 5, ACCEPT_LOWER).baseline));
}

static const char spec_text[] =
    "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": \"cpu\", "
    "\"hardware\": [\"*\"], \"checks\": [{\"name\": \"a\", \"kind\": \"memory\", \"level\": 1, "
    "\"seconds\": 1, \"limit_s\": 9, \"limits\": {\"c*\": {\"fleet_within\": 5}, \"wrong\": "
    "{\"max\": 0}, \"bits\": {\"same\": true}}}]}";

/* Writes the results of a node whose "copy" has this value. */
static void make_folder(const char *dir, int i, double copy)
{
    char path[SCRATCH_MAX + 16];
    struct accept_result check = {
        .name = "a", .kind = "memory", .level = 1, .device = -1, .repeats = 1, .wanted = 1};
    struct accept_report r = {.level = 1, .n_checks = 1, .check = &check};
    take(accept_result_number(&check, "copy", "GB/s", ACCEPT_HIGHER, copy));
    take(accept_result_number(&check, "scale", "GB/s", ACCEPT_HIGHER, copy));
    take(accept_result_number(&check, "wrong", "", ACCEPT_LOWER, 0));
    take(accept_result_text(&check, "bits", "c0ffee"));
    snprintf(path, sizeof path, "%s/n%d", dir, i);
    take(dir_make(path));
    take(accept_write(&r, false, path));
    scratch_write(path, "spec.json", spec_text, sizeof spec_text - 1);
    accept_result_free(&check);
}

static enum verdict judge(const struct accept_spec *s, double copy)
{
    struct accept_result r = {.name = "a", .repeats = 2, .wanted = 2};
    for (int i = 0; i < 2; i++) {
        take(accept_result_number(&r, "copy", "GB/s", ACCEPT_HIGHER, copy));
        take(accept_result_number(&r, "wrong", "", ACCEPT_LOWER, 0));
        take(accept_result_text(&r, "bits", "c0ffee"));
    }
    take(accept_judge(&s->check[1], &r));
    enum verdict v = r.verdict;
    accept_result_free(&r);
    return v;
}

static void test_folders(void **state)
{
    (void)state;
    enum { NODES = 7 };
    static const double copy[NODES] = {100, 101, 99, 100.5, 99.5, 100, 50};
    char dir[SCRATCH_MAX], path[NODES][SCRATCH_MAX + 16], said[512] = "";
    const char *paths[NODES];
    json_t *json;
    struct accept_spec s;
    scratch_make(dir);
    for (int i = 0; i < NODES; i++) {
        make_folder(dir, i, copy[i]);
        snprintf(path[i], sizeof path[i], "%s/n%d", dir, i);
        paths[i] = path[i];
    }
    FILE *out = fmemopen(said, sizeof said, "w");
    assert_non_null(out);
    take(accept_make_spec(paths, NODES, out, &json));
    fclose(out);
    assert_non_null(strstr(said, "a.copy: 1 of 7 values were left out"));
    assert_null(strstr(said, "scale"));
    char *text = json_dumps(json, JSON_REAL_PRECISION(6));
    take(accept_spec_parse(text, strlen(text), "made", 0, &s));
    assert_true(accept_limit_for(&s.check[1], "copy")->baseline == 100);
    assert_true(accept_limit_for(&s.check[1], "wrong")->max == 0);
    assert_string_equal(accept_limit_for(&s.check[1], "bits")->matches, "c0ffee");
    assert_int_equal(judge(&s, 99), VERDICT_PASS);
    assert_int_equal(judge(&s, 97.2), VERDICT_WARN);
    assert_int_equal(judge(&s, 90), VERDICT_FAIL);
    accept_spec_free(&s);
    free(text);
    json_decref(json);

    /* Folders with results of different specs, and a folder without results, are refused. */
    scratch_write(path[1], "spec.json", "{}", 2);
    assert_int_equal(accept_make_spec(paths, NODES, NULL, &json), STATUS_DATA);
    scratch_remove(path[1]);
    assert_int_equal(accept_make_spec(paths, NODES, NULL, &json), STATUS_DATA);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_scattered),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
