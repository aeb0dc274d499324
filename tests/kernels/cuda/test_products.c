/* Tests the fake GPU's tensor cores (fake/products.h): known properties of the sums of real tensor
 * cores, and the error of long sums of positive terms, which must be within the tolerance of
 * verify/bounds.h. */
#include "base/half.h"
#include "base/rng.h"
#include "fake/products.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { LENGTH = 4608 };

static struct product_unit unit(int sm, enum dtype operand)
{
    return (struct product_unit){
        .tensor_cores = true, .sm = sm, .operand = operand, .partial = DTYPE_F32, .splits = 1};
}

/* Returns the unit's sum of 1 and n terms `small`, all in one block. */
static double one_and(int sm, int n, float small)
{
    float a[16] = {1}, b[16] = {1};
    struct product_unit u = unit(sm, DTYPE_F16);
    for (int i = 1; i <= n; i++) {
        a[i] = small < 0 ? -0x1p-12f : 0x1p-12f;
        b[i] = fabsf(small) * 0x1p12f;
    }
    return (double)product_sum(&u, n + 1, a, b);
}

static void small_terms_are_cut_off(void **state)
{
    (void)state;
    assert_true(one_and(90, 4, 0x1p-25f) == 1 + 0x1p-23); /* sm_90 keeps two more bits than fp32 */
    assert_true(one_and(90, 8, 0x1p-26f) == 1);
    assert_true(one_and(80, 4, 0x1p-25f) == 1); /* sm_80 keeps one more bit than fp32 */
    assert_true(one_and(80, 2, 0x1p-24f) == 1 + 0x1p-23);
    assert_true(one_and(90, 3, 0x1p-25f) == 1);            /* the result is truncated too */
    assert_true(one_and(90, 1, -0x1p-24f) == 1 - 0x1p-24); /* the sum is truncated towards zero */
    assert_true(one_and(90, 1, -0x1p-26f) == 1);
}

/* A block begins with the sum of the earlier blocks, rounded to fp32. */
static void blocks_differ_by_generation(void **state)
{
    float a[17] = {[0] = 1, [15] = 0x1p-12f, [16] = -1},
          b[17] = {[0] = 1, [15] = 0x1p-13f, [16] = 1};
    struct product_unit hopper = unit(90, DTYPE_F16), ampere = unit(80, DTYPE_F16);
    (void)state;
    /* A block keeps the term 2^-25, but its fp32 sum loses the term. */
    assert_true(product_sum(&hopper, 17, a, b) == 0);
    a[1] = -1, b[1] = 1, a[16] = 0;
    assert_true(product_sum(&hopper, 17, a, b) == 0x1p-25f);
    assert_true(product_sum(&ampere, 17, a, b) == 0x1p-25f); /* the first eight sum to 0 */
}

static void special_values_pass_through(void **state)
{
    const float a[2] = {INFINITY, 1}, b[2] = {1, 1}, zero[2] = {0, 1};
    struct product_unit u = unit(90, DTYPE_BF16);
    (void)state;
    assert_true(isinf(product_sum(&u, 2, a, b)));
    assert_true(isnan(product_sum(&u, 2, a, zero)));
    float v[2] = {1 + 0x1p-11f, NAN};
    u.operand = DTYPE_TF32;
    product_operands(&u, 2, v);
    assert_true(v[0] == 1); /* truncated, not rounded up */
    assert_true(isnan(v[1]));
}

/* The largest error of several sums of positive products, in units of 2^-24 of the sum. */
static double worst_error(int sm, enum dtype type)
{
    float a[LENGTH], b[LENGTH];
    double worst = 0;
    struct product_unit u = unit(sm, type);
    for (uint64_t round = 0; round < 20; round++) {
        struct rng r = rng_at(3, RNG_TEST, round, 0);
        double exact = 0;
        for (int i = 0; i < LENGTH; i++) {
            a[i] = dtype_round(type, (float)(rng_u32(&r) % 2048) / 1024);
            b[i] = dtype_round(type, (float)(rng_u32(&r) % 2048) / 1024);
            exact += (double)a[i] * (double)b[i];
        }
        worst = fmax(worst, fabs((double)product_sum(&u, LENGTH, a, b) - exact) / exact * 0x1p24);
    }
    printf("sm_%d, %s: the error of a %d-term sum is up to %.0f * 2^-24\n", sm, dtype_str(type),
           LENGTH, worst);
    return worst;
}

static void long_sums_lose_more_than_fp32(void **state)
{
    const struct product_unit units[] = {
        unit(75, DTYPE_F16), unit(80, DTYPE_F16),  unit(80, DTYPE_BF16), unit(80, DTYPE_TF32),
        unit(90, DTYPE_F16), unit(90, DTYPE_BF16), unit(90, DTYPE_TF32)};
    double fp32 = 2 * sqrt(LENGTH) + 8;
    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double worst = worst_error(units[i].sm, units[i].operand);
        assert_true(worst > fp32 && worst < fp32 + LENGTH / 4.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_terms_are_cut_off),
        cmocka_unit_test(blocks_differ_by_generation),
        cmocka_unit_test(special_values_pass_through),
        cmocka_unit_test(long_sums_lose_more_than_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
