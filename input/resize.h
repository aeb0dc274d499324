/* Resampling with a triangle filter whose support grows with the reduction (PIL's BILINEAR, which
 * torchvision uses on images), computing no more than the output pixels asked for.
 *
 * Sums are exact, or rounded as IEEE floats are in a fixed order, so that every machine gets the
 * same pixels (compile with -ffp-contract=off). A result is within one level of the exact filter;
 * PIL rounds between its two passes, this does not. */
#ifndef INPUT_RESIZE_H
#define INPUT_RESIZE_H

#include "base/status.h"
#include "input/decode.h"

#include <stdbool.h>
#include <stdint.h>

/* How one direction of the output is laid over the source. Output pixel o has its centre at
 * origin + (o + 0.5) * scale, in source pixels (the first spans 0..1), and is a mean over about
 * 2 * max(scale, 1) source pixels, of which only lo .. hi-1 exist. */
struct resize_axis {
    double origin;
    double scale;
    int lo, hi;       /* hi > lo */
    int first, count; /* outputs first .. first+count-1 are wanted */
};

/* The same view of a source that was reduced by 1/shrink in decoding. */
struct resize_axis resize_axis_shrink(struct resize_axis a, int shrink);

/* The source pixels *begin .. *end-1 that the wanted outputs use. */
void resize_axis_span(const struct resize_axis *a, int *begin, int *end);

/* One direction's weights: output i is the sum of weight[i * taps + k] * source[begin[i] + k] over
 * k < count[i], divided by 1 << 14. */
struct resize_table {
    int taps;
    int32_t *begin, *count;
    int16_t *weight;
    size_t begin_capacity, count_capacity, weight_capacity; /* bytes */
};

/* Tables and buffers, reused from image to image by one thread. Zero it before first use. */
struct resizer {
    struct resize_table x, y;
    float *spread;                         /* x's weights, each four times */
    float *line;                           /* one row of the source, blended */
    size_t spread_capacity, line_capacity; /* bytes */
};

/* Writes (y.count, x.count, 3) bytes; `flip` mirrors left and right. `src` must hold the spans of
 * both axes. STATUS_OOM, or STATUS_INVALID when it does not hold them. */
MUST_CHECK enum status resizer_run(struct resizer *r, const struct resize_axis *x,
                                   const struct resize_axis *y, bool flip, const struct region *src,
                                   uint8_t *out);
void resizer_free(struct resizer *r);
#endif
