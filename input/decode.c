/* libjpeg-turbo behind decode.h.
 *
 * The library reports trouble by calling back; fatal errors and damaged data leave through longjmp
 * to guarded(), the only place with a setjmp, so that no local variable is live across it. */
#include "input/decode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h, whose settings decide on its codes */

enum {
    MAX_SCANS = 500,        /* a progressive file of the field has about ten */
    MAX_WORKING_MIB = 1024, /* what the library may hold for one image */
    EDGE = 2,               /* columns beside a cropped edge that upsampling distorts */
    RGB = 3,
    CMYK = 4,
};

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    enum status failure; /* with this reason */
    char reason[JMSG_LENGTH_MAX];
    const uint8_t *bytes;
    size_t size;
    struct rect want;
    struct region got;
    bool keep;       /* false: rows are decoded and dropped */
    uint8_t *pixels; /* grows, never shrinks */
    size_t capacity;
    uint8_t *inks; /* one CMYK row */
    size_t inks_capacity;
};

static _Noreturn void escape(struct decoder *d, enum status st, const char *reason)
{
    d->failure = st;
    snprintf(d->reason, sizeof d->reason, "%s", reason);
    longjmp(d->escape, 1);
}

static _Noreturn void on_error(j_common_ptr c)
{
    struct decoder *d = c->client_data;
    /* Cases 2 and 4: the system refused; the others are of images that ask for too much. */
    int refused = c->err->msg_code == JERR_OUT_OF_MEMORY ? c->err->msg_parm.i[0] : 0;
    d->failure = refused == 2 || refused == 4 ? STATUS_OOM : STATUS_DATA;
    c->err->format_message(c, d->reason);
    longjmp(d->escape, 1);
}

/* Warnings about pixels that are wrong end the image; those about oddities that every viewer puts
 * up with (stray bytes before a marker, unknown JFIF revisions) do not. */
static void on_message(j_common_ptr c, int level)
{
    if (level >= 0)
        return;
    switch (c->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
        on_error(c);
    default:
        c->err->num_warnings++;
    }
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

/* A few bytes can ask for a whole further pass over the picture. */
static void on_progress(j_common_ptr c)
{
    const struct jpeg_decompress_struct *jpeg = (j_decompress_ptr)c;
    if (jpeg->input_scan_number > MAX_SCANS)
        escape(c->client_data, STATUS_DATA, "more progressive scans than make sense");
}

static enum status guarded(struct decoder *d, void (*body)(struct decoder *d))
{
    if (setjmp(d->escape) != 0) {
        jpeg_abort_decompress(&d->jpeg);
        return status_fail(d->failure, "%s", d->reason);
    }
    body(d);
    return STATUS_OK;
}

static void create(struct decoder *d)
{
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.progress = &d->progress;
    d->jpeg.mem->max_memory_to_use = (long)MAX_WORKING_MIB << 20;
}

enum status decoder_open(struct decoder **out)
{
    *out = NULL;
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return status_fail(STATUS_OOM, "no memory for a JPEG decoder");
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->errors.output_message = on_output;
    d->progress.progress_monitor = on_progress;
    d->jpeg.client_data = d;
    enum status st = guarded(d, create);
    if (st != STATUS_OK) {
        decoder_close(d);
        return status_context(st, "cannot start libjpeg");
    }
    *out = d;
    return STATUS_OK;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    jpeg_destroy_decompress(&d->jpeg);
    free(d->pixels);
    free(d->inks);
    free(d);
}

/* What the bytes are when they are not a JPEG, for the one who must find the file. */
static const char *other_format(const uint8_t *bytes, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *name;
    } known[] = {
        {"\x89PNG", 4, "a PNG file, not a JPEG"}, {"GIF8", 4, "a GIF file, not a JPEG"},
        {"BM", 2, "a BMP file, not a JPEG"},      {"II*\0", 4, "a TIFF file, not a JPEG"},
        {"MM\0*", 4, "a TIFF file, not a JPEG"},  {"RIFF", 4, "a WebP file, not a JPEG"},
    };
    if (size == 0)
        return "an empty file";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size >= known[i].size && memcmp(bytes, known[i].magic, known[i].size) == 0)
            return known[i].name;
    return "not a JPEG file";
}

/* Within entropy-coded data 0xff is always escaped, so an end marker behind the first scan's header
 * is a real one. Looking for it finds a truncated file even when only its top is wanted. */
static bool has_end(const uint8_t *from, const uint8_t *end)
{
    for (const uint8_t *p = end; p - from >= 2;) {
        p = memrchr(from, 0xff, (size_t)(p - from) - 1);
        if (!p)
            return false;
        if (p[1] == JPEG_EOI)
            return true;
        p++; /* the search above leaves out its last byte */
    }
    return false;
}

static void read_header(struct decoder *d)
{
    jpeg_abort_decompress(&d->jpeg); /* whatever is left of the image before */
    jpeg_mem_src(&d->jpeg, d->bytes, d->size);
    jpeg_read_header(&d->jpeg, TRUE);
    if ((int64_t)d->jpeg.image_width * d->jpeg.image_height > DECODE_MAX_PIXELS) {
        snprintf(d->reason, sizeof d->reason, "%ux%u pixels are more than the limit of %lld",
                 d->jpeg.image_width, d->jpeg.image_height, (long long)DECODE_MAX_PIXELS);
        longjmp(d->escape, 1);
    }
    if (!has_end(d->jpeg.src->next_input_byte, d->bytes + d->size))
        escape(d, STATUS_DATA, "truncated: the end-of-image marker is missing");
}

