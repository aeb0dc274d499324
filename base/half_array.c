/* Converts arrays. The compiler vectorizes the loops for bfloat16. The loops for binary16 use the
 * conversion instructions of x86 processors (F16C). */
#include "base/half_array.h"

#include "base/half.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

/* Converts eight elements at a time, and does not convert the last n % 8 elements. Returns the
 * number of converted elements. */
__attribute__((target("avx,f16c"))) static int64_t from_floats_f16c(const float *x, float scale,
                                                                    uint16_t *y, int64_t n)
{
    int64_t i = 0;
    __m256 s = _mm256_set1_ps(scale);
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), s);
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    return i;
}

__attribute__((target("avx,f16c"))) static int64_t to_floats_f16c(const uint16_t *x, float *y,
                                                                  int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    return i;
}

/* Uses CPUID, because Clang 14's __builtin_cpu_supports does not know "f16c". Stores the result,
 * because CPUID takes microseconds in a virtual machine. */
bool half_native(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int known;
    unsigned a, b, c, d;
    if (known == UNKNOWN) {
        __builtin_cpu_init();
        bool has =
            __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
        known = has ? YES : NO;
    }
    return known == YES;
}
#else
bool half_native(void)
{
    return false;
}
#endif

void f16_from_floats(const float *x, float scale, uint16_t *y, int64_t n)
{
    int64_t i = 0;
#if defined(__x86_64__)
    if (half_native())
        i = from_floats_f16c(x, scale, y, n);
#endif
    for (; i < n; i++)
        y[i] = f16_from_float(x[i] * scale);
}

void f16_to_floats(const uint16_t *x, float *y, int64_t n)
{
    int64_t i = 0;
#if defined(__x86_64__)
    if (half_native())
        i = to_floats_f16c(x, y, n);
#endif
    for (; i < n; i++)
        y[i] = f16_to_float(x[i]);
}

void bf16_from_floats(const float *x, float scale, uint16_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = bf16_from_float(x[i] * scale);
}

void bf16_to_floats(const uint16_t *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = bf16_to_float(x[i]);
}
