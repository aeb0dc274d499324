/* Rounds the values of lines to values of a smaller type, by the same rules as base/half.h.
 *
 * Most callers pass a constant as `to`; the functions then have no branch at run time. */
#pragma once

#include "kernels/cpu/isa/vec.h"

/* The bit that makes a NaN quiet. */
#define QUIET 0x400000u

static inline vec vec_choose(vec_bits mask, vec_bits a, vec_bits b)
{
    return (vec)((mask & a) | (~mask & b));
}

/* Clears the lower `drop` bits and rounds to nearest, ties to even. A carry out of the mantissa
 * increments the exponent and makes the largest values infinite. */
static inline vec_bits vec_drop(vec_bits u, int drop)
{
    return (u + ((1u << (drop - 1)) - 1) + (u >> drop & 1)) & -(1u << drop);
}

/* Rounds x to bfloat16. The upper half of the returned bits is the result. */
static inline vec_bits vec_above_bf16(vec x)
{
    vec_bits u = (vec_bits)x, rounded = u + 0x7fff + (u >> 16 & 1);
#if defined(__AVX512F__)
    return (vec_bits)_mm512_mask_or_epi32((__m512i)rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                                          (__m512i)u, _mm512_set1_epi32(QUIET));
#else
    return (vec_bits)vec_choose((vec_bits)(x != x), u | QUIET, rounded);
#endif
}

static inline vec vec_round_bf16(vec x)
{
    return (vec)(vec_above_bf16(x) & -(1u << 16));
}

/* Ties away from zero. */
static inline vec vec_round_tf32(vec x)
{
    vec_bits u = (vec_bits)x, kept = (vec_bits){0} - (1u << 13);
    return vec_choose((vec_bits)(x != x), (u | QUIET) & kept, (u + (1u << 12)) & kept);
}

/* Convert a vec to binary16 values and back. Defined only if the instruction set can do so. */
#if defined(__AVX512F__)
#define VEC_TO_F16(x)   _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define VEC_FROM_F16(h) _mm512_cvtph_ps((__m256i)(h))
#elif defined(__F16C__)
#define VEC_TO_F16(x)   _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)
#define VEC_FROM_F16(h) _mm256_cvtph_ps((__m128i)(h))
#endif

#if defined(VEC_TO_F16)
static inline vec vec_round_f16(vec x)
{
    return VEC_FROM_F16(VEC_TO_F16(x));
}
#else
static inline vec vec_round_f16(vec x)
{
    vec_bits u = (vec_bits)x, magnitude = u & 0x7fffffff, sign = u ^ magnitude;
    vec_bits normal = vec_drop(magnitude, 13);
    /* Subnormal binary16 values are multiples of 2^-24. Floats in [0.5, 1) are multiples of 2^-24
     * too, so adding 0.5 rounds the value to such a multiple. */
    vec_bits subnormal = (vec_bits)((vec)magnitude + 0.5f - 0.5f);
    vec r = vec_choose((vec_bits)((vec)magnitude < 0x1p-14f), subnormal, normal);
    const vec_bits infinity = (vec_bits){0} + 0x7f800000;
    r = vec_choose((vec_bits)(r >= 0x1p16f), infinity, (vec_bits)r);
    r = vec_choose((vec_bits)(x != x), (magnitude | QUIET) & -(1u << 13), (vec_bits)r);
    return (vec)((vec_bits)r | sign);
}
#endif

static inline __attribute__((always_inline)) struct line line_round(struct line a, enum rounding to)
{
    for (int i = 0; i < LINE_VECS; i++) {
        if (to == ROUND_F16)
            a.v[i] = vec_round_f16(a.v[i]);
        else if (to == ROUND_BF16)
            a.v[i] = vec_round_bf16(a.v[i]);
        else if (to == ROUND_TF32)
            a.v[i] = vec_round_tf32(a.v[i]);
    }
    return a;
}
