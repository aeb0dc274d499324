/* The two passes of resampling, in plain C (resize.c) and for AVX2 (resize_avx2.c). Both give the
 * same bits. */
#pragma once

#include "input/resize.h"

enum {
    RESIZE_CHANNELS = 3,
    RESIZE_ROWS = 4, /* output rows computed at a time */
    /* the three values of a pixel; the fourth lane computes a value that is discarded */
    RESIZE_LANES = 4,
};

struct resize_loops {
    /* Sets line[j] to the sum over k < taps of weight[k] * src[k * stride + j], for j < n. */
    void (*rows)(const uint8_t *src, size_t stride, const int16_t *weight, int taps, size_t n,
                 float *line);
    /* Computes `count` pixels of each output row from the lines in r->line. The lines begin at
     * source pixel `left`. Several elements of `out` may be the same row. */
    void (*columns)(const struct resizer *r, int left, int count, uint8_t *const out[RESIZE_ROWS]);
};

/* Returns the loops for AVX2, or NULL on a processor without it. */
const struct resize_loops *resize_loops_avx2(void);
