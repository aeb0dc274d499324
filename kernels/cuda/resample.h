/* The kernel that crops, resamples and flips decoded pictures, for the decoder of JPEG files
 * (engine/nvjpeg/). It is no operation of kernels/ops.h: pictures differ in size from one call to
 * the next, and the plan of an operation has fixed shapes. input/resize.h defines its results. */
#pragma once

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CU_RESAMPLE_SPAN = 1536, /* cu_picture.x.taps must be below this */
    CU_UNWRITTEN = 0xA5,     /* byte with which memory is filled before a picture is decoded */
};

/* One direction's weights: output i is the sum over k < count[i] of
 *   weight[i * taps + k] * source[begin[i] + k],
 * divided by 1 << 14. taps is at least 2 * s + 1. s is the distance between the places of
 * neighbouring outputs in the source, rounded up; it is at least 1. The values of begin increase
 * with i, or decrease if the picture is flipped. */
struct cu_weights {
    int taps;
    const int32_t *begin, *count;
    const int16_t *weight;
};

struct cu_picture {
    const uint8_t *rgb; /* (height, width, 3); rows are `pitch` bytes apart */
    int64_t pitch;
    int width, height;
    struct cu_weights x, y; /* of `side` outputs each */
    uint8_t *out;           /* (side, side, 3) */
    int32_t *written;       /* becomes 0 if all bytes of the last row are CU_UNWRITTEN, else 1 */
};

/* Resamples n pictures, n < 65536; `picture` is in device memory. Pointers need no alignment. */
MUST_CHECK enum status cu_resample(const struct cu_queue *q, int side, int n,
                                   const struct cu_picture *picture);

#ifdef __cplusplus
}
#endif
