/* JPEG bytes to RGB pixels, decoding no more of the picture than is asked for.
 *
 * A decoder belongs to one thread and serves many images, one after the other:
 *
 *     TRY(decoder_begin(d, bytes, size, &info));     header read, nothing decoded yet
 *     TRY(decoder_read(d, shrink, want, &region));   or decoder_check(d)
 *
 * Grayscale, YCbCr, RGB, CMYK and YCCK come out as RGB; sequential, progressive and (where the
 * library can) arithmetic-coded files alike. An EXIF orientation is not applied, as torchvision's
 * loader does not apply it. Bytes are hostile: what is not a JPEG, is truncated or damaged, or
 * would take unreasonable memory or time is STATUS_DATA with a reason, and the decoder stays fit
 * for the next image. */
#ifndef INPUT_DECODE_H
#define INPUT_DECODE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Larger images are refused before they are decoded; PIL refuses the same. */
#define DECODE_MAX_PIXELS INT64_C(178956970)

struct decoder;

struct jpeg_info {
    int width, height; /* of the full picture */
    bool gray;
    bool cmyk; /* CMYK or YCCK */
    bool progressive;
};

struct rect {
    int x, y, w, h;
};

/* Decoded pixels, RGB interleaved: the pixel (x, y) of the shrunken picture lies at
 * pixels + (y - at.y) * stride + (x - at.x) * 3. The decoder owns them, until its next image. */
struct region {
    const uint8_t *pixels;
    size_t stride;
    struct rect at;
};

MUST_CHECK enum status decoder_open(struct decoder **d);
void decoder_close(struct decoder *d); /* NULL is fine */

/* Reads the header of a file held in memory; the bytes must stay until the image has been read. */
MUST_CHECK enum status decoder_begin(struct decoder *d, const uint8_t *bytes, size_t size,
                                     struct jpeg_info *info);

/* Decodes `want` of the picture scaled by 1/shrink, shrink being 1, 2, 4 or 8; the scaled picture
 * has ceil(width/shrink) x ceil(height/shrink) pixels and `want` lies within it. The region holds
 * at least `want`, and its pixels equal those of a full decode at that scale. */
MUST_CHECK enum status decoder_read(struct decoder *d, int shrink, struct rect want,
                                    struct region *out);

/* Decodes the whole picture and keeps nothing: is it sound? */
MUST_CHECK enum status decoder_check(struct decoder *d);
#endif
