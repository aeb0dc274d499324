/* Reductions of two arrays.
 *
 * The compiler vectorizes the plain loops. Only the fp16 sum has a second version, for processors
 * with instructions that convert fp16 (F16C). Its results have the same bits as those of
 * base/half.h. */
#include "comm/internal.h"

#include "base/half.h"
#include "base/half_array.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SUM(x, y) ((x) + (y))
/* If x or y is a NaN, the result is a NaN. Only a NaN differs from itself; integers never do. */
#define MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MIN(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

/* out may be a or b, because out[i] is written after a[i] and b[i] are read. The iterations
 * therefore do not depend on each other. The pragma ivdep states this. */
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

/* Defines the function of one type. Integer sums are computed as unsigned sums, so that they wrap
 * around. */
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
REDUCE_FUNCTION(reduce_bf16, uint16_t, float, bf16_to_float, bf16_from_float, float)
REDUCE_FUNCTION(reduce_f16_plain, uint16_t, float, f16_to_float, f16_from_float, float)

#if defined(__x86_64__)
/* Sums eight elements at a time. Does not sum the last elements if fewer than eight are left.
 * Returns the number of elements summed. */
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
    return half_native() ? sum_f16_by_eights(out, a, b, count) : 0;
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
    static void (*const reduce[DTYPE_COUNT])(enum comm_reduction, void *, const void *,
                                             const void *, int64_t) = {
        [DTYPE_F32] = reduce_f32,   [DTYPE_F64] = reduce_f64, [DTYPE_F16] = reduce_f16,
        [DTYPE_BF16] = reduce_bf16, [DTYPE_I32] = reduce_i32,
    };
    if (reduction == COMM_AVG)
        reduction = COMM_SUM;
    reduce[type](reduction, out, a, b, count); /* comm.c accepts no other type */
}

#define DIVIDE(type, load, store)                                                                  \
    do {                                                                                           \
        type *v = values;                                                                          \
        for (int64_t i = 0; i < count; i++)                                                        \
            v[i] = store(load(v[i]) / divisor);                                                    \
    } while (0)

void comm_divide_by(enum dtype type, void *values, int64_t count, int n)
{
    const float divisor = (float)n; /* fp32 represents every number of ranks exactly */
    switch (type) {
    case DTYPE_F16:
        DIVIDE(uint16_t, f16_to_float, f16_from_float);
        break;
    case DTYPE_BF16:
        DIVIDE(uint16_t, bf16_to_float, bf16_from_float);
        break;
    case DTYPE_F64:
        for (int64_t i = 0; i < count; i++)
            ((double *)values)[i] /= n;
        break;
    case DTYPE_I32:
        for (int64_t i = 0; i < count; i++)
            ((int32_t *)values)[i] /= n;
        break;
    default:
        DIVIDE(float, SAME, SAME);
        break;
    }
}
