/* Decodes PNG files with libpng.
 *
 * The library's errors call longjmp, which returns to guarded(). Only guarded() calls setjmp, so
 * that no local variable is live across it. */
#include "base/array.h"
#include "input/decode_format.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum {
    SIGNATURE = 8,
    CHUNK = 12, /* bytes of a chunk in addition to its data: length, type, checksum */
    DEEP = 2,   /* bytes of a pixel of 16-bit grayscale */
};

struct png_decoder {
    png_structp png; /* the library's state for the current image; NULL: none */
    png_infop header;
    jmp_buf escape;
    enum status failure; /* the failure that ended the call; its message is `reason` */
    char reason[160];
    const uint8_t *next, *end; /* bytes that the library has not read */
    bool ended;                /* the file has its last chunk */
    int width, height;
    bool deep, interlaced;
    struct rect want;
    bool keep;       /* false: rows are decoded and dropped */
    uint8_t *pixels; /* decoded pixels of `want` */
    size_t capacity;
    uint8_t *rows; /* one row as the library returns it, or all rows of an interlaced picture */
    size_t rows_capacity;
};

static _Noreturn void escape(struct png_decoder *d, enum status st, const char *reason)
{
    if (d->failure == STATUS_OK)
        d->failure = st;
    snprintf(d->reason, sizeof d->reason, "%s", reason);
    longjmp(d->escape, 1);
}

static void on_error(png_structp png, png_const_charp message)
{
    escape(png_get_error_ptr(png), STATUS_DATA, message);
}

/* Ignores warnings: they concern parts of the file that do not change the pixels. */
static void on_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    void *mem = malloc(size);
    if (!mem)
        ((struct png_decoder *)png_get_mem_ptr(png))->failure = STATUS_OOM;
    return mem;
}

static void on_free(png_structp png, png_voidp mem)
{
    (void)png;
    free(mem);
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct png_decoder *d = png_get_io_ptr(png);
    if ((size_t)(d->end - d->next) < n)
        png_error(png, "truncated");
    memcpy(out, d->next, n);
    d->next += n;
}

static void discard(struct png_decoder *d)
{
    png_destroy_read_struct(&d->png, &d->header, NULL);
}

static enum status guarded(struct png_decoder *d, void (*body)(struct png_decoder *d))
{
    d->failure = STATUS_OK;
    if (setjmp(d->escape) != 0) {
        discard(d);
        return status_fail(d->failure, "damaged PNG: %s", d->reason);
    }
    body(d);
    return STATUS_OK;
}

static enum status open_png(void **out)
{
    struct png_decoder *d;
    enum status st = array_new(&d, 1);
    *out = d;
    return st;
}

static void close_png(void *own)
{
    struct png_decoder *d = own;
    discard(d);
    free(d->pixels);
    free(d->rows);
    free(d);
}

/* Returns whether the file has its last chunk, which is empty. */
static bool has_end(const uint8_t *bytes, size_t size)
{
    for (size_t at = SIGNATURE; size - at >= CHUNK;) {
        size_t length = png_get_uint_32(bytes + at);
        if (length > size - at - CHUNK)
            return false;
        if (memcmp(bytes + at + 4, "IEND", 4) == 0)
            return true;
        at += CHUNK + length;
    }
    return false;
}

static void read_header(struct png_decoder *d)
{
    d->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, on_error, on_warning, d, on_malloc,
                                      on_free);
    if (!d->png)
        escape(d, STATUS_OOM, "cannot start libpng");
    d->header = png_create_info_struct(d->png);
    if (!d->header)
        escape(d, STATUS_OOM, "no memory for a header");
    png_set_read_fn(d->png, d, on_read);
    png_set_user_limits(d->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* begin_png limits the pixels */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    png_set_crc_action(d->png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#endif
    /* Only the chunks IHDR, PLTE, IDAT and IEND are used: texts, profiles and transparency are
     * neither decompressed nor kept. */
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "tRNS", 1);
    png_read_info(d->png, d->header);
}

