/* Sixteen floats at a time, in as many registers as the instruction set needs.
 *
 * Sixteen is a multiple of every channel group of the blocked layouts (1, 8, 16), so that each lane
 * of a line belongs to one channel whichever of them a tensor has. GCC's vector types give the
 * registers; loads and stores take any address that floats may have. Streaming has no vector type's
 * operation and is an ordinary store where the machine is not x86-64. */
#ifndef KERNELS_CPU_ISA_VEC_H
#define KERNELS_CPU_ISA_VEC_H

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
#elif defined(__x86_64__)
#define VEC_BYTES        16
#define VEC_STREAM(p, v) _mm_stream_ps(p, v)
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

/* Past the caches, for what is not read again soon: writing need not fetch the old contents first.
 * p is aligned to VEC_BYTES. */
static inline void line_stream(float *p, struct line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        VEC_STREAM(p + i * VEC_LANES, a.v[i]);
}

/* Makes what this thread streamed visible to others before anything that it writes after this. */
static inline void line_stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* The first n <= LINE floats at p; zero in the other lanes. */
static inline struct line line_get(const float *p, int n)
{
    if (n == LINE)
        return line_load(p);
    float lane[LINE] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    return line_load(lane);
}

/* The first n <= LINE lanes to p. */
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

static inline struct line line_add(struct line a, struct line b)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] += b.v[i];
    return a;
}

static inline struct line line_sub(struct line a, struct line b)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] -= b.v[i];
    return a;
}

static inline struct line line_mul(struct line a, struct line b)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] *= b.v[i];
    return a;
}

/* a * b + c, fused where the machine can. */
static inline struct line line_fma(struct line a, struct line b, struct line c)
{
    for (int i = 0; i < LINE_VECS; i++)
        c.v[i] += a.v[i] * b.v[i];
    return c;
}

/* max(a, 0), and NaN where a is NaN. */
static inline struct line line_relu(struct line a)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] = (vec)((vec_bits)a.v[i] & ~(vec_bits)(a.v[i] < 0));
    return a;
}

/* a where b > limit, else 0. */
static inline struct line line_where_above(struct line a, struct line b, float limit)
{
    for (int i = 0; i < LINE_VECS; i++)
        a.v[i] = (vec)((vec_bits)a.v[i] & (vec_bits)(b.v[i] > limit));
    return a;
}

/* sum[lane] += a[lane]: how runs of float sums become double ones. */
static inline void line_promote(double sum[LINE], struct line a)
{
    float lane[LINE];
    line_store(lane, a);
    for (int i = 0; i < LINE; i++)
        sum[i] += (double)lane[i];
}

#endif
