/* Loads and stores lines (vec.h) whose values have two bytes in memory, and converts them as
 * base/half.h defines. */
#pragma once

#include "base/half.h"
#include "kernels/cpu/isa/round.h"

/* A vector with as many lanes as a vec, but half the bytes. */
typedef uint16_t vec_narrow __attribute__((vector_size(VEC_BYTES / 2)));
typedef uint16_t narrow_in_memory
    __attribute__((vector_size(VEC_BYTES / 2), aligned(2), may_alias));

#if defined(__AVX512F__)
#define NARROW_STREAM(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
/* Convert whole vectors by intrinsics, because GCC compiles __builtin_convertvector to several
 * instructions here. */
#define VEC_NARROW(u) ((vec_narrow)_mm512_cvtepi32_epi16((__m512i)(u)))
#define VEC_WIDEN(n)  ((vec_bits)_mm512_cvtepu16_epi32((__m256i)(n)))
#elif defined(__AVX__)
#define NARROW_STREAM(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#elif defined(__x86_64__)
#define NARROW_STREAM(p, v) _mm_stream_si64((void *)(p), (long long)(v))
#else
#define NARROW_STREAM(p, v) (*(narrow_in_memory *)(p) = (v))
#endif

#if !defined(VEC_NARROW)
#define VEC_NARROW(u) __builtin_convertvector(u, vec_narrow)
#define VEC_WIDEN(n)  __builtin_convertvector(n, vec_bits)
#endif

struct narrow_line {
    vec_narrow v[LINE_VECS];
};

static inline struct narrow_line narrow_load(const uint16_t *p)
{
    struct narrow_line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = *(const narrow_in_memory *)(p + i * VEC_LANES);
    return r;
}

static inline void narrow_store(uint16_t *p, struct narrow_line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        *(narrow_in_memory *)(p + i * VEC_LANES) = a.v[i];
}

/* Stores without using the caches, as line_stream does; p must be aligned to VEC_BYTES / 2. */
static inline void narrow_stream(uint16_t *p, struct narrow_line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        NARROW_STREAM(p + i * VEC_LANES, a.v[i]);
}

static inline struct line line_from_bf16(struct narrow_line a)
{
    struct line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = (vec)(VEC_WIDEN(a.v[i]) << 16);
    return r;
}

static inline struct narrow_line line_to_bf16(struct line a)
{
    struct narrow_line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = VEC_NARROW(vec_above_bf16(a.v[i]) >> 16);
    return r;
}

static inline struct line line_from_f16(struct narrow_line a)
{
    struct line r;
    for (int i = 0; i < LINE_VECS; i++) {
#if defined(VEC_FROM_F16)
        r.v[i] = VEC_FROM_F16(a.v[i]);
#else
        for (int k = 0; k < VEC_LANES; k++)
            r.v[i][k] = f16_to_float(a.v[i][k]);
#endif
    }
    return r;
}

static inline struct narrow_line line_to_f16(struct line a)
{
    struct narrow_line r;
    for (int i = 0; i < LINE_VECS; i++) {
#if defined(VEC_TO_F16)
        r.v[i] = (vec_narrow)VEC_TO_F16(a.v[i]);
#else
        for (int k = 0; k < VEC_LANES; k++)
            r.v[i][k] = f16_from_float(a.v[i][k]);
#endif
    }
    return r;
}
