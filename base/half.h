/* Converts floats to narrower floating-point types and back as IEEE 754 specifies, and rounds
 * floats to the values that a narrower type can represent.
 *
 * float16 (binary16): 5 exponent bits, 10 mantissa bits; largest value 65504, smallest normal value
 * 2^-14, smallest subnormal value 2^-24. bfloat16: fp32 with 7 mantissa bits. TF32: fp32 with 10
 * mantissa bits. Rounding is to nearest, with ties to even; only TF32 rounds ties away from zero,
 * as cvt.rna.tf32.f32 does. Subnormals are preserved; overflow gives infinity. A NaN becomes a
 * quiet NaN with the same sign and with the payload bits that fit. Only bf16_to_float leaves a
 * signalling NaN signalling. */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

uint16_t f16_from_float(float x);
float f16_to_float(uint16_t h);

/* Inline, so that compilers can vectorize loops that call these functions. */
static inline uint16_t bf16_from_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    uint32_t nearest = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : nearest);
}

static inline float bf16_to_float(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The nearest value that the narrow type can represent, as a float. */
float round_f16(float x);
float round_bf16(float x);
float round_tf32(float x);

#ifdef __cplusplus
}
#endif
