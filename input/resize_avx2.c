/* The loops of resampling for AVX2. The first pass adds two source rows at a time, for 16 values;
 * the second pass computes two pixels at a time. */
#include "input/resize_loops.h"

#include <string.h>

#if defined __x86_64__ && defined __GNUC__

#include <immintrin.h>

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

enum { STEP = 16, PIXEL_BYTES = 4 /* stored per pixel; the next pixel overwrites byte 3 */ };

/* Adds two weighted rows to the sums of 16 values. One instruction multiplies and adds a pair of
 * values, one from each row. The sums are exact. */
AVX2_INLINE void add_pair(const uint8_t *upper, const uint8_t *lower, __m256i weights,
                          __m256i sum[2])
{
    __m128i u = _mm_loadu_si128((const __m128i *)upper);
    __m128i l = _mm_loadu_si128((const __m128i *)lower);
    __m256i begin = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(u, l));
    __m256i end = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(u, l));
    sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(begin, weights));
    sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(end, weights));
}

AVX2_INLINE void blend_16(const uint8_t *src, size_t stride, const int16_t *weight, int taps,
                          float *line)
{
    __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int k = 0; k < taps; k += 2) {
        int32_t pair;
        memcpy(&pair, weight + k, sizeof pair); /* the weight after the last tap is zero */
        const uint8_t *upper = src + (size_t)k * stride;
        add_pair(upper, k + 1 < taps ? upper + stride : upper, _mm256_set1_epi32(pair), sum);
    }
    _mm256_storeu_ps(line, _mm256_cvtepi32_ps(sum[0]));
    _mm256_storeu_ps(line + STEP / 2, _mm256_cvtepi32_ps(sum[1]));
}

AVX2 static void rows_avx2(const uint8_t *src, size_t stride, const int16_t *weight, int taps,
                           size_t n, float *line)
{
    if (n < STEP) {
        for (size_t j = 0; j < n; j++) {
            int32_t sum = 0;
            for (int k = 0; k < taps; k++)
                sum += weight[k] * src[(size_t)k * stride + j];
            line[j] = (float)sum;
        }
        return;
    }
    for (size_t j = 0; j + STEP <= n; j += STEP)
        blend_16(src + j, stride, weight, taps, line + j);
    /* Computes the last 16 values, some of them a second time. */
    blend_16(src + n - STEP, stride, weight, taps, line + n - STEP);
}

/* Loads four lanes from each of two addresses. */
AVX2_INLINE __m256 two(const float *first, const float *second)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(first)), _mm_loadu_ps(second),
                                1);
}

/* Writes two pixels, one from each half of `sum`. If `last` is true, writes no byte after either
 * pixel. */
AVX2_INLINE void put_two(__m256 sum, uint8_t *first, uint8_t *second, bool last)
{
    /* Moves byte 0 of each lane to the front. */
    const __m256i front = _mm256_set1_epi32(0x0c080400);
    __m256i pixels = _mm256_shuffle_epi8(_mm256_cvttps_epi32(sum), front);
    int one = _mm256_extract_epi32(pixels, 0), two = _mm256_extract_epi32(pixels, 4);
    memcpy(first, &one, last ? RESIZE_CHANNELS : PIXEL_BYTES);
    memcpy(second, &two, last ? RESIZE_CHANNELS : PIXEL_BYTES);
}

/* Computes pixels i and j of all rows. If one pixel has fewer taps than the other, its weights for
 * the remaining taps are zero. */
AVX2_INLINE void blend_two(const struct resizer *r, int left, int i, int j, bool last,
                           uint8_t *const out[RESIZE_ROWS])
{
    const int32_t *begin = r->x.begin, *count = r->x.count;
    size_t row = (size_t)r->x.taps * RESIZE_LANES;
    const float *p = r->line + (size_t)(begin[i] - left) * RESIZE_CHANNELS;
    const float *q = r->line + (size_t)(begin[j] - left) * RESIZE_CHANNELS;
    const float *v = r->spread + (size_t)i * row, *w = r->spread + (size_t)j * row;
    int taps = count[i] > count[j] ? count[i] : count[j];
    __m256 sum[RESIZE_ROWS];
#pragma GCC unroll 4
    for (int n = 0; n < RESIZE_ROWS; n++)
        sum[n] = _mm256_set1_ps(0.5f);
    for (int k = 0; k < taps; k++, p += RESIZE_CHANNELS, q += RESIZE_CHANNELS) {
        __m256 weight = two(v + k * RESIZE_LANES, w + k * RESIZE_LANES);
#pragma GCC unroll 4
        for (int n = 0; n < RESIZE_ROWS; n++) {
            size_t at = (size_t)n * r->line_stride;
            sum[n] = _mm256_add_ps(sum[n], _mm256_mul_ps(weight, two(p + at, q + at)));
        }
    }
#pragma GCC unroll 4
    for (int n = 0; n < RESIZE_ROWS; n++)
        put_two(sum[n], out[n] + (size_t)i * RESIZE_CHANNELS, out[n] + (size_t)j * RESIZE_CHANNELS,
                last);
}

AVX2 static void columns_avx2(const struct resizer *r, int left, int count,
                              uint8_t *const out[RESIZE_ROWS])
{
    int i = 0;
    for (; i + 2 < count; i += 2)
        blend_two(r, left, i, i + 1, false, out);
    blend_two(r, left, i, i + 1 < count ? i + 1 : i, true, out);
}

const struct resize_loops *resize_loops_avx2(void)
{
    static const struct resize_loops loops = {rows_avx2, columns_avx2};
    return __builtin_cpu_supports("avx2") ? &loops : NULL;
}

#else

const struct resize_loops *resize_loops_avx2(void)
{
    return NULL;
}

#endif
