/* Resamples. Weights are computed as in PIL. */
#include "input/resize_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANNELS = RESIZE_CHANNELS,
    WEIGHT_BITS = 14, /* fraction bits of a weight; a weight of 1 then fits in 16 bits */
    CUBIC_BITS = 22,  /* fraction bits of a bicubic weight, as in PIL */
    STRIP = 512,      /* values summed at a time, so that the sums stay in the L1 cache */
    ROWS = 4,
};

struct resize_axis resize_axis_shrink(struct resize_axis a, int shrink)
{
    a.origin /= shrink;
    a.scale /= shrink;
    a.lo /= shrink;
    a.hi = (a.hi + shrink - 1) / shrink;
    return a;
}

/* Sets *begin .. *end-1 to the source pixels from which output `o` is computed, and *centre to the
 * position of its centre in the source. */
static void footprint(const struct resize_axis *a, int o, double *centre, int *begin, int *end)
{
    double support = (a->scale > 1 ? a->scale : 1) * (a->filter == RESIZE_BICUBIC ? 2 : 1);
    *centre = a->origin + (o + 0.5) * a->scale;
    *begin = (int)fmax(floor(*centre - support + 0.5), a->lo);
    *end = (int)fmin(floor(*centre + support + 0.5), a->hi);
    /* A reduced source may end before these pixels, because its size was rounded. */
    if (*begin >= a->hi)
        *begin = a->hi - 1;
    if (*end <= *begin)
        *end = *begin + 1;
}

void resize_axis_span(const struct resize_axis *a, int *begin, int *end)
{
    double centre;
    int unused;
    footprint(a, a->first, &centre, begin, &unused);
    footprint(a, a->first + a->count - 1, &centre, &unused, end);
}

static double triangle(double x)
{
    return fmax(1 - fabs(x), 0);
}

/* Rounds the running sum of the weights, not each weight. So the rounded weights sum to exactly
 * one, and flat areas keep their level for any number of taps. Zero weights at both ends are
 * dropped. */
static void fill_weights(const struct resize_axis *a, int o, int32_t *first, int32_t *count,
                         int16_t *weight)
{
    double support = a->scale > 1 ? a->scale : 1, centre, total = 0, sum = 0;
    int begin, end, given = 0, n = 0;
    footprint(a, o, &centre, &begin, &end);
    for (int s = begin; s < end; s++)
        total += triangle((s + 0.5 - centre) / support);
    *first = begin;
    *count = 0;
    for (int s = begin; s < end; s++) {
        sum += triangle((s + 0.5 - centre) / support);
        int rounded = (int)lrint((total > 0 ? sum / total : 1) * (1 << WEIGHT_BITS));
        if (n == 0 && rounded == 0) {
            *first = s + 1;
            continue;
        }
        weight[n++] = (int16_t)(rounded - given);
        if (rounded > given)
            *count = n;
        given = rounded;
    }
}

/* Returns `old` if it is large enough. Else frees it and returns new memory that is aligned for
 * vectors, or NULL if memory ran out. The old contents are lost. */
static void *reserve(void *old, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity)
        return old;
    free(old);
    *capacity = (bytes + 63) / 64 * 64;
    void *mem = aligned_alloc(64, *capacity);
    if (!mem)
        *capacity = 0;
    return mem;
}

static enum status no_memory(void)
{
    return status_fail(STATUS_OOM, "no memory to resize an image");
}

enum status resize_table_fill(const struct resize_axis *a, bool flip, struct resize_table *t)
{
    t->taps = (int)ceil(a->scale > 1 ? a->scale : 1) * 2 + 2; /* even, for loops over pairs */
    size_t outputs = (size_t)a->count;
    t->begin = reserve(t->begin, &t->begin_capacity, outputs * sizeof *t->begin);
    t->count = reserve(t->count, &t->count_capacity, outputs * sizeof *t->count);
    t->weight =
        reserve(t->weight, &t->weight_capacity, outputs * (size_t)t->taps * sizeof *t->weight);
    if (!t->begin || !t->count || !t->weight)
        return no_memory();
    memset(t->weight, 0, outputs * (size_t)t->taps * sizeof *t->weight);
    for (int i = 0; i < a->count; i++) {
        int place = flip ? a->count - 1 - i : i;
        fill_weights(a, a->first + i, &t->begin[place], &t->count[place],
                     t->weight + (size_t)place * (size_t)t->taps);
    }
    return STATUS_OK;
}

/* Adds four weighted rows: sum[j] += weight[k] * src[k * stride + j] for k from 0 to 3. Each sum is
 * loaded and stored once for four products. If there are fewer than four rows, row 0 with weight 0
 * replaces each missing row. */
