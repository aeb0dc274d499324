/* Lines of two-byte values in memory, and their conversion as base/half.h defines it. */
#ifndef KERNELS_CPU_ISA_NARROW_H
#define KERNELS_CPU_ISA_NARROW_H

#include "base/half.h"
#include "kernels/cpu/isa/round.h"

/* As many lanes as a vec has, in half the bytes. */
typedef uint16_t vec_narrow __attribute__((vector_size(VEC_BYTES / 2)));
typedef uint16_t narrow_in_memory
    __attribute__((vector_size(VEC_BYTES / 2), aligned(2), may_alias));

#if defined(__AVX512F__)
#define NARROW_STREAM(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#elif defined(__AVX__)
#define NARROW_STREAM(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#elif defined(__x86_64__)
#define NARROW_STREAM(p, v) _mm_stream_si64((void *)(p), (long long)(v))
#else
#define NARROW_STREAM(p, v) (*(narrow_in_memory *)(p) = (v))
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

/* Past the caches, as line_stream; p is aligned to VEC_BYTES / 2. */
static inline void narrow_stream(uint16_t *p, struct narrow_line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        NARROW_STREAM(p + i * VEC_LANES, a.v[i]);
}

static inline struct line line_from_bf16(struct narrow_line a)
{
    struct line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = (vec)(__builtin_convertvector(a.v[i], vec_bits) << 16);
    return r;
}

static inline struct narrow_line line_to_bf16(struct line a)
{
    struct narrow_line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = __builtin_convertvector((vec_bits)vec_round_bf16(a.v[i]) >> 16, vec_narrow);
    return r;
}

#if defined(__AVX512F__)
static inline vec vec_from_f16(vec_narrow h)
{
    return _mm512_cvtph_ps((__m256i)h);
}

static inline vec_narrow vec_to_f16(vec x)
{
    return (vec_narrow)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__F16C__)
static inline vec vec_from_f16(vec_narrow h)
{
    return _mm256_cvtph_ps((__m128i)h);
}

static inline vec_narrow vec_to_f16(vec x)
{
    return (vec_narrow)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}
#else
static inline vec vec_from_f16(vec_narrow h)
{
    vec r;
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = f16_to_float(h[i]);
    return r;
}

static inline vec_narrow vec_to_f16(vec x)
{
    vec_narrow r;
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = f16_from_float(x[i]);
    return r;
}
#endif

static inline struct line line_from_f16(struct narrow_line a)
{
    struct line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = vec_from_f16(a.v[i]);
    return r;
}

static inline struct narrow_line line_to_f16(struct line a)
{
    struct narrow_line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = vec_to_f16(a.v[i]);
    return r;
}

#endif
