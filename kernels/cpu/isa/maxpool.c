/* The maxima of a row of windows, and where in its window each was found. */
#include "kernels/cpu/isa/isa.h"

#include <math.h>

/* Outputs held at a time; they stay in the first cache while the window's places pass over them. */
enum { TILE = 1024 };

struct tile {
    int64_t begin, end; /* output columns */
    float best[TILE];   /* (columns, lanes) */
    int32_t place[TILE];
};

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Lets one place of the window compete in every column of the tile where it lies in the image. The
 * first place that does wins whatever it holds, -infinity too; after that a larger value or a NaN.
 * Called with constants for the layouts that matter, so that the lanes' loop has none left. */
static inline __attribute__((always_inline)) void compete(const struct maxpool_row *p,
                                                          struct tile *t, const float *x, int kw,
                                                          int32_t place, int64_t lanes,
                                                          int64_t pixel, int64_t stride)
{
    /* 0 <= column * stride - pad + kw < width */
    int64_t reach = p->pad[1] - kw;
    int64_t begin = max64(t->begin, (max64(reach, 0) + stride - 1) / stride);
    int64_t end = min64(t->end, (p->width + reach + stride - 1) / stride);
    for (int64_t o = begin; o < end; o++) {
        const float *value = x + (o * stride - reach) * pixel;
        float *best = t->best + (o - t->begin) * lanes;
        int32_t *held = t->place + (o - t->begin) * lanes;
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            bool wins = (value[i] > best[i]) | (value[i] != value[i]) | (held[i] < 0);
            best[i] = wins ? value[i] : best[i];
            held[i] = wins ? place : held[i];
        }
    }
}

static void compete_any(const struct maxpool_row *p, struct tile *t, const float *x, int kw,
                        int32_t place)
{
    int stride = p->stride[1];
    if (p->lanes == 16 && p->pixel == 16)
        compete(p, t, x, kw, place, 16, 16, stride);
    else if (p->lanes == 8 && p->pixel == 8)
        compete(p, t, x, kw, place, 8, 8, stride);
    else if (p->lanes == 1 && p->pixel == 1 && stride == 2)
        compete(p, t, x, kw, place, 1, 1, 2);
    else
        compete(p, t, x, kw, place, p->lanes, p->pixel, stride);
}

static void fill_tile(const struct maxpool_row *p, struct tile *t, const float *x, int64_t row)
{
    int64_t n = (t->end - t->begin) * p->lanes;
    for (int64_t i = 0; i < n; i++) {
        t->best[i] = -INFINITY;
        t->place[i] = -1;
    }
    for (int kh = 0; kh < p->kernel[0]; kh++) {
        int64_t h = row * p->stride[0] - p->pad[0] + kh;
        if (h < 0 || h >= p->height)
            continue;
        for (int kw = 0; kw < p->kernel[1]; kw++)
            compete_any(p, t, x + h * p->width * p->pixel, kw, kh * p->kernel[1] + kw);
    }
}

static void put_tile(const struct maxpool_row *p, const struct tile *t, float *y, uint8_t *index)
{
    int64_t n = (t->end - t->begin) * p->lanes;
    int64_t run = p->lanes == p->pixel ? n : p->lanes; /* outputs that lie side by side */
    int64_t to = t->begin * p->pixel;
    for (int64_t from = 0; from < n; from += run, to += p->pixel) {
#pragma omp simd
        for (int64_t i = 0; i < run; i++)
            y[to + i] = t->best[from + i];
        if (!index)
            continue;
#pragma omp simd
        for (int64_t i = 0; i < run; i++)
            index[to + i] = (uint8_t)t->place[from + i];
    }
}

static void maxpool_row(const struct maxpool_row *p, const float *x, int64_t row, float *y,
                        uint8_t *index)
{
    struct tile t;
    int64_t columns = TILE / p->lanes;
    for (t.begin = 0; t.begin < p->out_width; t.begin = t.end) {
        t.end = min64(t.begin + columns, p->out_width);
        fill_tile(p, &t, x, row);
        put_tile(p, &t, y, index);
    }
}

const struct maxpool_kernels ISA(maxpool_kernels) = {.row = maxpool_row};
