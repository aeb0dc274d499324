/* The rank test compared with SciPy's numbers, and the bootstrap compared with known results. */
#include "base/stats.h"
#include "compare/significance.h"
#include "made.h"
#include "tests/unit.h"

#include <math.h>

/* Checks p and the U of x, in both orders of the samples. */
static void expect_test(const double *x, int64_t n, const double *y, int64_t m, double u, double p,
                        bool exact)
{
    struct rank_test t;
    expect_ok(mann_whitney(x, n, y, m, &t));
    expect_near(t.statistic, u, 0);
    expect_near(t.p, p, 1e-12);
    assert_int_equal(t.exact, exact);
    expect_ok(mann_whitney(y, m, x, n, &t));
    expect_near(t.statistic, (double)(n * m) - u, 0);
    expect_near(t.p, p, 1e-12);
}

/* scipy.stats.mannwhitneyu(x, y, alternative="two-sided", method="exact"), SciPy 1.17 */
static void test_exact(void **state)
{
    const double a[] = {101, 102.5, 99, 103, 100.5}, b[] = {95, 96.5, 97, 94, 98.5};
    const double e[] = {19, 22, 16, 29, 24}, f[] = {20, 11, 17, 12};
    double g[20], h[20];
    for (int i = 0; i < 20; i++) {
        g[i] = i * 7 % 31 + 0.5;
        h[i] = i * 11 % 29 + 4.25;
    }
    expect_test(a, COUNT(a), b, COUNT(b), 25, 0.007936507936507936, true);
    expect_test(e, COUNT(e), f, COUNT(f), 17, 0.1111111111111111, true);
    expect_test(g, COUNT(g), h, COUNT(h), 161, 0.30125263881127884, true);
}

/* p is exact although there are ties: it is the fraction of all divisions of the values into two
 * samples whose U is at least as far from the middle of its range. For a and b, these are 784 of
 * 6435 divisions. For c and d all are, because no division has a U nearer to the middle. */
static void test_ties(void **state)
{
    const double a[] = {1, 2, 2, 3, 4, 5, 5, 6}, b[] = {2, 3, 5, 5, 7, 8, 9};
    const double c[] = {5, 5, 5, 5, 6}, d[] = {5, 5, 5, 6, 6}, e[] = {5, 5, 5, 5, 5, 5};
    expect_test(a, COUNT(a), b, COUNT(b), 14.5, 784.0 / 6435, true);
    expect_test(c, COUNT(c), d, COUNT(d), 10, 1, true);
    expect_test(e, COUNT(e), e, COUNT(e), 18, 1, true);
}

/* The first p is SciPy's with method="asymptotic", use_continuity=True. The second follows from
 * Lehmann's formula: U is 310 of 961 pairs, and the 62 values are 51 fives and 11 sixes. */
static void test_normal(void **state)
{
    double g[60], h[55], x[31], y[31];
    for (int i = 0; i < 60; i++)
        g[i] = i * 37 % 101 + 0.5;
    for (int i = 0; i < 55; i++)
        h[i] = i * 53 % 103 + 12.25;
    for (int i = 0; i < 31; i++) {
        x[i] = 5;
        y[i] = i < 20 ? 5 : 6;
    }
    double variance = 961.0 / 12 * (63 - (132600.0 + 1320) / (62 * 61));
    expect_test(g, COUNT(g), h, COUNT(h), 1373, 0.12159754980691169, false);
    expect_test(x, COUNT(x), y, COUNT(y), 310, erfc(170 / sqrt(2 * variance)), false);
}

/* Samples that do not overlap have the smallest possible p, whatever their sizes. */
static void test_least(void **state)
{
    double x[MANN_WHITNEY_EXACT], y[MANN_WHITNEY_EXACT];
    struct rank_test t;
    for (int i = 0; i < MANN_WHITNEY_EXACT; i++) {
        x[i] = i;
        y[i] = 100 + i;
    }
    expect_near(mann_whitney_least(5, 5), 2.0 / 252, 1e-15);
    expect_near(mann_whitney_least(4, 6), 2.0 / 210, 1e-15);
    expect_near(mann_whitney_least(1, 1), 1, 0);
    for (int n = 1; n <= MANN_WHITNEY_EXACT; n++)
        for (int m = 1; m <= MANN_WHITNEY_EXACT; m += 7) {
            double least = mann_whitney_least(n, m);
            expect_ok(mann_whitney(x, n, y, m, &t));
            assert_true(fabs(t.p - least) <= 1e-9 * least);
        }
}

