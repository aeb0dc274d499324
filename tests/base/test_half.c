/* Compares the conversions to narrow types with a definition of rounding in double, with the
 * compiler's _Float16 and with the processor's conversion: every value, every tie with its
 * neighbours on both sides, the ends of the range, and a million bit patterns. */
#include "base/half.h"
#include "base/half_array.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmocka.h>

enum { RANDOM_PATTERNS = 1000000 };

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

/* --- the definition --- */

struct format {
    const char *name;
    int digits;     /* bits of the significand, including the leading one */
    int least;      /* exponent of the smallest normal number */
    double max;     /* largest finite number */
    bool ties_away; /* a tie is rounded away from zero; if false, to even */
    uint32_t lost;  /* the bits of an fp32 mantissa that do not fit */
    float (*round)(float x);
};

static const struct format f16 = {"fp16", 11, -14, 65504, false, 0x1fff, round_f16};
static const struct format bf16 = {"bf16", 8, -126, 0x1.fep127, false, 0xffff, round_bf16};
static const struct format tf32 = {"tf32", 11, -126, 0x1.ffcp127, true, 0x1fff, round_tf32};

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

static uint32_t nan_kept(const struct format *f, uint32_t u)
{
    return (u | 0x400000) & ~f->lost;
}

static void check_round(const struct format *f, float x)
{
    uint32_t got = bits_of(f->round(x));
    uint32_t want = isnan(x) ? nan_kept(f, bits_of(x)) : bits_of((float)nearest(f, (double)x));
    if (got != want)
        fail_msg("%s of %a (%08x) is %08x instead of %08x", f->name, (double)x, bits_of(x), got,
                 want);
}

/* The bit patterns of the numbers from 0 to infinity are consecutive. The bit pattern of a tie is
 * therefore the mean of the bit patterns of its two neighbours. */
static void check_every_tie(const struct format *f)
{
    uint32_t step = f->lost + 1;
    for (uint32_t u = 0; u < 0x7f800000; u += step)
        for (int negative = 0; negative < 2; negative++) {
            uint32_t at = u | (negative ? 0x80000000 : 0);
            check_round(f, float_of(at));
            check_round(f, float_of(at + step / 2 - 1));
            check_round(f, float_of(at + step / 2));
            check_round(f, float_of(at + step / 2 + 1));
        }
}

static void check_ends(const struct format *f)
{
    static const uint32_t pattern[] = {0,          1,          0x7fffff,   0x800000,   0x7f7fffff,
                                       0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fc12345,
                                       0x7fffffff, 0x7f802000, 0x7fa0e000, 0x7f810000};
    for (size_t i = 0; i < sizeof pattern / sizeof *pattern; i++) {
        check_round(f, float_of(pattern[i]));
        check_round(f, float_of(pattern[i] | 0x80000000));
    }
    check_round(f, (float)f->max);
    check_round(f, nextafterf((float)f->max, INFINITY));
}

static void check_round_patterns(const struct format *f)
{
    struct rng r = rng_at(1, RNG_TEST, 0, 0);
    for (int i = 0; i < RANDOM_PATTERNS; i++)
        check_round(f, float_of(rng_u32(&r)));
}

/* --- fp16 --- */

/* The value of an fp16 bit pattern, by IEEE 754's definition of binary16. */
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    double v = exponent == 0    ? ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -v : v;
}

static void test_every_half(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t h = (uint16_t)i;
        float x = f16_to_float(h);
        double want = half_value(h);
        if (isnan(want)) {
            assert_true(isnan(x));
            assert_int_equal(bits_of(x), (i & 0x8000) << 16 | 0x7fc00000 | (i & 0x3ff) << 13);
            assert_int_equal(f16_from_float(x), h | 0x200);
        } else {
            assert_true((double)x == want && !signbit(x) == !(h & 0x8000));
            assert_int_equal(f16_from_float(x), h);
        }
    }
}

/* For each pair of fp16 neighbours a < b, checks the tie between them, and the nearest fp32 values
 * below and above the tie. The last pair is the largest fp16 number and 65536. The number 65536
 * rounds to infinity. */
static void test_every_tie_of_halves(void **state)
{
    (void)state;
    for (uint16_t a = 0; a < 0x7c00; a++) {
        uint16_t b = (uint16_t)(a + 1), even = a & 1 ? b : a;
        double above = b == 0x7c00 ? 65536 : half_value(b);
        float tie = (float)((half_value(a) + above) / 2);
        assert_int_equal(f16_from_float(tie), even);
        assert_int_equal(f16_from_float(nextafterf(tie, 0)), a);
        assert_int_equal(f16_from_float(nextafterf(tie, INFINITY)), b);
        assert_int_equal(f16_from_float(-tie), even | 0x8000);
        assert_int_equal(f16_from_float(nextafterf(-tie, 0)), a | 0x8000);
        assert_int_equal(f16_from_float(nextafterf(-tie, -INFINITY)), b | 0x8000);
    }
}

