#include "tests/input/plain_decode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h> /* must follow jpeglib.h */

struct plain {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    uint8_t *pixels;
};

static _Noreturn void fail(j_common_ptr c)
{
    struct plain *p = c->client_data;
    longjmp(p->escape, 1);
}

static void warn(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                      code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC))
        fail(c);
}

static void read_all(struct plain *p, const uint8_t *bytes, size_t size, int shrink)
{
    struct jpeg_decompress_struct *jpeg = &p->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, bytes, size);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = JCS_RGB;
    jpeg->scale_denom = (unsigned)shrink;
    jpeg->do_block_smoothing = FALSE;
    jpeg_start_decompress(jpeg);
    size_t row = (size_t)jpeg->output_width * 3;
    p->pixels = malloc(row * jpeg->output_height);
    for (JDIMENSION y = 0; p->pixels && y < jpeg->output_height; y++) {
        JSAMPROW line = p->pixels + y * row;
        jpeg_read_scanlines(jpeg, &line, 1);
    }
}

/* Only this function calls setjmp. It has no local variable, because longjmp could make such
 * variables indeterminate. */
static bool guarded(struct plain *p, const uint8_t *bytes, size_t size, int shrink)
{
    if (setjmp(p->escape) != 0)
        return false;
    read_all(p, bytes, size, shrink);
    return p->pixels != NULL;
}

bool plain_decode(const uint8_t *bytes, size_t size, int shrink, uint8_t **pixels)
{
    struct plain p = {0};
    p.jpeg.err = jpeg_std_error(&p.errors);
    p.errors.error_exit = fail;
    p.errors.emit_message = warn;
    p.jpeg.client_data = &p;
    bool sound = guarded(&p, bytes, size, shrink);
    if (!sound)
        free(p.pixels);
    *pixels = sound ? p.pixels : NULL;
    jpeg_destroy_decompress(&p.jpeg);
    return sound;
}
