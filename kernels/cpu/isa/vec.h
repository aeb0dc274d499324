/* A line is sixteen floats, in as many registers as the instruction set needs.
 *
 * Sixteen is a multiple of the size of a channel group in every blocked layout (1, 8, 16), so that
 * in all these layouts each lane of a line belongs to one channel. Registers are declared as GCC's
 * vector types; loads and stores accept any address that is valid for floats. Streaming stores need
 * intrinsics of x86-64; elsewhere they are ordinary stores. */
#pragma once

#include "kernels/cpu/kernels.h"

#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VEC_BYTES        64
#define VEC_STREAM(p, v) _mm512_stream_ps(p, v)
#elif defined(__AVX__)
#define VEC_BYTES        32
#define VEC_STREAM(p, v) _mm256_stream_ps(p, v)
#define VEC_SIGNS(v)     ((uint32_t)_mm256_movemask_ps(v))
#elif defined(__x86_64__)
#define VEC_BYTES        16
#define VEC_STREAM(p, v) _mm_stream_ps(p, v)
#define VEC_SIGNS(v)     ((uint32_t)_mm_movemask_ps(v))
#else
#define VEC_BYTES        16
#define VEC_STREAM(p, v) (*(vec_in_memory *)(p) = (v))
#endif

enum { VEC_LANES = VEC_BYTES / 4, LINE_VECS = LINE / VEC_LANES };

typedef float vec __attribute__((vector_size(VEC_BYTES)));
typedef float vec_in_memory __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
typedef uint32_t vec_bits __attribute__((vector_size(VEC_BYTES)));

struct line {
    vec v[LINE_VECS];
};

static inline struct line line_load(const float *p)
{
    struct line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = *(const vec_in_memory *)(p + i * VEC_LANES);
    return r;
}

static inline void line_store(float *p, struct line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        *(vec_in_memory *)(p + i * VEC_LANES) = a.v[i];
}

/* Stores a line without using the caches, for values that are not read again soon. The processor
 * does not read the old contents of the memory first. p must be aligned to VEC_BYTES. */
static inline void line_stream(float *p, struct line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        VEC_STREAM(p + i * VEC_LANES, a.v[i]);
}

/* Makes this thread's streamed stores visible to others before its later stores. */
static inline void line_stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* Loads the first n <= LINE floats at p into the first n lanes; the other lanes become zero. */
static inline struct line line_get(const float *p, int n)
{
    if (n == LINE)
        return line_load(p);
    float lane[LINE] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    return line_load(lane);
}

/* Stores the first n <= LINE lanes of a line at p. */
static inline void line_put(float *p, struct line a, int n)
{
    if (n == LINE) {
        line_store(p, a);
        return;
    }
    float lane[LINE];
    line_store(lane, a);
    for (int i = 0; i < n; i++)
        p[i] = lane[i];
}

/* Calls line(at, n, ...) for each line of `count` consecutive elements. n is the constant LINE,
 * except in a last call if fewer than LINE elements are left. */
#define FOR_EACH_LINE(count, line, ...)                                                            \
    do {                                                                                           \
        int64_t at_ = 0;                                                                           \
        for (; at_ + LINE <= (count); at_ += LINE)                                                 \
            line(at_, LINE, __VA_ARGS__);                                                          \
        if (at_ < (count))                                                                         \
            line(at_, (int)((count)-at_), __VA_ARGS__);                                            \
    } while (0)

static inline struct line line_zero(void)
{
    struct line r = {0};
    return r;
}

static inline struct line line_all(float a)
{
    struct line r;
    for (int i = 0; i < LINE_VECS; i++)
        r.v[i] = a - (vec){0};
    return r;
}

#define LINE_OPERATION(name, operator)                                                             \
    static inline struct line name(struct line a, struct line b)                                   \
    {                                                                                              \
        for (int i = 0; i < LINE_VECS; i++)                                                        \
            a.v[i] operator b.v[i];                                                                \
        return a;                                                                                  \
    }
LINE_OPERATION(line_add, +=)
LINE_OPERATION(line_sub, -=)
LINE_OPERATION(line_mul, *=)

