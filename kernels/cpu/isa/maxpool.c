/* Finds the maximum of each window in a row of windows, and the index of the maximum in the
 * window. */
#include "kernels/cpu/isa/element.h"

#include <math.h>

/* Number of outputs of a tile. They stay in the L1 cache while the loop over the window updates
 * them. */
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

/* The first value always becomes the maximum, even -infinity. After that a larger value or a NaN
 * replaces the maximum. */
static inline __attribute__((always_inline)) void
compete_lanes(float *best, int32_t *held, const float *value, int64_t lanes, int32_t place)
{
#pragma omp simd
    for (int64_t i = 0; i < lanes; i++) {
        bool wins = (value[i] > best[i]) | (value[i] != value[i]) | (held[i] < 0);
        best[i] = wins ? value[i] : best[i];
        held[i] = wins ? place : held[i];
    }
}

/* The output columns of a tile for which column kw of the window lies in the image. These are the
 * columns with
 *   0 <= column * stride - reach < width,
 * where reach is the padding minus kw. */
struct columns {
    int64_t reach, begin, end;
};

static inline __attribute__((always_inline)) struct columns
columns_of(const struct maxpool_row *p, const struct tile *t, int kw, int64_t stride)
{
    int64_t reach = p->pad[1] - kw;
    return (struct columns){
        .reach = reach,
        .begin = max64(t->begin, (max64(reach, 0) + stride - 1) / stride),
        .end = min64(t->end, (p->width + reach + stride - 1) / stride),
    };
}

/* Compares the elements at one position of the windows with the maxima. Skips the output columns
 * whose window has this position in the padding. Callers pass constants for the important layouts,
 * so that the loop over lanes has a fixed length. Floats are compared in place. Other elements are
 * first converted, a line at a time. */
static inline __attribute__((always_inline)) void compete(const struct maxpool_row *p,
                                                          struct tile *t, const stored *x, int kw,
                                                          int32_t place, int64_t lanes,
                                                          int64_t pixel, int64_t stride)
{
    struct columns c = columns_of(p, t, kw, stride);
    for (int64_t o = c.begin; o < c.end; o++) {
        int64_t at = (o - t->begin) * lanes;
        const stored *from = x + (o * stride - c.reach) * pixel;
        if (ELEMENT == ELEMENT_F32) {
            compete_lanes(t->best + at, t->place + at, (const void *)from, lanes, place);
        } else {
            float value[LINE];
            line_store(value, element_get(from, LINE));
            compete_lanes(t->best + at, t->place + at, value, LINE, place);
        }
    }
}

/* Does the same as compete(), for elements that need conversion but are not adjacent: gathers the
 * elements of all columns, then compares them. */
static void compete_apart(const struct maxpool_row *p, struct tile *t, const stored *x, int kw,
                          int32_t place)
{
    struct columns c = columns_of(p, t, kw, p->stride[1]);
    stored gathered[TILE];
    float value[TILE];
    int64_t n = 0;
    for (int64_t o = c.begin; o < c.end; o++, n += p->lanes)
        for (int64_t i = 0; i < p->lanes; i++)
            gathered[n + i] = x[(o * p->stride[1] - c.reach) * p->pixel + i];
    for (int64_t i = 0; i < n; i += LINE) {
        int left = (int)min64(n - i, LINE);
        line_put(value + i, element_get(gathered + i, left), left);
    }
    int64_t at = (c.begin - t->begin) * p->lanes;
    compete_lanes(t->best + at, t->place + at, value, n, place);
}

static void compete_any(const struct maxpool_row *p, struct tile *t, const stored *x, int kw,
                        int32_t place)
{
    int stride = p->stride[1];
    if (p->lanes == LINE && p->pixel == LINE)
        compete(p, t, x, kw, place, LINE, LINE, stride);
    else if (ELEMENT != ELEMENT_F32)
        compete_apart(p, t, x, kw, place);
    else if (p->lanes == 8 && p->pixel == 8)
        compete(p, t, x, kw, place, 8, 8, stride);
    else if (p->lanes == 1 && p->pixel == 1 && stride == 2)
        compete(p, t, x, kw, place, 1, 1, 2);
    else
        compete(p, t, x, kw, place, p->lanes, p->pixel, stride);
}

static void fill_tile(const struct maxpool_row *p, struct tile *t, const stored *x, int64_t row)
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

/* Stores the maxima. They need no rounding, because each maximum equals one of the input elements.
 */
static void put_tile(const struct maxpool_row *p, const struct tile *t, stored *y, uint8_t *index)
{
    int64_t n = (t->end - t->begin) * p->lanes;
    int64_t run = p->lanes == p->pixel ? n : p->lanes; /* adjacent outputs */
    int64_t to = t->begin * p->pixel;
    for (int64_t from = 0; from < n; from += run, to += p->pixel) {
        for (int64_t i = 0; i < run; i += LINE) {
            int left = (int)min64(run - i, LINE);
            element_put_exact(y + to + i, line_get(t->best + from + i, left), left);
        }
        if (!index)
            continue;
#pragma omp simd
        for (int64_t i = 0; i < run; i++)
            index[to + i] = (uint8_t)t->place[from + i];
    }
}

static void maxpool_row(const struct maxpool_row *p, const void *x, int64_t row, void *y,
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

const struct maxpool_kernels OF_ELEMENT(maxpool_kernels) = {.row = maxpool_row};
