/* Tests limits made from results: outliers, few values, and whole folders. */
#include "accept/accept_judge.h"
#include "accept/accept_make.h"
#include "base/file.h"
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 7 };

/* With fewer than five values, bounds are twice as wide. Outliers are dropped, but not values that
 * are better than the rest. */
static void test_limits(void **state)
{
    static const struct {
        double x[NODES];
        int n;
        enum accept_better better;
        int dropped;
        double baseline, within; /* NAN: any */
    } rows[] = {
        {{100, 100.1, 99.9, 100.05, 99.95}, 5, ACCEPT_HIGHER, 0, 100, 0.03},
        {{100, 100.1, 99.9, 100.05}, 4, ACCEPT_HIGHER, 0, NAN, 0.06},
        {{90, 95, 100, 105, 110}, 5, ACCEPT_HIGHER, 0, 100, 5 * 1.4826 * 5 / 100},
        {{100, 100.1, 60, 99.9, 100.05, 99.95, 95}, 7, ACCEPT_HIGHER, 2, 100, NAN},
        {{100, 100.1, 60, 99.9, 100.05, 99.95, 95}, 7, ACCEPT_LOWER, 0, NAN, NAN},
        {{100, 100.1, 60, 99.9, 100.05, 99.95, 95}, 7, ACCEPT_EVEN, 2, NAN, NAN},
    };
    double zero[5] = {0};
    struct accept_made m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double x[NODES];
        memcpy(x, rows[i].x, sizeof x);
        expect_ok(accept_make_limit(x, rows[i].n, rows[i].better, &m));
        assert_int_equal(m.n, rows[i].n - rows[i].dropped);
        assert_int_equal(m.dropped, rows[i].dropped);
        assert_true(isnan(rows[i].baseline) || m.baseline == rows[i].baseline);
        assert_true(isnan(rows[i].within) || fabs(m.within - rows[i].within) < 1e-12);
    }
    expect_ok(accept_make_limit(zero, 5, ACCEPT_LOWER, &m));
    assert_true(isnan(m.baseline));
}

/* Writes the results of a node whose "copy" has this value, measured beside other work that took
 * the share `others` of the processors' time. */
static void make_folder(const char *dir, double copy, double others)
{
    struct accept_spec spec;
    struct accept_result check = {
        .name = "a", .kind = "memory", .level = 1, .device = -1, .repeats = 1, .wanted = 1};
    check.noise = (struct host_noise){.seconds = 10, .processors = 2, .others = others};
    struct accept_report r = {.spec = "made", .level = 1, .n_checks = 1, .check = &check};
    spec_take(SPEC("cpu", MADE_CHECK("a", "memory",
                                     ", 'limits': {'c*': {'fleet_within': 5}, 'wrong': {'max': 0}, "
                                     "'bits': {'same': true}}")),
              &spec);
    expect_ok(accept_result_number(&check, "copy", "GB/s", ACCEPT_HIGHER, copy));
    expect_ok(accept_result_number(&check, "scale", "GB/s", ACCEPT_HIGHER, copy));
    expect_ok(accept_result_number(&check, "wrong", "", ACCEPT_LOWER, 0));
    expect_ok(accept_result_text(&check, "bits", "c0ffee"));
    expect_ok(accept_judge(&spec.check[1], &check));
    expect_ok(dir_make(dir));
    expect_ok(accept_write(&r, false, dir));
    assert_int_equal(json_dump_file(spec.json, scratch_path(dir, "spec.json"), 0), 0);
    accept_result_free(&check);
    accept_spec_free(&spec);
}

static void test_folders(void **state)
{
    static const double copy[NODES] = {100, 101, 99, 100.5, 99.5, 100, 50};
    char path[NODES][SCRATCH_MAX + 16], said[512] = "";
    const char *paths[NODES];
    json_t *json;
    struct accept_spec s;
    for (int i = 0; i < NODES; i++) {
        snprintf(path[i], sizeof path[i], "%s/n%d", (char *)*state, i);
        make_folder(path[i], copy[i], 0.02);
        paths[i] = path[i];
    }
    FILE *out = fmemopen(said, sizeof said, "w");
    assert_non_null(out);
    expect_ok(accept_make_spec(paths, NODES, out, &json));
    fclose(out);
    assert_non_null(strstr(said, "a.copy: 1 of 7 values were left out"));
    assert_null(strstr(said, "a.scale"));
    char *text = json_dumps(json, JSON_REAL_PRECISION(6));
    spec_take(text, &s);
    assert_true(accept_limit_for(&s.check[1], "copy")->baseline == 100);
    assert_true(accept_limit_for(&s.check[1], "wrong")->max == 0);
    assert_string_equal(accept_limit_for(&s.check[1], "bits")->matches, "c0ffee");
    accept_spec_free(&s);
    free(text);
    json_decref(json);
    expect_ok(dir_remove(path[1]));
    make_folder(path[1], 100, 0.63);
    expect_failed(accept_make_spec(paths, NODES, stderr, &json), STATUS_DATA,
                  "n1' makes no limits: check 'a' was disturbed: 63.0 %");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        IN_FOLDER(test_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
