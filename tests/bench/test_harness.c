/* Tests when the harness stops, and the statistics that it computes from the samples. */
#include "bench/harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Samples in a fixed order, and the number of samples taken. */
struct script {
    const double *x;
    int n, taken;
};

static enum status next(void *context, double *seconds)
{
    struct script *s = context;
    if (s->taken == s->n)
        return status_fail(STATUS_IO, "no more samples");
    *seconds = s->x[s->taken++];
    return STATUS_OK;
}

static void test_interval(void **state)
{
    (void)state;
    double x[1000], low, high;
    for (int i = 0; i < 1000; i++)
        x[i] = i + 1;
    assert_false(harness_interval(x, 1, &low, &high));
    assert_true(low == 1 && high == 1);
    assert_false(harness_interval(x, 5, &low, &high));
    assert_true(low == 1 && high == 5);
    /* From a published table: the 95 % interval of the median of n samples reaches from the
     * `low`-th smallest to the `high`-th smallest sample. */
    static const struct {
        int n, low, high;
    } known[] = {{6, 1, 6},   {8, 1, 8},   {9, 2, 8},    {10, 2, 9},   {15, 4, 12},
                 {20, 6, 15}, {25, 8, 18}, {50, 18, 33}, {100, 40, 61}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(harness_interval(x, known[i].n, &low, &high));
        assert_true(low == known[i].low && high == known[i].high);
    }
    /* By the normal approximation, the lower end is 500 - 0.98 sqrt(1000). */
    assert_true(harness_interval(x, 1000, &low, &high));
    assert_true(fabs(low - 469) <= 1 && high == 1001 - low);
}

static void test_narrow(void **state)
{
    (void)state;
    static const double x[] = {9, 9, 1, 1, 1, 1, 1, 1, 1, 1};
    struct script s = {x, 10, 0};
    struct harness_config c = {.warmup = 2, .most = 100, .within = 0.01};
    struct harness_result r;
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_OK);
    assert_int_equal(s.taken, 8); /* 2 samples of warm-up and 6 that count */
    assert_true(r.n == 6 && r.narrow && r.median == 1 && r.p95 == 1);
}

static void test_count(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct script s = {x, 10, 0};
    struct harness_config c = {.most = 9, .within = 0.01};
    struct harness_result r;
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_OK);
    assert_int_equal(s.taken, 9);
    assert_true(r.n == 9 && !r.narrow && r.min == 1 && r.median == 5);
    assert_true(r.low == 2 && r.high == 8 && r.p5 == 1.4 && r.p95 == 8.6);
    s = (struct script){x, 10, 0};
    c.most = 1;
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_OK);
    assert_true(r.n == 1 && r.median == 1 && !r.narrow);
}

static void test_time(void **state)
{
    (void)state;
    static const double x[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct script s = {x, 10, 0};
    struct harness_config c = {.most = 100, .seconds = 3};
    struct harness_result r;
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_OK);
    assert_int_equal(s.taken, 3);
    /* If the width of the interval has no limit, the harness does not stop early. */
    s = (struct script){x, 10, 0};
    c = (struct harness_config){.most = 10};
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_OK);
    assert_int_equal(r.n, 10);
}

static void test_failures(void **state)
{
    (void)state;
    static const double x[] = {1, NAN, 1};
    struct script s = {x, 1, 0};
    struct harness_config c = {.most = 3};
    struct harness_result r;
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_IO);
    s = (struct script){x, 3, 0};
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval), cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_count),    cmocka_unit_test(test_time),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