static enum status begin_png(void *own, const uint8_t *bytes, size_t size, struct image_info *info)
{
    struct png_decoder *d = own;
    discard(d);
    info->ended = d->ended = has_end(bytes, size);
    d->next = bytes;
    d->end = bytes + size;
    TRY(guarded(d, read_header));
    int color = png_get_color_type(d->png, d->header);
    d->width = (int)png_get_image_width(d->png, d->header);
    d->height = (int)png_get_image_height(d->png, d->header);
    TRY(decode_check_pixels(d->width, d->height));
    d->deep = color == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(d->png, d->header) == 16;
    d->interlaced = png_get_interlace_type(d->png, d->header) != PNG_INTERLACE_NONE;
    info->width = d->width;
    info->height = d->height;
    info->shrink_max = 1;
    info->gray = (color & PNG_COLOR_MASK_COLOR) == 0;
    info->progressive = d->interlaced;
    return STATUS_OK;
}

/* Makes the library convert rows to RGB, except rows of 16-bit grayscale. */
static void convert(struct png_decoder *d)
{
    if (!d->deep) {
        png_set_strip_16(d->png);
        png_set_expand(d->png);
        png_set_strip_alpha(d->png);
        png_set_gray_to_rgb(d->png);
    }
    if (d->interlaced)
        png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->header);
    size_t pixel = d->deep ? DEEP : DECODE_RGB;
    if (png_get_rowbytes(d->png, d->header) != pixel * (size_t)d->width)
        escape(d, STATUS_DATA, "the rows have an unknown pixel format");
}

/* Copies the columns of `want` from row y. Does nothing if the row is outside `want`. */
static void keep_row(struct png_decoder *d, int y, const uint8_t *row)
{
    if (!d->keep || y < d->want.y || y >= d->want.y + d->want.h)
        return;
    size_t x = (size_t)d->want.x, w = (size_t)d->want.w;
    uint8_t *out = d->pixels + (size_t)(y - d->want.y) * w * DECODE_RGB;
    if (!d->deep) {
        memcpy(out, row + x * DECODE_RGB, w * DECODE_RGB);
        return;
    }
    for (size_t i = 0; i < w; i++) {
        const uint8_t *value = row + (x + i) * DEEP;
        memset(out + i * DECODE_RGB, value[0] ? 255 : value[1], DECODE_RGB);
    }
}

/* Reads all rows of an interlaced picture before it copies any row, because rows are complete only
 * after the last pass. */
static void read_interlaced(struct png_decoder *d, size_t row_bytes)
{
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
        for (int y = 0; y < d->height; y++)
            png_read_row(d->png, d->rows + (d->keep ? (size_t)y * row_bytes : 0), NULL);
    for (int y = 0; d->keep && y < d->height; y++)
        keep_row(d, y, d->rows + (size_t)y * row_bytes);
}

static void read_pixels(struct png_decoder *d)
{
    convert(d);
    size_t row_bytes = png_get_rowbytes(d->png, d->header);
    size_t rows = d->interlaced && d->keep ? (size_t)d->height : 1;
    size_t pixels = d->keep ? (size_t)d->want.w * (size_t)d->want.h * DECODE_RGB : 0;
    if (!decode_reserve(&d->rows, &d->rows_capacity, rows * row_bytes) ||
        !decode_reserve(&d->pixels, &d->capacity, pixels))
        escape(d, STATUS_OOM, "no memory for an image's pixels");
    int end = d->want.y + d->want.h; /* the rows below `want` are not needed */
    if (d->interlaced)
        read_interlaced(d, row_bytes);
    for (int y = 0; !d->interlaced && y < end; y++) {
        png_read_row(d->png, d->rows, NULL);
        keep_row(d, y, d->rows);
    }
    if (!d->keep && d->ended)
        png_read_end(d->png, NULL);
}

static enum status read_png(void *own, int shrink, struct rect want, bool keep, struct region *out)
{
    struct png_decoder *d = own;
    (void)shrink;
    d->want = want;
    d->keep = keep;
    TRY(guarded(d, read_pixels));
    discard(d);
    if (keep)
        *out = (struct region){d->pixels, (size_t)want.w * DECODE_RGB, want};
    return STATUS_OK;
}

const struct decode_format decode_png = {open_png, close_png, begin_png, read_png};
