/* Decodes the requested part of a JPEG or PNG picture to RGB pixels.
 *
 * A decoder belongs to one thread and decodes many images, one after the other:
 *
 *     TRY(decoder_begin(d, bytes, size, &info));     reads only the header
 *     TRY(decoder_read(d, shrink, want, &region));   or decoder_check(d)
 *
 * The first bytes of a file give its format; the file's name does not matter. Pixels are those of
 * PIL's convert("RGB"):
 *
 * - JPEG: grayscale, YCbCr, RGB, CMYK and YCCK; sequential, progressive or, if the library supports
 *   it, arithmetic-coded.
 * - PNG: all kinds. Alpha is dropped and gamma ignored. Colour samples of 16 bits are reduced to
 *   their upper 8 bits; 16-bit grayscale samples are instead clipped at 255.
 *
 * A file that lacks only its end marker is read, but for JPEG files of several scans. An EXIF
 * orientation is not applied, as in torchvision's loader. Files are not trusted. The
 * functions return STATUS_DATA, with a reason, for a file that has another format, needs a library
 * that this build lacks, is truncated or damaged, or would need unreasonable memory or time. After
 * such a failure the decoder can decode the next image. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of pixels of a picture. decoder_begin fails for a larger picture. PIL has the same
 * limit. */
#define DECODE_MAX_PIXELS INT64_C(178956970)

struct decoder;

enum image_format { IMAGE_OTHER, IMAGE_JPEG, IMAGE_PNG, IMAGE_FORMATS };

/* Returns "JPEG", "PNG" or "other". */
const char *image_format_str(enum image_format format);

/* If this build lacks the library that decodes a format, returns the library's name, such as
 * "libpng"; else NULL. */
const char *image_format_lacks(enum image_format format);

struct image_info {
    enum image_format format;
    int width, height; /* size of the full picture in pixels */
    int shrink_max;    /* the largest `shrink` that decoder_read accepts: 8 for JPEG, else 1 */
    int unit_width, unit_height; /* JPEG: the file pads its sides to multiples of these */
    bool ended;                  /* the file has an end marker */
    bool gray;
    bool cmyk;        /* CMYK or YCCK */
    bool progressive; /* progressive JPEG or interlaced PNG */
    bool baseline;    /* JPEG of the kind that hardware decodes: sequential, Huffman-coded, 8 bits,
                       * grayscale or YCbCr, with an end marker */
};

struct rect {
    int x, y, w, h;
};

/* Decoded pixels, RGB interleaved. Pixel (x, y) of the reduced picture is at
 *     pixels + (y - at.y) * stride + (x - at.x) * 3
 * The decoder owns the pixels. They are valid until it begins the next image. */
struct region {
    const uint8_t *pixels;
    size_t stride;
    struct rect at;
};

MUST_CHECK enum status decoder_open(struct decoder **d);
void decoder_close(struct decoder *d); /* NULL is fine */

/* Reads the header of a file in memory; `bytes` must stay valid until the image has been read.
 * After a failure info->format is set and all other members of *info are zero. */
MUST_CHECK enum status decoder_begin(struct decoder *d, const uint8_t *bytes, size_t size,
                                     struct image_info *info);

/* Decodes the part `want` of the picture scaled by 1/shrink (1, 2, 4 or 8, at most
 * info.shrink_max). The scaled picture has ceil(width/shrink) x ceil(height/shrink) pixels, and
 * `want` must lie within it. The region covers at least `want`. Its pixels are equal to the pixels
 * of the whole picture decoded at the same scale. */
MUST_CHECK enum status decoder_read(struct decoder *d, int shrink, struct rect want,
                                    struct region *out);

/* Decodes the whole picture and discards it, to check that it is intact. */
MUST_CHECK enum status decoder_check(struct decoder *d);