static void add_rows(const uint8_t *src, size_t stride, const int16_t *weight, int taps, size_t n,
                     int32_t *sum)
{
    const uint8_t *row[ROWS];
    int16_t w[ROWS];
    for (int k = 0; k < ROWS; k++) {
        row[k] = src + (size_t)(k < taps ? k : 0) * stride;
        w[k] = k < taps ? weight[k] : 0;
    }
    for (size_t j = 0; j < n; j++)
        sum[j] += w[0] * (int16_t)row[0][j] + w[1] * (int16_t)row[1][j] +
                  w[2] * (int16_t)row[2][j] + w[3] * (int16_t)row[3][j];
}

/* Sets line[j] to the sum over k of weight[k] * src[k * stride + j]. The sum has at most 22 bits,
 * so a float represents it exactly. */
static void blend_rows(const uint8_t *src, size_t stride, const int16_t *weight, int taps, size_t n,
                       float *line)
{
    for (size_t begin = 0; begin < n; begin += STRIP) {
        int32_t sum[STRIP] = {0};
        size_t width = n - begin < STRIP ? n - begin : STRIP;
        for (int k = 0; k < taps; k += ROWS)
            add_rows(src + (size_t)k * stride + begin, stride, weight + k, taps - k, width, sum);
        for (size_t j = 0; j < width; j++)
            line[begin + j] = (float)sum[j];
    }
}

enum { LANES = RESIZE_LANES };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Divides each column weight by the fixed-point factors of both passes, and copies the quotient to
 * all lanes. */
static enum status spread_weights(struct resizer *r, int outputs)
{
    size_t taps = (size_t)r->x.taps;
    r->spread = reserve(r->spread, &r->spread_capacity, (size_t)outputs * taps * sizeof(lanes));
    if (!r->spread)
        return no_memory();
    for (int i = 0; i < outputs; i++) {
        const int16_t *weight = r->x.weight + (size_t)i * taps;
        float *spread = r->spread + (size_t)i * taps * LANES;
        for (int k = 0; k < r->x.taps * LANES; k++)
            spread[k] = (float)weight[k / LANES] / (1 << 2 * WEIGHT_BITS);
    }
    return STATUS_OK;
}

static void blend_columns(const struct resizer *r, int left, int count,
                          uint8_t *const out[RESIZE_ROWS])
{
    for (int n = 0; n < RESIZE_ROWS; n++)
        for (int i = 0; i < count; i++) {
            const float *p =
                r->line + (size_t)n * r->line_stride + (size_t)(r->x.begin[i] - left) * CHANNELS;
            const float *w = r->spread + (size_t)i * (size_t)r->x.taps * LANES;
            lanes sum = {0.5f, 0.5f, 0.5f, 0.5f};
            for (int k = 0; k < r->x.count[i]; k++, p += CHANNELS, w += LANES) {
                lanes pixel, weight;
                memcpy(&pixel, p, sizeof pixel);
                memcpy(&weight, w, sizeof weight);
                sum += weight * pixel;
            }
            for (int c = 0; c < CHANNELS; c++)
                out[n][i * CHANNELS + c] = (uint8_t)sum[c];
        }
}

/* Makes room for RESIZE_ROWS lines of `used` values each. A line is followed by zeros, because two
 * kinds of reads go past its values: the fourth lane of the last pixel, and taps with zero weight.
 */
static enum status reserve_line(struct resizer *r, size_t used)
{
    r->line_stride = used + (size_t)r->x.taps * CHANNELS + LANES;
    size_t bytes = RESIZE_ROWS * r->line_stride * sizeof *r->line;
    r->line = reserve(r->line, &r->line_capacity, bytes);
    if (!r->line)
        return no_memory();
    memset(r->line, 0, bytes);
    return STATUS_OK;
}

/* Cubic convolution with a = -0.5. */
static double cubic(double x)
{
    x = fabs(x);
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((2.5 - 0.5 * x) * x - 4) * x + 2 : 0;
}

/* Sets *begin to the first source pixel of output `o`, and `weight` to all weights. Returns their
 * number. */
static int cubic_weights(const struct resize_axis *a, int o, int *begin, int32_t *weight)
{
    double unit = a->scale > 1 ? a->scale : 1, centre, total = 0;
    int end;
    footprint(a, o, &centre, begin, &end);
    for (int s = *begin; s < end; s++)
        total += cubic((s + 0.5 - centre) / unit);
    for (int s = *begin; s < end; s++)
        weight[s - *begin] =
            (int32_t)lround(cubic((s + 0.5 - centre) / unit) / total * (1 << CUBIC_BITS));
    return end - *begin;
}

