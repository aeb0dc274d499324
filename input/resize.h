/* Resamples with a filter whose support grows with the reduction: PIL's BILINEAR, a triangle, or
 * BICUBIC, as torchvision and timm do. Only the requested output pixels are computed.
 *
 * Sums are exact, or are IEEE float sums in a fixed order, so that every machine gets the same
 * pixels (compile with -ffp-contract=off). A bilinear result is within one level (of 256) of the
 * exact filter. PIL rounds between its two passes; this code does so for BICUBIC alone, whose sums
 * may leave 0..255 and are clipped. A bicubic result equals that of PIL up to version 12; PIL 13
 * exchanges the passes for tall pictures. */
#pragma once

#include "base/status.h"
#include "input/decode.h"

#include <stdbool.h>
#include <stdint.h>

enum resize_filter { RESIZE_BILINEAR, RESIZE_BICUBIC };

/* Maps one direction of the output to the source. The centre of output pixel o is at
 *     origin + (o + 0.5) * scale
 * in source pixels (source pixel 0 spans 0..1). The value of an output pixel is a weighted mean of
 * about 2 * max(scale, 1) source pixels, or 4 * max(scale, 1) for BICUBIC. Only source pixels lo to
 * hi-1 exist. */
struct resize_axis {
    double origin;
    double scale;
    int lo, hi;       /* hi > lo */
    int first, count; /* outputs first .. first+count-1 are computed */
    enum resize_filter filter;
};

/* Returns axis `a` converted to a source that decoding has reduced to 1/shrink of its size. */
struct resize_axis resize_axis_shrink(struct resize_axis a, int shrink);

/* Sets *begin and *end: the outputs of the axis need the source pixels *begin .. *end-1. */
void resize_axis_span(const struct resize_axis *a, int *begin, int *end);

/* One direction's weights. Output i is the sum over k < count[i] of
 *     weight[i * taps + k] * source[begin[i] + k]
 * divided by 1 << 14. The weights with k from count[i] to taps-1 are zero. */
struct resize_table {
    int taps;
    int32_t *begin, *count;
    int16_t *weight;
    size_t begin_capacity, count_capacity, weight_capacity; /* bytes */
};

/* Computes the weights of a bilinear axis; `flip` mirrors the order of the outputs. Reuses the
 * table's memory. A zeroed table is empty; resizer_free frees the tables of a resizer. */
MUST_CHECK enum status resize_table_fill(const struct resize_axis *a, bool flip,
                                         struct resize_table *t);

/* Tables and buffers of one thread, reused for every image. Zero it before first use. */
struct resizer {
    bool plain; /* use the loops in plain C, even if the processor has AVX2 */
    struct resize_table x, y;
    float *spread;      /* weights of x, each repeated four times */
    float *line;        /* for RESIZE_ROWS output rows, the sums of weighted source rows */
    size_t line_stride; /* of `line`, in values */
    int32_t *cubic;     /* weights of one output */
    uint8_t *between;   /* between the passes of BICUBIC */
    size_t spread_capacity, line_capacity, cubic_capacity, between_capacity; /* bytes */
};

/* Resamples `src` into `out`, as (y->count, x->count, 3) bytes; `flip` mirrors left and right.
 * STATUS_INVALID if `src` lacks source pixels that the axes need (resize_axis_span); STATUS_OOM. */
MUST_CHECK enum status resizer_run(struct resizer *r, const struct resize_axis *x,
                                   const struct resize_axis *y, bool flip, const struct region *src,
                                   uint8_t *out);
void resizer_free(struct resizer *r);
