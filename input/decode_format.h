/* Internal to the decoder: the functions of each format (decode_jpeg.c, decode_png.c). */
#pragma once

#include "input/decode.h"

#include <stdlib.h>

enum { DECODE_RGB = 3 }; /* bytes of a pixel */

struct decode_format {
    /* The functions below share `own`, the state of this format's decoder. One state decodes many
     * images, one after the other. */
    enum status (*open)(void **own);
    void (*close)(void *own); /* not called with NULL */

    /* Reads the header of a file whose first bytes are those of this format. Fills in *info, except
     * info->format. Detects truncation if this is possible without decoding. */
    enum status (*begin)(void *own, const uint8_t *bytes, size_t size, struct image_info *info);

    /* Works as decoder_read does. `want` must lie within the scaled picture. If `keep` is false,
     * decodes the whole picture, checks that the file is intact, and leaves *out unchanged. */
    enum status (*read)(void *own, int shrink, struct rect want, bool keep, struct region *out);
};

extern const struct decode_format decode_jpeg, decode_png;

/* Returns STATUS_DATA for a picture of more than DECODE_MAX_PIXELS. */
MUST_CHECK static inline enum status decode_check_pixels(int64_t width, int64_t height)
{
    if (width * height <= DECODE_MAX_PIXELS)
        return STATUS_OK;
    return status_fail(STATUS_DATA, "%lldx%lld pixels are more than the limit of %lld",
                       (long long)width, (long long)height, (long long)DECODE_MAX_PIXELS);
}

/* Makes *buffer at least `size` bytes long; its contents may be lost. Returns false if there is no
 * memory. */
static inline bool decode_reserve(uint8_t **buffer, size_t *capacity, size_t size)
{
    if (size <= *capacity)
        return true;
    free(*buffer);
    *buffer = malloc(size);
    *capacity = *buffer ? size : 0;
    return *buffer != NULL;
}