/* a * b + c, fused if the machine supports that. */
static inline struct line line_fma(struct line a, struct line b, struct line c)
{
    for (int i = 0; i < LINE_VECS; i++)
        c.v[i] += a.v[i] * b.v[i];
    return c;
}

/* Returns `a` in the lanes where `relation` holds, and zero in the other lanes. GT holds if b is
 * above `limit`. NLT holds if b is not below `limit`, or is a NaN. */
#if defined(__AVX512F__)
#define VEC_WHERE(a, b, relation, limit)                                                           \
    ((vec)_mm512_maskz_mov_ps(                                                                     \
        _mm512_cmp_ps_mask(b, _mm512_set1_ps(limit), VEC_##relation##_PREDICATE), a))
#define VEC_GT_PREDICATE  _CMP_GT_OQ
#define VEC_NLT_PREDICATE _CMP_NLT_UQ
#else
#define VEC_WHERE(a, b, relation, limit) ((vec)((vec_bits)(a)&VEC_##relation(b, limit)))
#define VEC_GT(b, limit)                 (vec_bits)((b) > (limit))
#define VEC_NLT(b, limit)                ~(vec_bits)((b) < (limit))
#endif

/* VEC_EXCEEDS holds where a > b or a is a NaN. VEC_CHOOSE takes integers from a where a mask holds,
 * else from b. */
#if defined(__AVX512F__)
typedef __mmask16 vec_mask;
#define VEC_EXCEEDS(a, b)                                                                          \
    (_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) | _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q))
#define VEC_CHOOSE(mask, a, b) ((vec_bits)_mm512_mask_mov_epi32((__m512i)(b), mask, (__m512i)(a)))
#else
typedef vec_bits vec_mask;
#define VEC_EXCEEDS(a, b)      (vec_bits)(((a) > (b)) | ((a) != (a)))
#define VEC_CHOOSE(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))
#endif

/* max(a, 0), and NaN where a is NaN. */
static inline struct line line_relu(struct line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] = VEC_WHERE(a.v[i], a.v[i], NLT, 0);
    return a;
}

/* a where b > limit, else 0. */
static inline struct line line_where_above(struct line a, struct line b, float limit)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] = VEC_WHERE(a.v[i], b.v[i], GT, limit);
    return a;
}

/* Bit i is 1 if lane i is above `limit`. */
static inline uint16_t line_signs(struct line a, float limit)
{
    uint32_t bits = 0;
    for (int i = 0; i < LINE_VECS; i++) {
#if defined(__AVX512F__)
        bits |= _mm512_cmp_ps_mask(a.v[i], _mm512_set1_ps(limit), _CMP_GT_OQ);
#else
        vec_bits above = (vec_bits)(a.v[i] > limit);
#if defined(VEC_SIGNS)
        bits |= VEC_SIGNS((vec)above) << i * VEC_LANES;
#else
        for (int k = 0; k < VEC_LANES; k++)
            bits |= (above[k] & 1) << (i * VEC_LANES + k);
#endif
#endif
    }
    return (uint16_t)bits;
}

/* Returns `a` in the lanes whose bit is 1, and zero in the other lanes. */
static inline struct line line_where_signs(struct line a, uint16_t bits)
{
#if defined(__AVX512F__)
    a.v[0] = _mm512_maskz_mov_ps(bits, a.v[0]);
#else
    for (int i = 0; i < LINE_VECS; i++) {
        vec_bits of_lane;
        for (int k = 0; k < VEC_LANES; k++)
            of_lane[k] = 1u << (i * VEC_LANES + k);
        a.v[i] = (vec)((vec_bits)a.v[i] & (vec_bits)((of_lane & bits) != 0));
    }
#endif
    return a;
}

/* sum[lane] += a[lane]: adds sums in float to sums in double. */
static inline void line_promote(double sum[LINE], struct line a)
{
    float lane[LINE];
    line_store(lane, a);
    for (int i = 0; i < LINE; i++)
        sum[i] += (double)lane[i];
}