static void test_half_boundaries(void **state)
{
    (void)state;
    static const struct {
        float x;
        uint16_t h;
    } table[] = {
        {0.0f, 0},
        {-0.0f, 0x8000},
        {1, 0x3c00},
        {-2, 0xc000},
        {65504, 0x7bff},
        {65519.99f, 0x7bff},
        {65520, 0x7c00},
        {-65520, 0xfc00},
        {65536, 0x7c00},
        {FLT_MAX, 0x7c00},
        {INFINITY, 0x7c00},
        {-INFINITY, 0xfc00},
        {0x1p-14f, 0x0400},
        {0x1.ff8p-15f, 0x03ff},
        {0x1.ffcp-15f, 0x0400},
        {0x1p-24f, 0x0001},
        {0x1.8p-24f, 0x0002},
        {0x1p-25f, 0},
        {-0x1p-25f, 0x8000},
        {0x1.000002p-25f, 0x0001},
        {0x1.fffffep-26f, 0},
        {FLT_MIN, 0},
        {0x1p-149f, 0},
        {0.1f, 0x2e66},
        {1.0f / 3, 0x3555},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (f16_from_float(table[i].x) != table[i].h)
            fail_msg("fp16 of %a is %04x instead of %04x", (double)table[i].x,
                     f16_from_float(table[i].x), table[i].h);
}

static void test_half_nans(void **state)
{
    (void)state;
    static const struct {
        uint32_t u;
        uint16_t h;
    } table[] = {
        {0x7fc00000, 0x7e00}, {0xffc00000, 0xfe00},
        {0x7f800001, 0x7e00}, /* the NaN becomes quiet and loses its payload */
        {0x7f802000, 0x7e01}, {0xffbfe000, 0xffff},
        {0x7fffffff, 0x7fff},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(f16_from_float(float_of(table[i].u)), table[i].h);
}

static void test_round_f16(void **state)
{
    (void)state;
    check_ends(&f16);
    check_round_patterns(&f16);
    for (uint32_t i = 0; i <= 0xffff; i++)
        check_round(&f16, f16_to_float((uint16_t)i));
}

/* --- fp16 against others --- */

/* Passes every number, and every tie with its neighbours, to a check. */
static void check_half_ties(void (*check)(float))
{
    for (uint16_t h = 0; h < 0x7c00; h++) {
        uint32_t at = bits_of(f16_to_float(h));
        float above = h == 0x7bff ? 65536 : f16_to_float((uint16_t)(h + 1));
        uint32_t tie = bits_of((float_of(at) + above) / 2);
        const uint32_t pattern[] = {at, tie - 1, tie, tie + 1};
        for (int i = 0; i < 4; i++) {
            check(float_of(pattern[i]));
            check(float_of(pattern[i] | 0x80000000));
        }
    }
}

static void check_patterns(void (*check)(float))
{
    struct rng r = rng_at(1, RNG_TEST, 0, 0);
    for (int i = 0; i < RANDOM_PATTERNS; i++)
        check(float_of(rng_u32(&r)));
}

#ifdef __FLT16_MAX__
static void check_compiler(float x)
{
    _Float16 narrow = (_Float16)x;
    uint16_t want;
    memcpy(&want, &narrow, sizeof want);
    uint16_t got = f16_from_float(x);
    bool both_nan = isnan(x) && (got & 0x7fff) > 0x7c00 && (want & 0x7fff) > 0x7c00;
    if (got != want && !both_nan)
        fail_msg("fp16 of %a is %04x, _Float16 says %04x", (double)x, got, want);
}
#endif

static void test_compiler(void **state)
{
    (void)state;
#ifdef __FLT16_MAX__
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t h = (uint16_t)i;
        _Float16 narrow;
        memcpy(&narrow, &h, sizeof narrow);
        float x = f16_to_float(h), want = (float)narrow;
        assert_true(isnan(x) ? isnan(want) : bits_of(x) == bits_of(want));
    }
    check_half_ties(check_compiler);
    check_patterns(check_compiler);
#else
    print_message("this compiler has no _Float16\n");
    skip();
#endif
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static void check_processor(float x)
{
    uint16_t got = f16_from_float(x);
    uint16_t want = (uint16_t)_mm_cvtsi128_si32(
        _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    if (got != want)
        fail_msg("fp16 of %a (%08x) is %04x; the processor gives %04x", (double)x, bits_of(x), got,
                 want);
}

__attribute__((target("f16c"))) static float processor_widened(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}
#endif

static void test_processor(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!half_native()) {
        print_message("this processor has no F16C\n");
        skip();
    }
    for (uint32_t i = 0; i <= 0xffff; i++)
        assert_int_equal(bits_of(f16_to_float((uint16_t)i)),
                         bits_of(processor_widened((uint16_t)i)));
    check_half_ties(check_processor);
    check_patterns(check_processor);
#else
    print_message("F16C is of x86-64\n");
    skip();
#endif
}

/* --- bf16 and tf32 --- */

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= 0xffff; i++) {
        float x = bf16_to_float((uint16_t)i);
        assert_int_equal(bits_of(x), i << 16);
        assert_int_equal(bf16_from_float(x), isnan(x) ? i | 0x40 : i);
    }
    check_ends(&bf16);
    check_every_tie(&bf16);
    check_round_patterns(&bf16);
    assert_int_equal(bf16_from_float(float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(bf16_from_float(float_of(0xffa30001)), 0xffe3);
    assert_int_equal(bf16_from_float(FLT_MAX), 0x7f80);
    assert_int_equal(bf16_from_float(0x1.fefffep127f), 0x7f7f);
}

static void test_tf32(void **state)
{
    (void)state;
    check_ends(&tf32);
    check_every_tie(&tf32);
    check_round_patterns(&tf32);
    assert_true(isinf(round_tf32(FLT_MAX)));
    /* a tie is rounded away from zero */
    assert_int_equal(bits_of(round_tf32(1 + 0x1p-11f)), bits_of(1 + 0x1p-10f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_every_tie_of_halves),
        cmocka_unit_test(test_half_boundaries),
        cmocka_unit_test(test_half_nans),
        cmocka_unit_test(test_round_f16),
        cmocka_unit_test(test_compiler),
        cmocka_unit_test(test_processor),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_tf32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
