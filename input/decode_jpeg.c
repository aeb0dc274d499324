/* Decodes JPEG files with libjpeg-turbo. jpeg_scan.h decodes the entropy-coded data of most files.
 *
 * The library reports errors to callbacks. For fatal errors and damaged data, the callbacks call
 * longjmp, which returns to guarded(). Only guarded() calls setjmp, so that no local variable is
 * live across it. */
#include "base/array.h"
#include "input/decode_format.h"
#include "input/jpeg_scan.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* must follow jpeglib.h, whose settings determine the error codes */
#ifdef AMPSCALE_JPEG_SCAN
#include <jpegint.h>
#endif

enum {
    MAX_SCANS = 500,        /* limit of scans per file; a usual progressive file has about ten */
    MAX_WORKING_MIB = 1024, /* limit of the library's memory for one image */
    EDGE = 2, /* number of columns at a cropped edge whose pixels differ from those of the whole
                 image, because upsampling lacks their neighbours */
    CMYK = 4,
    SHRINK_MAX = 8,
};

struct jpeg_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    enum status failure; /* the failure that ended the call; its message is `reason` */
    char reason[JMSG_LENGTH_MAX];
    const uint8_t *bytes;
    size_t size;
    struct jpeg_scan scan;
    struct rect want;
    struct region got;
    bool keep;       /* false: rows are decoded and dropped */
    uint8_t *pixels; /* grows, never shrinks */
    size_t capacity;
    uint8_t *inks; /* one CMYK row */
    size_t inks_capacity;
};

static _Noreturn void escape(struct jpeg_decoder *d, enum status st, const char *reason)
{
    d->failure = st;
    snprintf(d->reason, sizeof d->reason, "%s", reason);
    longjmp(d->escape, 1);
}

static _Noreturn void on_error(j_common_ptr c)
{
    struct jpeg_decoder *d = c->client_data;
    /* Codes 0, 2 and 4 mean that the system has no memory. Other codes mean that the image needs
     * more memory than the limit. */
    int refused = c->err->msg_code == JERR_OUT_OF_MEMORY ? c->err->msg_parm.i[0] : -1;
    d->failure = refused == 0 || refused == 2 || refused == 4 ? STATUS_OOM : STATUS_DATA;
    c->err->format_message(c, d->reason);
    longjmp(d->escape, 1);
}

/* Treats a warning about wrong pixels as an error. Ignores a warning about an irregularity that
 * every viewer accepts, such as stray bytes before a marker or an unknown JFIF revision. */
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

/* Limits the number of scans: a scan of a few bytes can cause a pass over the whole picture. */
static void on_progress(j_common_ptr c)
{
    const struct jpeg_decompress_struct *jpeg = (j_decompress_ptr)c;
    if (jpeg->input_scan_number > MAX_SCANS)
        escape(c->client_data, STATUS_DATA, "more progressive scans than a real image has");
}

static enum status guarded(struct jpeg_decoder *d, void (*body)(struct jpeg_decoder *d))
{
    if (setjmp(d->escape) != 0) {
        jpeg_abort_decompress(&d->jpeg);
        return status_fail(d->failure, "%s", d->reason);
    }
    body(d);
    return STATUS_OK;
}

static void create(struct jpeg_decoder *d)
{
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.progress = &d->progress;
    d->jpeg.mem->max_memory_to_use = (long)MAX_WORKING_MIB << 20;
}

static enum status open_jpeg(void **out)
{
    struct jpeg_decoder *d;
    TRY(array_new(&d, 1));
    *out = d;
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->errors.output_message = on_output;
    d->progress.progress_monitor = on_progress;
    d->jpeg.client_data = d;
    enum status st = guarded(d, create);
    return st == STATUS_OK ? st : status_context(st, "cannot start libjpeg");
}

static void close_jpeg(void *own)
{
    struct jpeg_decoder *d = own;
    jpeg_destroy_decompress(&d->jpeg);
    free(d->pixels);
    free(d->inks);
    free(d);
}

/* Returns whether the file has an end marker. Searches backward from `end` to `from`, which follows
 * the first scan's header. Entropy-coded data escapes the byte 0xff, so a marker found there is
 * real. */
static bool has_end(const uint8_t *from, const uint8_t *end)
{
    for (const uint8_t *p = end; p - from >= 2;) {
        p = memrchr(from, 0xff, (size_t)(p - from) - 1);
        if (!p)
            return false;
        if (p[1] == JPEG_EOI)
            return true;
        p++; /* the next search then begins at p - 2, the byte before this 0xff */
    }
    return false;
}

static void read_header(struct jpeg_decoder *d)
{
    jpeg_destroy_decompress(&d->jpeg); /* jpeg_abort would keep the tables of the previous image */
    create(d);
    jpeg_mem_src(&d->jpeg, d->bytes, d->size);
    jpeg_read_header(&d->jpeg, TRUE);
    if (decode_check_pixels(d->jpeg.image_width, d->jpeg.image_height) != STATUS_OK)
        escape(d, STATUS_DATA, status_message());
}

