/* Makes JPEG files in memory, for the tests of input/. */
#include "tests/input/jpegs.h"

#include "base/rng.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static void fill_row(const struct jpeg_spec *s, int y, int channels, uint8_t *row)
{
    struct rng rng = rng_at(1, RNG_TEST, (uint64_t)y, 0);
    for (int x = 0; x < s->width; x++)
        for (int c = 0; c < channels; c++) {
            int smooth = (x * (3 + c) + y * (5 - c)) / 2 % 256;
            int value = smooth / 2 + (int)rng_below(&rng, 100);
            row[x * channels + c] = (uint8_t)(s->flat ? s->flat - 1 : value);
        }
}

/* An EXIF block: a TIFF header in big-endian order, and one directory with one entry. */
static void write_exif(struct jpeg_compress_struct *jpeg, int orientation)
{
    uint8_t exif[] = {'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                      1,   18,  0,   3,   0, 0, 0,   1,   0, 0,  0, 0, 0, 0, 0, 0};
    exif[25] = (uint8_t)orientation;
    jpeg_write_marker(jpeg, JPEG_APP0 + 1, exif, sizeof exif);
}

/* A Huffman code with random lengths up to 16, made by splitting leaves of a tree. As in every JPEG
 * file, no code word has only 1 bits: the tree has one more leaf than the code has symbols. */
static void random_code(struct rng *rng, uint32_t symbols, JHUFF_TBL *code)
{
    uint8_t depth[257] = {0}, deepest = 0;
    memset(code->bits, 0, sizeof code->bits);
    for (uint32_t i = 0; i < symbols; i++) {
        uint32_t k = rng_below(rng, i + 1);
        code->huffval[i] = code->huffval[k];
        code->huffval[k] = (UINT8)i;
    }
    for (uint32_t leaves = 1; leaves <= symbols;) {
        uint32_t split = rng_below(rng, leaves);
        if (depth[split] < 16)
            depth[leaves++] = ++depth[split];
    }
    for (uint32_t i = 0; i <= symbols; i++) {
        deepest = depth[i] > deepest ? depth[i] : deepest;
        code->bits[depth[i]]++;
    }
    code->bits[deepest]--;
}

static const struct {
    int channels;
    J_COLOR_SPACE in, stored;
} spaces[] = {
    [JPEG_COLOR] = {3, JCS_RGB, JCS_YCbCr}, [JPEG_GRAY] = {1, JCS_GRAYSCALE, JCS_GRAYSCALE},
    [JPEG_CMYK] = {4, JCS_CMYK, JCS_CMYK},  [JPEG_YCCK] = {4, JCS_CMYK, JCS_YCCK},
    [JPEG_RAW_RGB] = {3, JCS_RGB, JCS_RGB}, [JPEG_TWO_CHANNELS] = {2, JCS_UNKNOWN, JCS_UNKNOWN},
};

static void configure(const struct jpeg_spec *s, struct jpeg_compress_struct *jpeg)
{
    jpeg->image_width = (JDIMENSION)s->width;
    jpeg->image_height = (JDIMENSION)s->height;
    jpeg->input_components = spaces[s->kind].channels;
    jpeg->in_color_space = spaces[s->kind].in;
    jpeg_set_defaults(jpeg);
    jpeg_set_colorspace(jpeg, spaces[s->kind].stored);
    jpeg_set_quality(jpeg, s->quality ? s->quality : 90, TRUE);
    jpeg->comp_info[0].h_samp_factor = s->h_samp ? s->h_samp : 1;
    jpeg->comp_info[0].v_samp_factor = s->v_samp ? s->v_samp : 1;
    jpeg->arith_code = s->arithmetic;
    jpeg->restart_in_rows = s->restart;
    if (s->plain_cmyk)
        jpeg->write_Adobe_marker = FALSE;
    if (s->progressive)
        jpeg_simple_progression(jpeg);
    struct rng rng = rng_at((uint64_t)s->code, RNG_TEST, 0, 1);
    for (int i = 0; s->code && i < 2; i++) {
        random_code(&rng, 16, jpeg->dc_huff_tbl_ptrs[i]);
        random_code(&rng, 256, jpeg->ac_huff_tbl_ptrs[i]);
    }
}

uint8_t *jpeg_make(const struct jpeg_spec *s, size_t *size)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &length);
    configure(s, &jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    if (s->exif)
        write_exif(&jpeg, s->exif);
    uint8_t *row = malloc((size_t)s->width * (size_t)jpeg.input_components);
    assert(row);
    for (int y = 0; y < s->height; y++) {
        fill_row(s, y, jpeg.input_components, row);
        JSAMPROW rows = row;
        jpeg_write_scanlines(&jpeg, &rows, 1);
    }
    free(row);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *size = length;
    return bytes;
}

size_t jpeg_find(const uint8_t *bytes, size_t size, uint8_t code)
{
    for (size_t i = 0; i + 1 < size; i++)
        if (bytes[i] == 0xff && bytes[i + 1] == code)
            return i;
    return 0;
}
