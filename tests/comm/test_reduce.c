/* Compares the results of reductions with a plain computation of their definition. Tests every
 * type, every reduction and every position in a vector, with random bits. */
#include "comm/internal.h"

#include "base/rng.h"
#include "tests/unit.h"
#include "values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 100000 };

static const enum dtype types[] = {DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16, DTYPE_I32};
enum { TYPES = sizeof types / sizeof *types };

/* The definition, before the result is rounded to the type. */
static double define(enum comm_reduction reduction, double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (reduction == COMM_SUM)
        return x + y;
    return (reduction == COMM_MAX) == (x > y) ? x : y;
}

static void fill(void *data, size_t bytes, uint64_t seed)
{
    struct rng r = rng_at(seed, RNG_TEST, 0, 0);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t bits = rng_u32(&r);
        memcpy((char *)data + i, &bits, sizeof bits);
    }
}

static void check_all(enum dtype type, enum comm_reduction reduction, void *out, const void *a,
                      const void *b, int64_t count)
{
    comm_reduce(type, reduction, out, a, b, count);
    for (int64_t i = 0; i < count; i++) {
        double x = element_get(type, a, i), y = element_get(type, b, i), rounded[1];
        element_put(type, rounded, 0, define(reduction, x, y));
        double want = element_get(type, rounded, 0), got = element_get(type, out, i);
        if (want != got && !(isnan(want) && isnan(got)))
            fail_msg("%s, reduction %d, element %d: %a and %a give %a instead of %a",
                     dtype_str(type), (int)reduction, (int)i, x, y, got, want);
    }
}

static void test_definition(void **state)
{
    double *a = malloc(LONGEST * sizeof *a), *b = malloc(LONGEST * sizeof *b);
    double *out = malloc(LONGEST * sizeof *out);
    fill(a, LONGEST * sizeof *a, 1);
    fill(b, LONGEST * sizeof *b, 2);
    for (int t = 0; t < TYPES; t++)
        for (int r = COMM_SUM; r <= COMM_MIN; r++)
            check_all(types[t], (enum comm_reduction)r, out, a, b, LONGEST);
    free(a);
    free(b);
    free(out);
}

/* Checks vectors of every short length. The result must equal the beginning of the result of a long
 * vector: an element must not depend on which loop computes it. The elements after the end must not
 * change. The output may replace either operand. */
static void check_lengths(enum dtype type, enum comm_reduction reduction)
{
    enum { LENGTHS = 40 };
    uint32_t a[2 * LENGTHS], b[2 * LENGTHS], all[2 * LENGTHS], out[2 * LENGTHS];
    size_t element = dtype_size(type);
    fill(a, sizeof a, 3);
    fill(b, sizeof b, 4);
    comm_reduce(type, reduction, all, a, b, LENGTHS);
    for (int64_t n = 0; n <= LENGTHS; n++) {
        size_t bytes = (size_t)n * element;
        memcpy(out, a, sizeof out);
        comm_reduce(type, reduction, out, out, b, n);
        assert_memory_equal(out, all, bytes);
        assert_memory_equal((char *)out + bytes, (char *)a + bytes, sizeof out - bytes);
        memcpy(out, b, sizeof out);
        comm_reduce(type, reduction, out, a, out, n);
        assert_memory_equal(out, all, bytes);
    }
}

static void test_lengths_and_places(void **state)
{
    for (int t = 0; t < TYPES; t++)
        for (int r = COMM_SUM; r <= COMM_MIN; r++)
            check_lengths(types[t], (enum comm_reduction)r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition),
        cmocka_unit_test(test_lengths_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