static void test_bootstrap(void **state)
{
    const double x[] = {10, 10, 10, 10, 10}, y[] = {8, 8, 8, 8, 8};
    const double wide[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, zero[] = {0, 1, 2};
    double low, high;
    expect_ok(stats_ratio_interval(x, 5, y, 5, 0.95, 500, 1, &low, &high));
    expect_near(low, 0.8, 1e-15);
    expect_near(high, 0.8, 1e-15);

    /* The median of nine draws from 1..9 is at most 3 with a probability of 0.145, and at most 2
     * with 0.030. By symmetry, it is at least 7 or at least 8 with the same probabilities. The
     * interval therefore contains 3 and 7, and neither 1 nor 9. */
    expect_ok(stats_ratio_interval(x, 5, wide, 9, 0.95, 4000, 1, &low, &high));
    assert_true(low > 0.1 && low <= 0.3 && high >= 0.7 && high < 0.9);

    expect_ok(stats_ratio_interval(zero, 3, wide, 9, 0.95, 100, 1, &low, &high));
    assert_true(isnan(low) && isnan(high));
    expect_near(ratio_of(4, 3), 0.75, 0);
    expect_near(ratio_of(0, 0), 1, 0);
    assert_true(isinf(ratio_of(0, 3)));
}

static void expect_signed(const double *d, int64_t n, double w, double p, bool exact)
{
    struct rank_test t;
    expect_ok(signed_rank(d, n, &t));
    expect_near(t.statistic, w, 0);
    expect_near(t.p, p, 1e-12);
    assert_int_equal(t.exact, exact);
}

/* Depression scales before minus after, from Hollander and Wolfe's table 3.1. */
static const double depression[] = {0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01};

/* Values without ties. */
static void fill_signed(double *d, int n)
{
    for (int i = 0; i < n; i++)
        d[i] = (i * 37 % 101 - 40) / 7.0 + 0.013 * i;
}

/* The expected p is SciPy 1.17's: scipy.stats.wilcoxon(d, method="exact"), or for 80 values
 * method="approx", correction=True. With ties, p is counted by hand: of the 512 subsets of the nine
 * ranks 1.5, 1.5, 4, 4, 4, 6, 7.5, 7.5 and 9, 13 have a sum of at most 5.5. */
static void test_signed_rank(void **state)
{
    const double a[] = {0.3, -0.1, 0.7, 1.1, 0.9, -0.2, 1.4, 0.6, 0.55, 2.0};
    const double ties[] = {1, 2, 2, -2, 3, 0, 5, -1, 4, 4}, zeros[] = {0, 0, 0};
    double many[80];
    fill_signed(many, 80);
    expect_signed(a, COUNT(a), 52, 0.009765625, true);
    expect_signed(depression, COUNT(depression), 40, 0.0390625, true);
    expect_signed(many, 50, 894, 0.012568191503659065, true);
    expect_signed(ties, COUNT(ties), 39.5, 26.0 / 512, true);
    expect_signed(many, 80, 2351, 0.0004588629856396991, false);
    expect_signed(zeros, COUNT(zeros), 0, 1, true);
    expect_near(signed_rank_least(10), 2.0 / 1024, 0);
}

/* The first expected interval is the output of R's wilcox.test(d, conf.int = TRUE). The second
 * interval follows from the definition, with SciPy's distribution. */
static void test_hodges_lehmann(void **state)
{
    double center, low, high, many[50];
    fill_signed(many, 50);
    expect_ok(hodges_lehmann(depression, COUNT(depression), 0.95, &center, &low, &high));
    expect_near(center, 0.46, 1e-12);
    expect_near(low, 0.01, 1e-12);
    expect_near(high, 0.786, 1e-12);
    expect_ok(hodges_lehmann(many, 50, 0.95, &center, &low, &high));
    expect_near(center, 1.7471428571428573, 1e-12);
    expect_near(low, 0.44178571428571434, 1e-12);
    expect_near(high, 3.0911428571428567, 1e-12);

    /* A single value is its own estimate, and five values have no interval of 95 %. */
    expect_ok(hodges_lehmann(depression, 1, 0.95, &center, &low, &high));
    expect_near(center, 0.952, 0);
    expect_ok(hodges_lehmann(depression, 5, 0.95, &center, &low, &high));
    assert_true(isnan(low) && isnan(high));
    expect_ok(hodges_lehmann(depression, 6, 0.95, &center, &low, &high));
    assert_true(low < center && center < high);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),          cmocka_unit_test(test_ties),
        cmocka_unit_test(test_normal),         cmocka_unit_test(test_least),
        cmocka_unit_test(test_bootstrap),      cmocka_unit_test(test_signed_rank),
        cmocka_unit_test(test_hodges_lehmann),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
