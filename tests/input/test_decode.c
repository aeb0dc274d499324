/* Tests that the decoder decodes every kind of JPEG file that users have to libjpeg's pixels, and
 * that it refuses damaged files and files that are not JPEG. */
#include "tests/input/decoded.h"
#include "tests/input/jpegs.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* must follow jpeglib.h */

enum { W = 203, H = 149 };

static const struct jpeg_spec specs[] = {
    {W, H},
    {W, H, .h_samp = 2, .v_samp = 1, .quality = 100},
    {W, H, .h_samp = 1, .v_samp = 2, .quality = 30},
    {W, H, .h_samp = 2, .v_samp = 2, .restart = 1},
    {W, H, .h_samp = 4, .v_samp = 1, .restart = 2},
    {W, H, .h_samp = 4, .v_samp = 2},
    {W, H, .h_samp = 2, .v_samp = 2, .code = 1},
    {W, H, .quality = 100, .code = 2},
    {W, H, JPEG_GRAY, .code = 3, .restart = 1},
    {W, H, JPEG_GRAY},
    {W, H, JPEG_RAW_RGB, .exif = 3},
    {W, H, .progressive = true},
    {W, H, .h_samp = 2, .v_samp = 1, .progressive = true},
    {W, H, .h_samp = 2, .v_samp = 2, .progressive = true},
    {W, H, .h_samp = 4, .v_samp = 2, .progressive = true},
    {W, H, JPEG_CMYK},
    {W, H, JPEG_YCCK, .exif = 6}, /* an orientation that swaps sides, which is ignored */
    {99, 75, .h_samp = 2, .v_samp = 2, .arithmetic = true},
    {1, 1, .h_samp = 2, .v_samp = 2},
    {3, 9, .h_samp = 2, .v_samp = 2},
    {9, 5, .h_samp = 2, .v_samp = 2},
};

/* --- libjpeg alone --- */

struct plain {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    uint8_t *pixels;
};

static _Noreturn void on_error(j_common_ptr c)
{
    struct plain *p = c->client_data;
    longjmp(p->escape, 1);
}

static void on_message(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                      code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC))
        on_error(c);
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

/* Decodes a whole file to RGB pixels, malloc'ed. Returns NULL if libjpeg warns of damage that makes
 * pixels wrong. */
static uint8_t *plain_decode(const uint8_t *bytes, size_t size, int shrink)
{
    struct plain p = {0};
    p.jpeg.err = jpeg_std_error(&p.errors);
    p.errors.error_exit = on_error;
    p.errors.emit_message = on_message;
    p.jpeg.client_data = &p;
    bool sound = guarded(&p, bytes, size, shrink);
    jpeg_destroy_decompress(&p.jpeg);
    if (!sound)
        free(p.pixels);
    return sound ? p.pixels : NULL;
}

static void test_kinds(void **state)
{
    for (const struct jpeg_spec *s = specs; s < specs + COUNT(specs); s++) {
        size_t size;
        uint8_t *bytes = jpeg_make(s, &size);
        bool inks = s->kind == JPEG_CMYK || s->kind == JPEG_YCCK;
        struct image_info info;
        assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
        assert_true(info.width == s->width && info.height == s->height);
        assert_true(info.gray == (s->kind == JPEG_GRAY) && info.cmyk == inks);
        assert_int_equal(info.progressive, s->progressive);
        assert_int_equal(decoder_check(decoder), STATUS_OK);
        check_regions(bytes, size);
        for (int shrink = 1; !inks && shrink <= 8; shrink *= 2) {
            struct image got = decode_all(bytes, size, shrink);
            uint8_t *want = plain_decode(bytes, size, shrink);
            assert_non_null(want);
            assert_memory_equal(got.pixels, want, (size_t)got.w * (size_t)got.h * 3);
            free(got.pixels);
            free(want);
        }
        free(bytes);
    }
}

static void test_colours(void **state)
{
    static const struct {
        struct jpeg_spec spec;
        int want;
    } cases[] = {
        {{20, 20, JPEG_GRAY, .flat = 91}, 90},
        {{20, 20, JPEG_COLOR, .flat = 91}, 90},
        {{20, 20, JPEG_RAW_RGB, .flat = 91}, 90},
        /* The samples are 200. Adobe stores 255 - ink, so each ink is 55. The colour is
         * (255-55)*(255-55)/255 = 157. */
        {{20, 20, JPEG_CMYK, .flat = 201}, 157},
        {{20, 20, JPEG_YCCK, .flat = 201}, 157},
        /* PIL takes inks without Adobe's marker as inverted too. */
        {{20, 20, JPEG_CMYK, .flat = 201, .plain_cmyk = true}, 157},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        size_t size;
        uint8_t *bytes = jpeg_make(&cases[i].spec, &size);
        struct image image = decode_all(bytes, size, 1);
        for (int c = 0; c < 3; c++)
            if (abs(image.pixels[300 + c] - cases[i].want) > 2)
                fail_msg("case %zu: channel %d is %d", i, c, image.pixels[300 + c]);
        free(image.pixels);
        free(bytes);
    }
}

