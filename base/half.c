/* Converts between fp32 and narrower types. Uses integer arithmetic, so that every machine computes
 * the same bits. */
#include "base/half.h"

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

/* v / 2^shift, rounded to nearest, ties to even; 1 <= shift <= 31. */
static uint32_t shift_round(uint32_t v, int shift)
{
    uint32_t half = (uint32_t)1 << (shift - 1);
    uint32_t rest = v & ((half << 1) - 1);
    uint32_t q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

uint16_t f16_from_float(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000) /* a NaN becomes quiet and keeps the upper payload bits */
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x1ff));
    if (mag >= 0x47800000) /* at least 2^16, or infinity: the result is infinity */
        return (uint16_t)(sign | 0x7c00);
    if (mag >= 0x38800000) /* at least 2^-14: normal; a carry from rounding increments the
                            * exponent */
        return (uint16_t)(sign | shift_round(mag - ((uint32_t)(127 - 15) << 23), 13));
    if (mag < 0x33000000) /* below half of the smallest subnormal: rounds to zero */
        return (uint16_t)sign;
    /* A subnormal is stored as a multiple of 2^-24. */
    int exponent = (int)(mag >> 23);
    uint32_t mantissa = (mag & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | shift_round(mantissa, 126 - exponent));
}

float f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 0x1f) /* infinity, or a NaN made quiet */
        return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    if (exponent != 0)
        return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
    float v = (float)mantissa * 0x1p-24f; /* exact */
    return sign ? -v : v;
}

float round_f16(float x)
{
    return f16_to_float(f16_from_float(x));
}

float round_bf16(float x)
{
    return bf16_to_float(bf16_from_float(x));
}

float round_tf32(float x)
{
    uint32_t u = bits_of(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return float_of((u | 0x400000) & ~(uint32_t)0x1fff);
    /* Adds half a unit in the last place of TF32, and then truncates. */
    return float_of((u + 0x1000) & ~(uint32_t)0x1fff);
}
