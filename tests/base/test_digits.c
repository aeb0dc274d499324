/* Numbers for people: a reader sees no digit that the measurement does not support. */
#include "base/digits.h"
#include "tests/unit.h"

#include <math.h>
#include <string.h>

static void test_amount(void **state)
{
    static const struct {
        double x;
        const char *want;
    } rows[] = {
        {1234.56, "1230"},      {44.36, "44.4"},      {0.41149, "0.411"}, {99.96, "100"},
        {0.9996, "1.00"},       {1195, "1195"},       {0, "0"},           {-2.345, "-2.35"},
        {1e-9 / 3, "3.33e-10"}, {4194304, "4194304"}, {NAN, "\u2013"},    {-INFINITY, "\u2013"},
    };
    char text[DIGITS_SIZE];
    (void)state;
    for (int i = 0; i < COUNT(rows); i++) {
        digits_amount(text, rows[i].x);
        assert_string_equal(text, rows[i].want);
    }
}

static void test_interval(void **state)
{
    static const struct {
        double x, low, high;
        const char *want;
    } rows[] = {
        {3922.5, 3603.4, 3967.1, "3920 (3600 to 3970)"}, /* half width 182: tens */
        {1228.9, 640, 2166, "1200 (600 to 2200)"},       /* 763: hundreds */
        {1.9243, 1.7741, 1.9622, "1.92 (1.77 to 1.96)"}, /* 0.094 */
        {96.2, 93.4, 99.52, "96.2 (93.4 to 99.5)"},      /* 3.06 */
        {-0.002, -0.92, 0.92, "0.0 (-0.9 to 0.9)"},      /* zero has no sign */
        {2, 2, 2, "2.00 (2.00 to 2.00)"},                /* no width */
        {0.03, -20, 20, "0 (-20 to 20)"},                /* may be 0 */
        {30, 10, 1000, "30 (10 to 1000)"},               /* not 0: keeps its first digit */
        {5.4321, NAN, NAN, "5.43"},
        {NAN, 1, 2, "\u2013"},
    };
    char text[DIGITS_SIZE];
    (void)state;
    for (int i = 0; i < COUNT(rows); i++) {
        digits_interval(text, rows[i].x, rows[i].low, rows[i].high);
        assert_string_equal(text, rows[i].want);
    }
}

/* Numbers of any size fit. */
static void test_extremes(void **state)
{
    static const double extreme[] = {1e308, -1e308, 1e-308, 9e15, -9.1e15, 5e-324, 0};
    char text[DIGITS_SIZE];
    (void)state;
    for (int i = 0; i < COUNT(extreme); i++)
        for (int j = 0; j < COUNT(extreme); j++) {
            digits_interval(text, extreme[i], extreme[j], extreme[i]);
            assert_true(strlen(text) > 0 && strlen(text) < DIGITS_SIZE - 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_amount),
                                       cmocka_unit_test(test_interval),
                                       cmocka_unit_test(test_extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
