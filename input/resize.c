/* The triangle filter: weights as PIL computes them, applied down the columns first. */
#include "input/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANNELS = 3,
    WEIGHT_BITS = 14, /* a weight of 1 fits 16 bits */
    LINE_BITS = 6,    /* fraction kept between the passes: 255 << 6 fits 16 bits */
    STRIP = 256,      /* values summed at a time: the sums stay in the first-level cache */
};

struct resize_axis resize_axis_shrink(struct resize_axis a, int shrink)
{
    a.origin /= shrink;
    a.scale /= shrink;
    a.lo /= shrink;
    a.hi = (a.hi + shrink - 1) / shrink;
    return a;
}

/* The source pixels under the filter of output `o`. */
static void footprint(const struct resize_axis *a, int o, double *centre, int *begin, int *end)
{
    double support = a->scale > 1 ? a->scale : 1;
    *centre = a->origin + (o + 0.5) * a->scale;
    *begin = (int)fmax(floor(*centre - support + 0.5), a->lo);
    *end = (int)fmin(floor(*centre + support + 0.5), a->hi);
    if (*begin >= a->hi) /* shrinking rounds the edge: its last pixel stands for what is cut */
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

/* Rounds the running sum of the weights and not each of them, so that they sum to exactly one: flat
 * areas keep their level however many taps there are. */
static void fill_weights(const struct resize_axis *a, bool flip, struct resize_table *t)
{
    double support = a->scale > 1 ? a->scale : 1;
    memset(t->weight, 0, sizeof *t->weight * (size_t)a->count * (size_t)t->taps);
    for (int i = 0; i < a->count; i++) {
        double centre, total = 0, sum = 0;
        int begin, end, given = 0;
        footprint(a, a->first + i, &centre, &begin, &end);
        for (int s = begin; s < end; s++)
            total += triangle((s + 0.5 - centre) / support);
        int place = flip ? a->count - 1 - i : i;
        int16_t *weight = t->weight + (size_t)place * (size_t)t->taps;
        t->begin[place] = begin;
        for (int s = begin; s < end; s++) {
            sum += triangle((s + 0.5 - centre) / support);
            int rounded = (int)lrint((total > 0 ? sum / total : 1) * (1 << WEIGHT_BITS));
            weight[s - begin] = (int16_t)(rounded - given);
            given = rounded;
        }
    }
}

static enum status build_table(const struct resize_axis *a, bool flip, struct resize_table *t)
{
    double support = a->scale > 1 ? a->scale : 1;
    t->taps = (int)ceil(support) * 2 + 1;
    size_t outputs = (size_t)a->count, weights = outputs * (size_t)t->taps;
    if (outputs > t->outputs) {
        free(t->begin);
        t->begin = malloc(outputs * sizeof *t->begin);
        t->outputs = t->begin ? outputs : 0;
    }
    if (weights > t->capacity) {
        free(t->weight);
        t->weight = malloc(weights * sizeof *t->weight);
        t->capacity = t->weight ? weights : 0;
    }
    if (!t->begin || !t->weight)
        return status_fail(STATUS_OOM, "no memory for a filter of %zu weights", weights);
    fill_weights(a, flip, t);
    return STATUS_OK;
}

/* line[j] = sum over k of weight[k] * src[k * stride + j], with LINE_BITS of fraction. */
static void blend_rows(const uint8_t *src, size_t stride, const int16_t *weight, int taps, size_t n,
                       int16_t *line)
{
    enum { SHIFT = WEIGHT_BITS - LINE_BITS };
    for (size_t begin = 0; begin < n; begin += STRIP) {
        int32_t sum[STRIP];
        size_t width = n - begin < STRIP ? n - begin : STRIP;
        for (size_t j = 0; j < width; j++)
            sum[j] = 1 << (SHIFT - 1);
        for (int k = 0; k < taps; k++) {
            const uint8_t *row = src + (size_t)k * stride + begin;
            int16_t w = weight[k];
            for (size_t j = 0; j < width; j++)
                sum[j] += w * (int16_t)row[j];
        }
        for (size_t j = 0; j < width; j++)
            line[begin + j] = (int16_t)(sum[j] >> SHIFT);
    }
}

/* One output row from one blended line, whose first pixel is source pixel `left`. */
static void blend_columns(const int16_t *line, int left, const struct resize_table *t, int count,
                          uint8_t *out)
{
    enum { SHIFT = WEIGHT_BITS + LINE_BITS };
    for (int i = 0; i < count; i++) {
        const int16_t *p = line + (size_t)(t->begin[i] - left) * CHANNELS;
        const int16_t *w = t->weight + (size_t)i * (size_t)t->taps;
        int32_t r = 1 << (SHIFT - 1), g = r, b = r;
        for (int k = 0; k < t->taps; k++, p += CHANNELS) {
            r += w[k] * p[0];
            g += w[k] * p[1];
            b += w[k] * p[2];
        }
        out[i * CHANNELS] = (uint8_t)(r >> SHIFT);
        out[i * CHANNELS + 1] = (uint8_t)(g >> SHIFT);
        out[i * CHANNELS + 2] = (uint8_t)(b >> SHIFT);
    }
}

static enum status reserve_line(struct resizer *r, size_t values)
{
    if (values > r->line_capacity) {
        free(r->line);
        r->line = malloc(values * sizeof *r->line);
        r->line_capacity = r->line ? values : 0;
    }
    if (!r->line)
        return status_fail(STATUS_OOM, "no memory to resize an image");
    return STATUS_OK;
}

enum status resizer_run(struct resizer *r, const struct resize_axis *x, const struct resize_axis *y,
                        bool flip, const struct region *src, uint8_t *out)
{
    int left, right, top, bottom;
    resize_axis_span(x, &left, &right);
    resize_axis_span(y, &top, &bottom);
    const struct rect *at = &src->at;
    if (left < at->x || right > at->x + at->w || top < at->y || bottom > at->y + at->h)
        return status_fail(STATUS_INVALID, "the decoded region lacks pixels that resizing needs");
    TRY(build_table(x, flip, &r->x));
    TRY(build_table(y, false, &r->y));
    size_t used = (size_t)(right - left) * CHANNELS;
    size_t spare = (size_t)r->x.taps * CHANNELS; /* read by weights of zero past the last pixel */
    TRY(reserve_line(r, used + spare));
    memset(r->line + used, 0, spare * sizeof *r->line);
    const uint8_t *origin = src->pixels + (size_t)(left - at->x) * CHANNELS;
    for (int i = 0; i < y->count; i++) {
        int begin = r->y.begin[i];
        int taps = bottom - begin < r->y.taps ? bottom - begin : r->y.taps;
        blend_rows(origin + (size_t)(begin - at->y) * src->stride, src->stride,
                   r->y.weight + (size_t)i * (size_t)r->y.taps, taps, used, r->line);
        blend_columns(r->line, left, &r->x, x->count,
                      out + (size_t)i * (size_t)x->count * CHANNELS);
    }
    return STATUS_OK;
}

void resizer_free(struct resizer *r)
{
    free(r->x.begin);
    free(r->x.weight);
    free(r->y.begin);
    free(r->y.weight);
    free(r->line);
    *r = (struct resizer){0};
}
