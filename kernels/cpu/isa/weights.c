/* Inner loops of the gradient of bf16 convolutions' weights: see kernels/cpu/weights.c. They are
 * compiled for AVX-512 with its bf16 instructions alone. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/vec.h"

#include <string.h>

enum { PAIR = 2, BLOCKS = WEIGHTS_BLOCKS, ROWS = WEIGHTS_ROWS };

static void pair(int64_t n, int64_t step, const uint16_t *a, const uint16_t *b, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(a + i * step)));
        if (b)
            v |= _mm512_slli_epi32(
                _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(b + i * step))), 16);
        _mm512_storeu_si512(to + i * PAIR * LINE, v);
    }
}

static void multiply(const struct pair_sum *s, const uint16_t *x, const uint16_t *dy, bool add,
                     float *dw, int64_t dw_block)
{
    __m512 acc[BLOCKS][ROWS] = {{{0}}};
    for (int64_t image = 0; image < s->pairs; image++)
        for (int64_t row = 0; row < s->rows; row++) {
            const uint16_t *a = x + image * s->x_pair + row * s->x_row;
            const uint16_t *b = dy + image * s->dy_pair + row * s->dy_row;
            for (int64_t k = s->columns; k > 0; k--, a += s->x_pixel, b += PAIR * LINE) {
                __m512bh d[BLOCKS];
                for (int o = 0; o < BLOCKS; o++)
                    d[o] = (__m512bh)_mm512_loadu_si512(b + o * s->dy_block);
#pragma GCC unroll 8
                for (int i = 0; i < ROWS; i++) {
                    int32_t both;
                    memcpy(&both, a + i * PAIR, sizeof both);
                    for (int o = 0; o < BLOCKS; o++)
                        acc[o][i] =
                            _mm512_dpbf16_ps(acc[o][i], d[o], (__m512bh)_mm512_set1_epi32(both));
                }
            }
        }
    for (int o = 0; o < BLOCKS; o++)
        for (int i = 0; i < ROWS; i++) {
            float *to = dw + o * dw_block + i * LINE;
            *(vec_in_memory *)to = (vec)acc[o][i] + (add ? (vec) * (vec_in_memory *)to : (vec){0});
        }
}

const struct weights_kernels cpu_weights_kernels = {.pair = pair, .multiply = multiply};
