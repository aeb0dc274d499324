/* Compares random numbers and hashes with published vectors, and distributions with formulas. */
#include "base/rng.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>

/* Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10 rounds). */
static void test_philox_known_answers(void **state)
{
    static const struct {
        uint32_t ctr[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < COUNT(kat); i++) {
        uint32_t out[4];
        philox4x32(kat[i].ctr, kat[i].key, out);
        assert_memory_equal(out, kat[i].want, sizeof out);
    }
}

static void test_places_are_independent(void **state)
{
    struct rng a = rng_at(1, RNG_AUGMENT, 2, 3), b = rng_at(1, RNG_AUGMENT, 2, 3);
    struct rng c = rng_at(1, RNG_AUGMENT, 3, 2), d = rng_at(1, RNG_SHUFFLE, 2, 3);
    uint32_t x = rng_u32(&a);
    assert_int_equal(x, rng_u32(&b));
    assert_int_not_equal(x, rng_u32(&c));
    assert_int_not_equal(x, rng_u32(&d));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double uniform(struct rng *r, double a, double b)
{
    return (double)rng_float(r);
}

static double normal(struct rng *r, double a, double b)
{
    return rng_normal(r);
}

static double below(struct rng *r, double n, double b)
{
    return rng_below(r, (uint32_t)n);
}

static double uniform_cdf(double x)
{
    return x < 0 || x >= 1 ? NAN : x;
}

static double normal_cdf(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static double arcsine_cdf(double x)
{
    return 2 * asin(sqrt(x)) / acos(-1);
}

static double one_three_cdf(double x)
{
    return 1 - pow(1 - x, 3);
}

/* The Kolmogorov-Smirnov distance times sqrt(N) exceeds 2 in one of 1500 samples. The variance of
 * Beta(a, a) is 1 / (4 (2a + 1)); for the smallest a, nearly all variates are 0 or 1. The seed
 * fixes the samples. */
static void test_distributions(void **state)
{
    enum { N = 20000 };
    static double value[N];
    static const struct {
        double (*draw)(struct rng *, double, double), a, b, (*cdf)(double), mean, variance;
    } table[] = {
        {uniform, 0, 0, uniform_cdf, 0.5, 1 / 12.0},
        {normal, 0, 0, normal_cdf, 0, 1},
        {rng_beta, 1, 1, uniform_cdf, 0.5, 1 / 12.0},
        {rng_beta, 1, 3, one_three_cdf, 0.25, 0.0375},
        {rng_beta, 1e-4, 1e-4, NULL, 0.5, 0.25 / 1.0002},
        {rng_beta, 1000, 1000, NULL, 0.5, 0.25 / 2001},
        {rng_beta, 0.5, 0.5, arcsine_cdf, 0.5, 0.125},
        {below, 7, 0, NULL, 3, 4}, /* the whole numbers from 0 to 6 */
    };
    for (int t = 0; t < COUNT(table); t++) {
        struct rng r = rng_at(7, RNG_TEST, (uint64_t)t, 1);
        double far = 0, mean = 0, square = 0;
        for (int i = 0; i < N; i++) {
            value[i] = table[t].draw(&r, table[t].a, table[t].b);
            mean += value[i] / N;
            square += pow(value[i] - table[t].mean, 2) / N;
        }
        qsort(value, N, sizeof *value, compare_doubles);
        for (int i = 0; table[t].cdf && i < N; i++) {
            double p = table[t].cdf(value[i]);
            assert_false(isnan(p));
            far = fmax(far, fmax(fabs(p - (double)i / N), fabs(p - (i + 1.0) / N)));
        }
        double error = 5 * sqrt(table[t].variance / N);
        assert_true(table[t].draw != rng_beta || (value[0] >= 0 && value[N - 1] <= 1));
        if (!(far * sqrt(N) < 2 && fabs(mean - table[t].mean) < error &&
              fabs(square / table[t].variance - 1) < 0.04))
            fail_msg("distribution %d: distance %g, mean %g, variance %g", t, far, mean, square);
    }
}

/* The hash of memory depends on every bit, on the length, and on the hash of the preceding memory.
 */
static void test_hashes(void **state)
{
    assert_true(hash_fnv1a64("") == 0xcbf29ce484222325u);
    assert_true(hash_fnv1a64("a") == 0xaf63dc4c8601ec8cu);
    assert_true(hash_splitmix64(0) == 0xe220a8397b1dcdafu);
    unsigned char mem[21] = {1, 2, 3};
    uint64_t want = hash_bytes(7, mem, sizeof mem);
    for (size_t bit = 0; bit < 8 * sizeof mem; bit++) {
        mem[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(hash_bytes(7, mem, sizeof mem) != want);
        mem[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(hash_bytes(7, mem, sizeof mem) == want);
    assert_true(hash_bytes(8, mem, sizeof mem) != want);
    assert_true(hash_bytes(7, mem, 16) != hash_bytes(7, mem, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_places_are_independent),
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
