/* Reductions of two arrays. The compiler vectorizes the plain loops. Only the fp16 sum has a second
 * version, for processors with instructions that convert fp16 (F16C), with the same bits. */
#include "base/half.h"
#include "base/half_array.h"
#include "comm/internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SAME(x)   (x)
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

/* Defines the functions of one type, which computes in `wide`. Integer sums are computed as
 * unsigned sums, so that they wrap around. */
#define FUNCTIONS(name, type, wide, load, store, add_type)                                         \
    static void reduce_##name(enum comm_reduction reduction, void *out, const void *a,             \
                              const void *b, int64_t count)                                        \
    {                                                                                              \
        if (reduction == COMM_MAX)                                                                 \
            LOOP(type, wide, load, store, MAX);                                                    \
        else if (reduction == COMM_MIN)                                                            \
            LOOP(type, wide, load, store, MIN);                                                    \
        else                                                                                       \
            LOOP(type, add_type, load, store, SUM);                                                \
    }                                                                                              \
    static void divide_##name(void *values, int64_t count, int n)                                  \
    {                                                                                              \
        type *v = values;                                                                          \
        for (int64_t i = 0; i < count; i++)                                                        \
            v[i] = store(load(v[i]) / (wide)n);                                                    \
    }
FUNCTIONS(f32, float, float, SAME, SAME, float)
FUNCTIONS(f64, double, double, SAME, SAME, double)
FUNCTIONS(i32, int32_t, int32_t, SAME, (int32_t)SAME, uint32_t)
FUNCTIONS(bf16, uint16_t, float, bf16_to_float, bf16_from_float, float)
FUNCTIONS(f16, uint16_t, float, f16_to_float, f16_from_float, float)

#if defined(__x86_64__)
/* Sums eight elements at a time, but not the last `count` % 8. Returns the number summed. */
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
#endif

static void reduce_f16_fast(enum comm_reduction reduction, void *out, const void *a, const void *b,
                            int64_t count)
{
    uint16_t *o = out;
    const uint16_t *p = a, *q = b;
    int64_t i = 0;
#if defined(__x86_64__)
    if (reduction != COMM_MAX && reduction != COMM_MIN && half_native())
        i = sum_f16_by_eights(o, p, q, count);
#endif
    reduce_f16(reduction, o + i, p + i, q + i, count - i);
}

static const struct {
    void (*reduce)(enum comm_reduction, void *out, const void *a, const void *b, int64_t count);
    void (*divide)(void *values, int64_t count, int n);
} functions[DTYPE_COUNT] = {
    [DTYPE_F32] = {reduce_f32, divide_f32},      [DTYPE_F64] = {reduce_f64, divide_f64},
    [DTYPE_F16] = {reduce_f16_fast, divide_f16}, [DTYPE_BF16] = {reduce_bf16, divide_bf16},
    [DTYPE_I32] = {reduce_i32, divide_i32},
}; /* comm.c accepts no other type */

void comm_reduce(enum dtype type, enum comm_reduction reduction, void *out, const void *a,
                 const void *b, int64_t count)
{
    functions[type].reduce(reduction, out, a, b, count);
}

void comm_divide_by(enum dtype type, void *values, int64_t count, int n)
{
    functions[type].divide(values, count, n);
}