static enum status begin_jpeg(void *own, const uint8_t *bytes, size_t size, struct image_info *info)
{
    struct jpeg_decoder *d = own;
    d->bytes = bytes;
    d->size = size;
    TRY(guarded(d, read_header));
    const struct jpeg_decompress_struct *jpeg = &d->jpeg;
    struct jpeg_source_mgr *data = jpeg->src;
    const uint8_t *from = data->next_input_byte, *end = bytes + size;
    info->ended = has_end(from, end);
    /* Without an end marker, zeros at the end are not data: an interrupted copy may have them.
     * Where they follow 0xff, they are part of a byte. */
    while (!info->ended && end - from >= 2 && end[-1] == 0 && end[-2] != 0xff)
        end--;
    data->bytes_in_buffer = (size_t)(end - from);
    info->width = (int)jpeg->image_width;
    info->height = (int)jpeg->image_height;
    info->shrink_max = SHRINK_MAX;
    info->unit_width = jpeg->max_h_samp_factor * DCTSIZE;
    info->unit_height = jpeg->max_v_samp_factor * DCTSIZE;
    info->gray = jpeg->jpeg_color_space == JCS_GRAYSCALE;
    info->cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    info->progressive = jpeg->progressive_mode;
    info->baseline = info->ended && !jpeg->progressive_mode && !jpeg->arith_code &&
                     jpeg->data_precision == 8 &&
                     (info->gray || jpeg->jpeg_color_space == JCS_YCbCr);
    return STATUS_OK;
}

static void reserve(struct jpeg_decoder *d, uint8_t **buffer, size_t *capacity, size_t size)
{
    if (!decode_reserve(buffer, capacity, size))
        escape(d, STATUS_OOM, "no memory for an image's pixels");
}

/* Converts CMYK to RGB as PIL does, which takes the inks of every file as inverted, as Adobe's
 * programs store them. */
static void inks_to_rgb(const uint8_t *inks, uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int white = inks[i * CMYK + 3];
        for (int c = 0; c < DECODE_RGB; c++) {
            int ink = 255 - inks[i * CMYK + (size_t)c];
            rgb[i * DECODE_RGB + (size_t)c] = (uint8_t)(white - (white * ink + 127) / 255);
        }
    }
}

/* Limits decoding to the columns of `want` and EDGE more columns on both sides, since upsampling
 * lacks neighbours at a cropped edge. The library moves the left edge outwards to the edge of a
 * block.
 *
 * Where chroma has a quarter of the columns, decoding at a reduced size needs less upsampling, and
 * libjpeg-turbo 2.1 then miscounts the columns of a crop. Such files are rare; they are not
 * cropped. */
static void crop_columns(struct jpeg_decoder *d)
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

#ifdef AMPSCALE_JPEG_SCAN
static boolean decode_unit(j_decompress_ptr jpeg, JBLOCKROW *blocks)
{
    struct jpeg_decoder *d = jpeg->client_data;
    jpeg_scan_unit(&d->scan, jpeg, blocks);
    return TRUE;
}

/* Replaces libjpeg's decoder of entropy-coded data with jpeg_scan.h. The pointer to the decoding
 * function has been at the same place in libjpeg's struct since version 6. */
static void replace_entropy_decoder(struct jpeg_decoder *d)
{
    JDIMENSION x = (JDIMENSION)d->got.at.x, width = (JDIMENSION)d->got.at.w;
    if (jpeg_scan_begin(&d->scan, &d->jpeg, x, width))
        d->jpeg.entropy->decode_mcu = decode_unit;
}
#else
static void replace_entropy_decoder(struct jpeg_decoder *d)
{
    (void)d;
}
#endif

static void read_pixels(struct jpeg_decoder *d)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_start_decompress(jpeg);
    crop_columns(d);
    replace_entropy_decoder(d);
    size_t width = (size_t)d->got.at.w;
    bool inks = jpeg->out_color_space == JCS_CMYK;
    d->got.stride = width * DECODE_RGB;
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
            inks_to_rgb(d->inks, rgb, width);
    }
    jpeg_abort_decompress(jpeg); /* the rows below `want` are not needed */
}

static enum status read_jpeg(void *own, int shrink, struct rect want, bool keep, struct region *out)
{
    struct jpeg_decoder *d = own;
    bool inks = d->jpeg.jpeg_color_space == JCS_CMYK || d->jpeg.jpeg_color_space == JCS_YCCK;
    d->jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    d->jpeg.scale_num = 1;
    d->jpeg.scale_denom = (unsigned)shrink;
    d->jpeg.dct_method = JDCT_ISLOW;
    d->jpeg.do_block_smoothing = FALSE; /* smoothing only estimates data that an incomplete file
                                         * lacks */
    d->want = want;
    d->keep = keep;
    TRY(guarded(d, read_pixels));
    if (keep)
        *out = d->got;
    return STATUS_OK;
}

const struct decode_format decode_jpeg = {open_jpeg, close_jpeg, begin_jpeg, read_jpeg};