/* Sets out[j] to the rounded and clipped sum over k of weight[k] * src[k * step + j], j < n. */
static void cubic_sums(const int32_t *weight, int taps, const uint8_t *src, size_t step, size_t n,
                       uint8_t *out)
{
    for (size_t j = 0; j < n; j++) {
        int32_t sum = 1 << (CUBIC_BITS - 1);
        for (int k = 0; k < taps; k++)
            sum += weight[k] * src[(size_t)k * step + j];
        sum >>= CUBIC_BITS;
        out[j] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

/* BICUBIC; y needs the rows from `top` to bottom-1 of the source. */
static enum status run_cubic(struct resizer *r, const struct resize_axis *x,
                             const struct resize_axis *y, bool flip, const struct region *src,
                             int top, int bottom, uint8_t *out)
{
    int begin, taps = 4 * (int)ceil(fmax(fmax(x->scale, y->scale), 1)) + 2;
    size_t line = (size_t)x->count * CHANNELS, rows = (size_t)(bottom - top);
    const uint8_t *first = src->pixels + (size_t)(top - src->at.y) * src->stride;
    r->cubic = reserve(r->cubic, &r->cubic_capacity, (size_t)taps * sizeof *r->cubic);
    r->between = reserve(r->between, &r->between_capacity, rows * line);
    if (!r->cubic || !r->between)
        return no_memory();
    for (int i = 0; i < x->count; i++) {
        size_t place = (size_t)(flip ? x->count - 1 - i : i) * CHANNELS;
        taps = cubic_weights(x, x->first + i, &begin, r->cubic);
        const uint8_t *from = first + (size_t)(begin - src->at.x) * CHANNELS;
        for (size_t k = 0; k < rows; k++)
            cubic_sums(r->cubic, taps, from + k * src->stride, CHANNELS, CHANNELS,
                       r->between + k * line + place);
    }
    for (int i = 0; i < y->count; i++) {
        taps = cubic_weights(y, y->first + i, &begin, r->cubic);
        cubic_sums(r->cubic, taps, r->between + (size_t)(begin - top) * line, line, line,
                   out + (size_t)i * line);
    }
    return STATUS_OK;
}

enum status resizer_run(struct resizer *r, const struct resize_axis *x, const struct resize_axis *y,
                        bool flip, const struct region *src, uint8_t *out)
{
    static const struct resize_loops plain = {blend_rows, blend_columns};
    const struct resize_loops *best = r->plain ? NULL : resize_loops_avx2();
    const struct resize_loops *loops = best ? best : &plain;
    int left, right, top, bottom;
    resize_axis_span(x, &left, &right);
    resize_axis_span(y, &top, &bottom);
    const struct rect *at = &src->at;
    if (left < at->x || right > at->x + at->w || top < at->y || bottom > at->y + at->h)
        return status_fail(STATUS_INVALID, "the decoded region lacks pixels that resizing needs");
    if (x->filter == RESIZE_BICUBIC)
        return run_cubic(r, x, y, flip, src, top, bottom, out);
    size_t used = (size_t)(right - left) * CHANNELS;
    TRY(resize_table_fill(x, flip, &r->x));
    TRY(resize_table_fill(y, false, &r->y));
    TRY(spread_weights(r, x->count));
    TRY(reserve_line(r, used));
    const uint8_t *origin = src->pixels + (size_t)(left - at->x) * CHANNELS;
    for (int i = 0; i < y->count; i += RESIZE_ROWS) {
        uint8_t *row[RESIZE_ROWS];
        for (int n = 0; n < RESIZE_ROWS; n++) {
            int o = i + n < y->count ? i + n : y->count - 1; /* repeats the last row */
            row[n] = out + (size_t)o * (size_t)x->count * CHANNELS;
            loops->rows(origin + (size_t)(r->y.begin[o] - at->y) * src->stride, src->stride,
                        r->y.weight + (size_t)o * (size_t)r->y.taps, r->y.count[o], used,
                        r->line + (size_t)n * r->line_stride);
        }
        loops->columns(r, left, x->count, row);
    }
    return STATUS_OK;
}

void resizer_free(struct resizer *r)
{
    struct resize_table *table[] = {&r->x, &r->y};
    for (int i = 0; i < 2; i++) {
        free(table[i]->begin);
        free(table[i]->count);
        free(table[i]->weight);
    }
    free(r->spread);
    free(r->line);
    free(r->cubic);
    free(r->between);
    *r = (struct resizer){0};
}
