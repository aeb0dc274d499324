/* Compares the conversions to narrow types with a definition of rounding in double and with the
 * compiler's _Float16: every value, every tie with its neighbours on both sides, the ends of the
 * range, and a million bit patterns. Arrays are converted like single values. */
#include "base/half.h"
#include "base/half_array.h"
#include "base/rng.h"
#include "tests/unit.h"

#include <math.h>
#include <stdbool.h>

enum { ALL = 65536, RANDOM = 1000000 };

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static const struct format {
    const char *name;
    int digits;     /* bits of the significand, including the leading one */
    int least;      /* exponent of the smallest normal number */
    double max;     /* largest finite number */
    bool ties_away; /* a tie is rounded away from zero; if false, to even */
    uint32_t lost;  /* the bits of an fp32 mantissa that do not fit */
    float (*round)(float x);
} formats[] = {
    {"fp16", 11, -14, 65504, false, 0x1fff, round_f16},
    {"bf16", 8, -126, 0x1.fep127, false, 0xffff, round_bf16},
    {"tf32", 11, -126, 0x1.ffcp127, true, 0x1fff, round_tf32},
};

/* Rounds `x`. The computation is exact in double: `x` has 24 bits, and a unit in the last place is
 * a power of two. */
static double nearest(const struct format *f, double x)
{
    if (x == 0 || isinf(x))
        return x;
    int exponent = ilogb(x) > f->least ? ilogb(x) : f->least;
    double unit = ldexp(1, exponent - (f->digits - 1));
    double count = f->ties_away ? round(x / unit) : rint(x / unit);
    double y = count * unit;
    return fabs(y) > f->max ? copysign(INFINITY, x) : y;
}

/* A NaN becomes quiet and keeps the bits of its payload that fit. */
static void check(const struct format *f, uint32_t u)
{
    float x = float_of(u);
    uint32_t got = bits_of(f->round(x));
    uint32_t want = isnan(x) ? (u | 0x400000) & ~f->lost : bits_of((float)nearest(f, (double)x));
    if (got != want)
        fail_msg("%s of %a (%08x) is %08x instead of %08x", f->name, (double)x, u, got, want);
#ifdef __FLT16_MAX__
    if (f->round == round_f16 && !isnan(x))
        assert_int_equal(got, bits_of((float)(_Float16)x));
#endif
}

/* The bit patterns of the numbers from 0 to infinity are consecutive. A tie between two numbers of
 * the narrow type is therefore in the middle of their bit patterns or, if they are subnormal, at a
 * multiple of `step`. */
static void test_every_tie(void **state)
{
    for (const struct format *f = formats; f < formats + 3; f++) {
        uint32_t step = f->lost + 1;
        for (uint32_t u = 0; u < 0x7f800000; u += step / 2)
            for (int k = 0; k < 3; k++) {
                uint32_t at = u + (uint32_t)k - (u > 0);
                check(f, at);
                check(f, at | 0x80000000);
            }
    }
}

static void test_ends_and_patterns(void **state)
{
    static const uint32_t pattern[] = {0x7fffff,   0x800000,   0x7f7fffff, 0x7f800000,
                                       0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fc12345,
                                       0x7fffffff, 0x7f802000, 0x7fa0e000, 0x7f810000};
    for (const struct format *f = formats; f < formats + 3; f++) {
        struct rng r = rng_at(1, RNG_TEST, 0, 0);
        for (int i = 0; i < COUNT(pattern); i++) {
            check(f, pattern[i]);
            check(f, pattern[i] | 0x80000000);
        }
        for (int i = 0; i < RANDOM; i++)
            check(f, rng_u32(&r));
    }
}

/* The value of an fp16 bit pattern, by IEEE 754's definition of binary16. */
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    double v = exponent == 0    ? ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -v : v;
}

static void test_every_narrow_value(void **state)
{
    for (uint32_t i = 0; i < ALL; i++) {
        float half = f16_to_float((uint16_t)i), b = bf16_to_float((uint16_t)i);
        double want = half_value((uint16_t)i);
        assert_int_equal(bits_of(b), i << 16);
        assert_int_equal(bf16_from_float(b), isnan(b) ? i | 0x40 : i);
        assert_int_equal(f16_from_float(half), isnan(want) ? i | 0x200 : i);
        if (isnan(want))
            assert_int_equal(bits_of(half), (i & 0x8000) << 16 | 0x7fc00000 | (i & 0x3ff) << 13);
        else
            assert_true((double)half == want && !signbit(half) == !(i & 0x8000));
    }
}

/* --- arrays --- */

static const struct array_format {
    float (*one)(uint16_t);
    float (*round)(float);
    void (*widen)(const uint16_t *, float *, int64_t);
    void (*narrow)(const float *, float, uint16_t *, int64_t);
} arrays[] = {{f16_to_float, round_f16, f16_to_floats, f16_from_floats},
              {bf16_to_float, round_bf16, bf16_to_floats, bf16_from_floats}};

static uint16_t narrow[RANDOM];
static float wide[RANDOM];

/* The payload of a NaN may change. */
static void same_value(float a, float b)
{
    assert_true(isnan(a) ? isnan(b) : bits_of(a) == bits_of(b));
}

static void test_arrays(void **state)
{
    for (const struct array_format *f = arrays; f < arrays + 2; f++) {
        for (int i = 0; i < ALL; i++)
            narrow[i] = (uint16_t)i;
        f->widen(narrow, wide, ALL);
        for (int i = 0; i < ALL; i++)
            same_value(wide[i], f->one((uint16_t)i));
        struct rng r = rng_at(7, 0, 0, 0);
        for (int i = 0; i < RANDOM; i++) /* the numbers with odd i are within the range of fp16 */
            wide[i] = float_of(i % 2 ? (rng_u32(&r) & 0x8fffffff) | 0x30000000 : rng_u32(&r));
        for (int k = 0; k < 2; k++) {
            float scale = k ? 1 / 3.0f : 1;
            f->narrow(wide, scale, narrow, RANDOM);
            for (int i = 0; i < RANDOM; i++)
                same_value(f->one(narrow[i]), f->round(wide[i] * scale));
        }
    }
}

/* Most lengths are not a multiple of the vector length. Nothing is written past the end. */
static void test_every_tail(void **state)
{
    for (int n = 0; n < 80; n++) {
        const struct array_format *f = &arrays[n % 2];
        for (int i = 0; i < 48; i++)
            wide[i] = (float)i;
        memset(narrow, 0xff, sizeof narrow);
        f->narrow(wide, 2, narrow, n / 2);
        for (int i = 0; i < 48; i++)
            wide[i] = -1;
        f->widen(narrow, wide, n / 2);
        for (int i = 0; i < 48; i++)
            assert_true(wide[i] == (i < n / 2 ? 2 * (float)i : -1));
        assert_int_equal(narrow[n / 2], 0xffff);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tie),          cmocka_unit_test(test_ends_and_patterns),
        cmocka_unit_test(test_every_narrow_value), cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_every_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
