/* Reductions of two arrays.
 *
 * The loops are plain; the compiler makes vectors of them. fp16 alone has a second form for
 * processors that convert it themselves (F16C), which gives the same bits as base/half.h. */
#include "comm/reduce.h"

#include "base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static inline float bf16_load(uint16_t b)
{
    return bf16_to_float(b);
}

/* bf16_from_float without branches. */
static inline uint16_t bf16_store(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
}

#define SUM(x, y) ((x) + (y))
/* A NaN wins, whichever side it is on. Not a number differs from itself; integers never do. */
#define MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MIN(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

/* out[i] is written after a[i] and b[i] are read: out being one of them is no dependency between
 * iterations, which is what ivdep says. */
#define LOOP(type, wide, load, store, combine)                                                     \
    do {                                                                                           \
        type *o = out;                                                                             \
        const type *p = a, *q = b;                                                                 \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++)                                   \
        {                                                                                          \
            wide x = load(p[i]), y = load(q[i]);                                                   \
            o[i] = store(combine(x, y));                                                           \
        }                                                                                          \
    } while (0)

/* One function per type. Integer sums wrap around, as unsigned ones do. */
#define REDUCE_FUNCTION(name, type, wide, load, store, add_type)                                   \
    static void name(enum comm_reduction reduction, void *out, const void *a, const void *b,       \
                     int64_t count)                                                                \
    {                                                                                              \
        if (reduction == COMM_SUM)                                                                 \
            LOOP(type, add_type, load, store, SUM);                                                \
        else if (reduction == COMM_MAX)                                                            \
            LOOP(type, wide, load, store, MAX);                                                    \
        else                                                                                       \
            LOOP(type, wide, load, store, MIN);                                                    \
    }

#define SAME(x) (x)
REDUCE_FUNCTION(reduce_f32, float, float, SAME, SAME, float)
REDUCE_FUNCTION(reduce_f64, double, double, SAME, SAME, double)
REDUCE_FUNCTION(reduce_i32, int32_t, int32_t, SAME, (int32_t)SAME, uint32_t)
REDUCE_FUNCTION(reduce_bf16, uint16_t, float, bf16_load, bf16_store, float)
REDUCE_FUNCTION(reduce_f16_plain, uint16_t, float, f16_to_float, f16_from_float, float)

#if defined(__x86_64__)
/* Sums the first elements, eight at a time, and returns how many. */
__attribute__((target("avx,f16c"))) static int64_t
sum_f16_by_eights(uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(a + i)));
        __m256 y = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(b + i)));
        __m128i sum = _mm256_cvtps_ph(_mm256_add_ps(x, y), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(out + i), sum);
    }
    return i;
}

static int64_t sum_f16_fast(uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t count)
{
    bool can = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
    return can ? sum_f16_by_eights(out, a, b, count) : 0;
}
#else
static int64_t sum_f16_fast(uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t count)
{
    (void)out, (void)a, (void)b, (void)count;
    return 0;
}
#endif

static void reduce_f16(enum comm_reduction reduction, void *out, const void *a, const void *b,
                       int64_t count)
{
    uint16_t *o = out;
    const uint16_t *p = a, *q = b;
    int64_t i = reduction == COMM_SUM ? sum_f16_fast(o, p, q, count) : 0;
    reduce_f16_plain(reduction, o + i, p + i, q + i, count - i);
}

void comm_reduce(enum dtype type, enum comm_reduction reduction, void *out, const void *a,
                 const void *b, int64_t count)
{
    switch (type) {
    case DTYPE_F32:
        reduce_f32(reduction, out, a, b, count);
        break;
    case DTYPE_F64:
        reduce_f64(reduction, out, a, b, count);
        break;
    case DTYPE_F16:
        reduce_f16(reduction, out, a, b, count);
        break;
    case DTYPE_BF16:
        reduce_bf16(reduction, out, a, b, count);
        break;
    case DTYPE_I32:
        reduce_i32(reduction, out, a, b, count);
        break;
    default: /* comm.c lets no other type through */
        break;
    }
}