enum status decoder_begin(struct decoder *d, const uint8_t *bytes, size_t size,
                          struct jpeg_info *info)
{
    if (size < 3 || bytes[0] != 0xff || bytes[1] != 0xd8 || bytes[2] != 0xff)
        return status_fail(STATUS_DATA, "%s", other_format(bytes, size));
    d->bytes = bytes;
    d->size = size;
    TRY(guarded(d, read_header));
    const struct jpeg_decompress_struct *jpeg = &d->jpeg;
    *info = (struct jpeg_info){
        .width = (int)jpeg->image_width,
        .height = (int)jpeg->image_height,
        .gray = jpeg->jpeg_color_space == JCS_GRAYSCALE,
        .cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK,
        .progressive = jpeg->progressive_mode,
    };
    return STATUS_OK;
}

static void reserve(struct decoder *d, uint8_t **buffer, size_t *capacity, size_t size)
{
    if (size <= *capacity)
        return;
    free(*buffer);
    *capacity = 0;
    *buffer = malloc(size);
    if (!*buffer)
        escape(d, STATUS_OOM, "no memory for an image's pixels");
    *capacity = size;
}

/* PIL's conversion, with the inks inverted where Adobe's marker says that they are stored so. */
static void inks_to_rgb(const uint8_t *inks, uint8_t *rgb, size_t n, bool inverted)
{
    uint8_t flip = inverted ? 0xff : 0;
    for (size_t i = 0; i < n; i++) {
        int white = 255 - (inks[i * CMYK + 3] ^ flip);
        for (int c = 0; c < RGB; c++) {
            int ink = inks[i * CMYK + (size_t)c] ^ flip;
            rgb[i * RGB + (size_t)c] = (uint8_t)(white - (white * ink + 127) / 255);
        }
    }
}

/* Narrows the columns to those around `want`. The library moves the left edge to a block's, and
 * upsampling at both edges lacks its neighbours: hence the margin. Where reduction does a part of a
 * fourfold upsampling, libjpeg-turbo (2.1) miscounts the columns of a crop: rare, and left whole.
 */
static void crop_columns(struct decoder *d)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    JDIMENSION x = d->want.x > EDGE ? (JDIMENSION)(d->want.x - EDGE) : 0;
    JDIMENSION end = (JDIMENSION)(d->want.x + d->want.w + EDGE);
    if (end > jpeg->output_width)
        end = jpeg->output_width;
    if (jpeg->scale_denom > 1 && jpeg->max_h_samp_factor > 2) {
        x = 0;
        end = jpeg->output_width;
    }
    JDIMENSION width = end - x;
    if (width < jpeg->output_width)
        jpeg_crop_scanline(jpeg, &x, &width);
    d->got.at = (struct rect){(int)x, d->want.y, (int)width, d->want.h};
}

static void read_pixels(struct decoder *d)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_start_decompress(jpeg);
    crop_columns(d);
    size_t width = (size_t)d->got.at.w;
    bool inks = jpeg->out_color_space == JCS_CMYK;
    d->got.stride = width * RGB;
    reserve(d, &d->pixels, &d->capacity, d->got.stride * (d->keep ? (size_t)d->want.h : 1));
    if (inks)
        reserve(d, &d->inks, &d->inks_capacity, width * CMYK);
    d->got.pixels = d->pixels;
    if (d->want.y > 0)
        jpeg_skip_scanlines(jpeg, (JDIMENSION)d->want.y);
    for (int y = 0; y < d->want.h; y++) {
        uint8_t *rgb = d->pixels + (d->keep ? (size_t)y * d->got.stride : 0);
        JSAMPROW row = inks ? d->inks : rgb;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (inks)
            inks_to_rgb(d->inks, rgb, width, jpeg->saw_Adobe_marker);
    }
    jpeg_abort_decompress(jpeg); /* rows below are not wanted */
}

static enum status read_rect(struct decoder *d, int shrink, struct rect want, bool keep)
{
    bool inks = d->jpeg.jpeg_color_space == JCS_CMYK || d->jpeg.jpeg_color_space == JCS_YCCK;
    d->jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    d->jpeg.scale_num = 1;
    d->jpeg.scale_denom = (unsigned)shrink;
    d->jpeg.dct_method = JDCT_ISLOW;
    d->jpeg.do_block_smoothing = FALSE; /* only guesses what a whole file says */
    d->want = want;
    d->keep = keep;
    return guarded(d, read_pixels);
}

enum status decoder_read(struct decoder *d, int shrink, struct rect want, struct region *out)
{
    int width = ((int)d->jpeg.image_width + shrink - 1) / shrink;
    int height = ((int)d->jpeg.image_height + shrink - 1) / shrink;
    if (want.x < 0 || want.y < 0 || want.w < 1 || want.h < 1 || want.w > width - want.x ||
        want.h > height - want.y)
        return status_fail(STATUS_INVALID, "rectangle %dx%d+%d+%d is not within %dx%d pixels",
                           want.w, want.h, want.x, want.y, width, height);
    TRY(read_rect(d, shrink, want, true));
    *out = d->got;
    return STATUS_OK;
}

enum status decoder_check(struct decoder *d)
{
    struct rect all = {0, 0, (int)d->jpeg.image_width, (int)d->jpeg.image_height};
    return read_rect(d, 1, all, false);
}