static void test_not_a_jpeg(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *reason;
    } cases[] = {
        {"", 0, "empty"},
        {"\xff\xd8", 2, "not a JPEG"},
        {"\xff\xd8\xff", 3, "Premature end"},
        {"GIF89a", 6, "a GIF file"},
        {"RIFF\4\0\0\0WEBP", 12, "a WebP file, not a JPEG or PNG"},
        {"hello, world", 12, "not a JPEG"},
    };
    for (int i = 0; i < COUNT(cases); i++)
        decode_refused(cases[i].bytes, cases[i].size, cases[i].reason);
}

static void test_truncated(void **state)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg_spec spec = {120, 90, .progressive = progressive, .exif = 1};
        size_t size;
        uint8_t *bytes = jpeg_make(&spec, &size);
        size_t scan = jpeg_find(bytes, size, 0xda);
        for (size_t cut = scan + 20; cut < size - 2; cut += 97)
            decode_refused(bytes, cut, "truncated");
        for (size_t cut = size - 3; cut < size; cut++)
            if (progressive || cut == size - 3)
                decode_refused(bytes, cut, "truncated");
        decode_refused(bytes, scan / 2, "");

        /* Bytes after the end of the image are ignored. */
        struct image_info info;
        uint8_t *longer = calloc(1, size + 5000);
        assert_non_null(longer);
        memcpy(longer, bytes, size);
        assert_int_equal(decoder_begin(decoder, longer, size + 5000, &info), STATUS_OK);
        assert_int_equal(decoder_check(decoder), STATUS_OK);
        free(longer);

        /* Without half of its data, the file still has an end marker. */
        size_t half = (size - scan) / 2;
        memmove(bytes + scan + half, bytes + size - 2, 2);
        if (!progressive)
            decode_refused(bytes, scan + half + 2, "premature end");
        free(bytes);
    }
}

/* A sequential file that lacks only its end marker, or has other bytes in its place, is whole. A
 * file that an interrupted copy filled up with zeros is not. No part of such a file may be decoded.
 */
static void test_no_end_marker(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
    } ends[] = {{"", 0},         {"\xff", 1}, {"\0\0", 2}, {"\0\0\0\0\0\0\0\0", 8},
                {"\xff\xff", 2}, {"text", 4}};
    for (const struct jpeg_spec *s = specs; s < specs + COUNT(specs); s++) {
        size_t size;
        uint8_t *bytes = jpeg_make(s, &size);
        struct image_info info;
        struct image want = decode_all(bytes, size, 1);
        bytes = realloc(bytes, size + 1000);
        assert_non_null(bytes);
        for (int i = 0; i < COUNT(ends); i++) {
            memcpy(bytes + size - 2, ends[i].bytes, ends[i].size);
            /* libjpeg's decoder of arithmetic codes needs bytes after the last code. */
            if (s->progressive || (s->arithmetic && i < COUNT(ends) - 1)) {
                decode_refused(bytes, size - 2 + ends[i].size, "truncated");
                continue;
            }
            struct image got = decode_all(bytes, size - 2 + ends[i].size, 1);
            assert_memory_equal(got.pixels, want.pixels, (size_t)want.w * (size_t)want.h * 3);
            free(got.pixels);
            if (i == 0)
                check_regions(bytes, size - 2);
            assert_int_equal(decoder_begin(decoder, bytes, size - 2 + ends[i].size, &info),
                             STATUS_OK);
            assert_int_equal(decoder_check(decoder), STATUS_OK);
        }
        size_t scan = jpeg_find(bytes, size, 0xda) + 14, middle = scan + (size - scan) / 2;
        memset(bytes + size - 2, 0, 1000);
        decode_refused(bytes, size - 3, "truncated");
        bytes[size - 3] = 0;
        for (int i = 0; i < 2; i++, memset(bytes + middle, 0, size - middle))
            if (bytes[size - 4] != 0xff)
                decode_refused(bytes, size + 998, "truncated");
        free(want.pixels);
        free(bytes);
    }
}

/* The header claims more pixels than the decoder's limit. Only a few bytes of data follow it. */
static void test_bomb(void **state)
{
    size_t size;
    uint8_t *bytes = jpeg_make(&(struct jpeg_spec){16, 16}, &size);
    size_t sof = jpeg_find(bytes, size, 0xc0);
    static const uint8_t sides[4] = {65500 >> 8, 65500 & 255, 65500 >> 8, 65500 & 255};
    memcpy(bytes + sof + 5, sides, 4);
    decode_refused(bytes, size, "65500x65500 pixels are more than the limit");
    struct decoder *used = decoder; /* the first file of a decoder is refused too */
    assert_int_equal(decoder_open(&decoder), STATUS_OK);
    decode_refused(bytes, size, "65500x65500 pixels are more than the limit");
    decoder_close(decoder);
    decoder = used;
    bytes[sof + 6] = 0xff; /* 65535 rows are more than libjpeg allows */
    bytes[sof + 5] = 0xff;
    decode_refused(bytes, size, "");
    free(bytes);
}

