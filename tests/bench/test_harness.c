/* Tests when the harness stops, and the statistics that it computes from the samples. */
#include "bench/harness.h"
#include "tests/unit.h"

#include <math.h>

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

/* When the harness stops: at the wanted width of the interval, at the most samples, or when the
 * time is over. Without a wanted width it does not stop early. */
static void test_stops(void **state)
{
    static const struct {
        double x[10];
        struct harness_config c;
        int taken;
        double median, low, high, p5, p95;
    } cases[] = {
        {{9, 9, 1, 1, 1, 1, 1, 1}, {.warmup = 2, .most = 100, .within = 0.01}, 8, 1, 1, 1, 1, 1},
        {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {.most = 9, .within = 0.01}, 9, 5, 2, 8, 1.4, 8.6},
        {{1, 2, 3}, {.most = 1, .within = 0.01}, 1, 1, 1, 1, 1, 1},
        {{1, 1, 1, 1, 1}, {.most = 100, .seconds = 3}, 3, 1, 1, 1, 1, 1},
        {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {.most = 10}, 10, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script s = {cases[i].x, 10, 0};
        struct harness_result r;
        assert_int_equal(harness_run(&cases[i].c, next, &s, &r), STATUS_OK);
        assert_int_equal(s.taken, cases[i].taken);
        assert_int_equal(r.n, cases[i].taken - cases[i].c.warmup);
        assert_true(cases[i].c.within == 0 || r.narrow == (i == 0));
        assert_true(r.min == 1 && r.median == cases[i].median);
        assert_true(r.low == cases[i].low && r.high == cases[i].high);
        assert_true(r.p5 == cases[i].p5 && r.p95 == cases[i].p95);
    }
}

static void test_failures(void **state)
{
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
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
