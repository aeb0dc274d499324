/* Tests the fake GPU's tensor cores (fake/products.h): known properties of the sums of real tensor
 * cores. */
#include "fake/products.h"
#include "tests/unit.h"

#include <math.h>

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
    assert_true(isinf(product_sum(&u, 2, a, b)));
    assert_true(isnan(product_sum(&u, 2, a, zero)));
    float v[2] = {1 + 0x1p-11f, NAN};
    u.operand = DTYPE_TF32;
    product_operands(&u, 2, v);
    assert_true(v[0] == 1); /* truncated, not rounded up */
    assert_true(isnan(v[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_terms_are_cut_off),
        cmocka_unit_test(blocks_differ_by_generation),
        cmocka_unit_test(special_values_pass_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
