/* Tests that arrays are converted like single values. The tests convert every 16-bit number, a
 * million bit patterns, and arrays of every short length. Most of these lengths are not a multiple
 * of the vector length. */
#include "base/half.h"
#include "base/half_array.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ALL = 65536, RANDOM = 1000000 };

static uint16_t narrow[RANDOM];
static float wide[RANDOM];

/* The payload of a NaN may change. */
static void same_value(float a, float b)
{
    if (isnan(a) || isnan(b)) {
        assert_true(isnan(a) && isnan(b));
        return;
    }
    assert_memory_equal(&a, &b, sizeof a);
}

static void every_narrow_value(void **state)
{
    (void)state;
    for (int i = 0; i < ALL; i++)
        narrow[i] = (uint16_t)i;
    f16_to_floats(narrow, wide, ALL);
    for (int i = 0; i < ALL; i++)
        same_value(wide[i], f16_to_float((uint16_t)i));
    bf16_to_floats(narrow, wide, ALL);
    for (int i = 0; i < ALL; i++)
        same_value(wide[i], bf16_to_float((uint16_t)i));
}

static void random_patterns(void **state)
{
    (void)state;
    struct rng r = rng_at(7, 0, 0, 0);
    for (int i = 0; i < RANDOM; i++) {
        uint32_t u = rng_u32(&r);
        if (i % 2) /* the numbers with odd i are within the range of fp16 */
            u = (u & 0x8fffffff) | 0x30000000;
        memcpy(&wide[i], &u, sizeof u);
    }
    for (int k = 0; k < 2; k++) {
        float scale = k ? 1 / 3.0f : 1;
        f16_from_floats(wide, scale, narrow, RANDOM);
        for (int i = 0; i < RANDOM; i++)
            same_value(f16_to_float(narrow[i]), round_f16(wide[i] * scale));
        bf16_from_floats(wide, scale, narrow, RANDOM);
        for (int i = 0; i < RANDOM; i++)
            same_value(bf16_to_float(narrow[i]), round_bf16(wide[i] * scale));
    }
}

static void every_tail(void **state)
{
    (void)state;
    for (int n = 0; n < 40; n++) {
        for (int i = 0; i < 48; i++) {
            wide[i] = (float)i;
            narrow[i] = 0xffff;
        }
        f16_from_floats(wide, 2, narrow, n);
        for (int i = 0; i < n; i++)
            assert_int_equal(narrow[i], f16_from_float(2 * (float)i));
        for (int i = n; i < 48; i++)
            assert_int_equal(narrow[i], 0xffff);
        for (int i = 0; i < 48; i++)
            wide[i] = -1;
        f16_to_floats(narrow, wide, n);
        for (int i = 0; i < 48; i++)
            assert_true(i < n ? wide[i] == 2 * (float)i : wide[i] == -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_narrow_value),
        cmocka_unit_test(random_patterns),
        cmocka_unit_test(every_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