/* A progressive file repeats its last scan many times. The decoder must refuse it. */
static void test_scan_bomb(void **state)
{
    enum { REPEATS = 2000 };
    size_t size;
    struct jpeg_spec spec = {16, 16, JPEG_GRAY, .progressive = true, .flat = 128};
    uint8_t *bytes = jpeg_make(&spec, &size);
    size_t last = size - 2;
    while (!(bytes[last] == 0xff && bytes[last + 1] == 0xda))
        last--;
    size_t scan = size - 2 - last;
    uint8_t *bomb = malloc(size + REPEATS * scan);
    assert_non_null(bomb);
    memcpy(bomb, bytes, last);
    size_t end = last;
    for (int i = 0; i < REPEATS; i++, end += scan)
        memcpy(bomb + end, bytes + last, scan);
    memcpy(bomb + end, bytes + size - 2, 2);
    decode_refused(bomb, end + 2, "progressive scans");
    free(bomb);
    free(bytes);
}

static void test_two_channels(void **state)
{
    size_t size;
    uint8_t *bytes = jpeg_make(&(struct jpeg_spec){16, 16, JPEG_TWO_CHANNELS}, &size);
    decode_refused(bytes, size, "color");
    free(bytes);
}

/* --- damage --- */

static const struct jpeg_spec small[] = {
    {75, 61, .h_samp = 2, .v_samp = 2},
    {75, 61, .h_samp = 2, .quality = 100},
    {75, 61, .code = 4},
    {75, 61, .h_samp = 4, .restart = 2},
    {75, 61, JPEG_GRAY, .restart = 1},
    {75, 61, .v_samp = 2, .code = 5},
    {75, 61, .progressive = true},
    {75, 61, JPEG_YCCK, .exif = 3},
};
enum { SMALL = COUNT(small), SEQUENTIAL = 6 };

/* Compares with libjpeg. If libjpeg refuses a file, ampscale refuses it too. If both accept a file,
 * they decode the same pixels. If only ampscale refuses a file, the data has a Huffman code that
 * does not exist. */
static bool decode_as_libjpeg(const uint8_t *bytes, size_t size)
{
    struct image_info info;
    struct region r;
    uint8_t *want = plain_decode(bytes, size, 1);
    assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
    struct rect all = {0, 0, info.width, info.height};
    enum status st = decoder_read(decoder, 1, all, &r);
    if (st == STATUS_OK) {
        assert_non_null(want);
        assert_memory_equal(r.pixels, want, r.stride * (size_t)r.at.h);
    } else if (want)
        assert_non_null(strstr(status_message(), "bad Huffman code"));
    free(want);
    return st == STATUS_OK;
}

/* Overwrites a few bytes from `first` on. */
static void damage(uint8_t *bytes, size_t first, size_t size, struct rng *rng)
{
    for (uint32_t n = 1 + rng_below(rng, 4); n > 0; n--)
        bytes[first + rng_below(rng, (uint32_t)(size - first))] =
            rng_below(rng, 4) == 0 ? 0xff : (uint8_t)rng_u32(rng);
}

/* A damaged file must neither crash the decoder nor change how it decodes the next image. In the
 * first half of the rounds only entropy-coded data is damaged, in the second half anything. */
static void test_damage(void **state)
{
    enum { ROUNDS = 4000 };
    struct rng rng = rng_at(12, RNG_TEST, 0, 0);
    int sound[2] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        size_t size;
        bool any = i >= ROUNDS / 2;
        uint8_t *bytes = jpeg_make(&small[i % (any ? SMALL : SEQUENTIAL)], &size);
        if (any) {
            damage(bytes, 0, rng_below(&rng, 2) ? size : 400, &rng);
            size = rng_below(&rng, 4) == 0 ? rng_below(&rng, (uint32_t)size) : size;
            sound[1] += decode_some(bytes, size, &rng) == STATUS_OK;
        } else {
            damage(bytes, jpeg_find(bytes, size, 0xda) + 12, size - 2, &rng);
            sound[0] += decode_as_libjpeg(bytes, size);
        }
        free(bytes);
    }
    for (int k = 0; k < 2; k++)
        assert_true(sound[k] > 100 && sound[k] < ROUNDS / 2 - 100);
    for (int i = 0; i < SEQUENTIAL; i++) {
        size_t size;
        uint8_t *bytes = jpeg_make(&small[i], &size);
        assert_true(decode_as_libjpeg(bytes, size));
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_colours),
        cmocka_unit_test(test_not_a_jpeg),    cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bomb),          cmocka_unit_test(test_scan_bomb),
        cmocka_unit_test(test_two_channels),  cmocka_unit_test(test_damage),
        cmocka_unit_test(test_no_end_marker),
    };
    return cmocka_run_group_tests(tests, decoder_set_up, decoder_tear_down);
}
