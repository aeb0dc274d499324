/* Tests that the decoder decodes every kind of JPEG file that users have, and that it refuses
 * damaged files and files that are not JPEG. */
#include "base/rng.h"
#include "tests/input/decoded.h"
#include "tests/input/jpegs.h"
#include "tests/input/plain_decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_regions_of(const struct jpeg_spec *spec)
{
    size_t size;
    uint8_t *bytes = jpeg_make(spec, &size);
    check_regions(decoder, bytes, size);
    free(bytes);
}

static void test_regions_equal_full_decode(void **state)
{
    (void)state;
    static const int sampling[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}};
    for (size_t i = 0; i < sizeof sampling / sizeof *sampling; i++)
        for (int progressive = 0; progressive < 2; progressive++) {
            struct jpeg_spec s = {.width = 203,
                                  .height = 149,
                                  .h_samp = sampling[i][0],
                                  .v_samp = sampling[i][1],
                                  .progressive = progressive};
            check_regions_of(&s);
        }
    check_regions_of(&(struct jpeg_spec){.width = 203, .height = 149, .kind = JPEG_GRAY});
    check_regions_of(&(struct jpeg_spec){.width = 203, .height = 149, .kind = JPEG_CMYK});
    check_regions_of(&(struct jpeg_spec){.width = 203, .height = 149, .kind = JPEG_YCCK});
    check_regions_of(
        &(struct jpeg_spec){.width = 203, .height = 149, .h_samp = 2, .v_samp = 2, .restart = 1});
}

static void test_tiny_images(void **state)
{
    (void)state;
    for (int w = 1; w <= 9; w += 2)
        for (int h = 1; h <= 9; h += 4)
            check_regions_of(
                &(struct jpeg_spec){.width = w, .height = h, .h_samp = 2, .v_samp = 2});
}

/* Checks the colour of a flat image. */
static void check_flat(struct jpeg_spec spec, int r, int g, int b)
{
    size_t size;
    spec.width = spec.height = 24;
    spec.quality = 100;
    uint8_t *bytes = jpeg_make(&spec, &size);
    struct image image = decode_all(decoder, bytes, size, 1);
    const int want[3] = {r, g, b};
    for (int c = 0; c < 3; c++)
        if (abs(image.pixels[300 + c] - want[c]) > 2)
            fail_msg("kind %d: channel %d is %d and not %d", (int)spec.kind, c,
                     image.pixels[300 + c], want[c]);
    free(image.pixels);
    free(bytes);
}

static void test_colours(void **state)
{
    (void)state;
    check_flat((struct jpeg_spec){.kind = JPEG_GRAY, .flat = 91}, 90, 90, 90);
    check_flat((struct jpeg_spec){.kind = JPEG_COLOR, .flat = 91}, 90, 90, 90);
    check_flat((struct jpeg_spec){.kind = JPEG_RAW_RGB, .flat = 91}, 90, 90, 90);
    /* The samples are 200. Adobe stores 255 - ink, so each ink is 55. The colour is
     * (255-55)*(255-55)/255 = 157. */
    check_flat((struct jpeg_spec){.kind = JPEG_CMYK, .flat = 201}, 157, 157, 157);
    check_flat((struct jpeg_spec){.kind = JPEG_YCCK, .flat = 201}, 157, 157, 157);
    /* Here, each ink is 200. The colour is (255-200)*(255-200)/255 = 12. */
    check_flat((struct jpeg_spec){.kind = JPEG_CMYK, .flat = 201, .plain_cmyk = true}, 12, 12, 12);
}

static void test_info(void **state)
{
    (void)state;
    static const struct jpeg_spec specs[] = {
        {.width = 30, .height = 20},
        {.width = 30, .height = 20, .kind = JPEG_GRAY},
        {.width = 30, .height = 20, .kind = JPEG_YCCK},
        {.width = 30, .height = 20, .progressive = true},
        {.width = 30, .height = 20, .exif = 6},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        size_t size;
        uint8_t *bytes = jpeg_make(&specs[i], &size);
        struct image_info info;
        assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
        assert_int_equal(info.width, 30); /* EXIF orientation 6, which swaps sides, is ignored */
        assert_int_equal(info.height, 20);
        assert_int_equal(info.gray, specs[i].kind == JPEG_GRAY);
        assert_int_equal(info.cmyk, specs[i].kind == JPEG_YCCK);
        assert_int_equal(info.progressive, specs[i].progressive);
        assert_int_equal(decoder_check(decoder), STATUS_OK);
        free(bytes);
    }
}

static void test_arithmetic_coding(void **state)
{
    (void)state;
    check_regions_of(&(struct jpeg_spec){
        .width = 99, .height = 75, .h_samp = 2, .v_samp = 2, .arithmetic = true});
}

static void refuse(const void *bytes, size_t size, const char *reason)
{
    decode_refused(decoder, bytes, size, reason);
}

static void test_not_a_jpeg(void **state)
{
    (void)state;
    refuse("", 0, "empty");
    refuse("\xff", 1, "not a JPEG or PNG file");
    refuse("\xff\xd8", 2, "not a JPEG");
    refuse("\xff\xd8\xff", 3, "Premature end");
    refuse("RIFF\4\0\0\0WAVE", 12, "not a JPEG");
    refuse("GIF89a", 6, "a GIF file");
    refuse("RIFF\4\0\0\0WEBP", 12, "a WebP file, not a JPEG or PNG");
    refuse("RIFF\4\0\0\0WEB", 11, "not a JPEG");
    refuse("hello, world", 12, "not a JPEG");
}

static void test_truncated(void **state)
{
    (void)state;
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg_spec spec = {.width = 120, .height = 90, .progressive = progressive, .exif = 1};
        size_t size;
        uint8_t *bytes = jpeg_make(&spec, &size);
        size_t scan = jpeg_find(bytes, size, 0xda);
        for (size_t cut = scan + 20; cut < size; cut += 97)
            refuse(bytes, cut, "truncated");
        refuse(bytes, size - 1, "truncated");
        refuse(bytes, scan / 2, "");

        /* Bytes after the end of the image are ignored. */
        struct image_info info;
        uint8_t *longer = calloc(1, size + 5000);
        assert_non_null(longer);
        memcpy(longer, bytes, size);
        assert_int_equal(decoder_begin(decoder, longer, size + 5000, &info), STATUS_OK);
        assert_int_equal(decoder_check(decoder), STATUS_OK);
        free(longer);
        free(bytes);
    }
}

/* Removes half of the file from its middle. The file still has an end marker, but not all pixels.
 */
static void test_hole(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = jpeg_make(&(struct jpeg_spec){.width = 120, .height = 90}, &size);
    size_t scan = jpeg_find(bytes, size, 0xda) + 20, half = (size - scan) / 2;
    memmove(bytes + scan + half, bytes + size - 2, 2);
    refuse(bytes, scan + half + 2, "premature end");
    free(bytes);
}

/* The header claims more pixels than the decoder's limit. Only a few bytes of data follow the
 * header. */
static void test_bomb(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = jpeg_make(&(struct jpeg_spec){.width = 16, .height = 16}, &size);
    size_t sof = jpeg_find(bytes, size, 0xc0);
    static const uint8_t sides[4] = {65500 >> 8, 65500 & 255, 65500 >> 8, 65500 & 255};
    memcpy(bytes + sof + 5, sides, 4);
    refuse(bytes, size, "65500x65500 pixels are more than the limit");
    struct decoder *fresh; /* a decoder that has not refused a file before */
    struct image_info info;
    assert_int_equal(decoder_open(&fresh), STATUS_OK);
    assert_int_equal(decoder_begin(fresh, bytes, size, &info), STATUS_DATA);
    decoder_close(fresh);
    bytes[sof + 6] = 0xff; /* 65535 rows are more than libjpeg allows */
    bytes[sof + 5] = 0xff;
    refuse(bytes, size, "");
    free(bytes);
}

/* A progressive file repeats its last scan many times. The decoder must refuse it. */
static void test_scan_bomb(void **state)
{
    (void)state;
    enum { REPEATS = 2000 };
    size_t size;
    struct jpeg_spec spec = {
        .width = 16, .height = 16, .kind = JPEG_GRAY, .progressive = true, .flat = 128};
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
    refuse(bomb, end + 2, "progressive scans");
    free(bomb);
    free(bytes);
}

static void test_unsupported_channels(void **state)
{
    (void)state;
    size_t size;
    struct jpeg_spec spec = {.width = 16, .height = 16, .kind = JPEG_TWO_CHANNELS};
    uint8_t *bytes = jpeg_make(&spec, &size);
    refuse(bytes, size, "color");
    free(bytes);
}

static void test_rectangle_outside(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = jpeg_make(&(struct jpeg_spec){.width = 33, .height = 17}, &size);
    struct image_info info;
    struct region r;
    assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
    assert_int_equal(decoder_read(decoder, 2, (struct rect){0, 0, 18, 9}, &r), STATUS_INVALID);
    assert_int_equal(decoder_read(decoder, 2, (struct rect){-1, 0, 4, 4}, &r), STATUS_INVALID);
    assert_int_equal(decoder_read(decoder, 2, (struct rect){0, 0, 17, 9}, &r), STATUS_OK);
    free(bytes);
}

static const struct jpeg_spec sequential[] = {
    {.width = 203, .height = 149, .h_samp = 2, .v_samp = 2},
    {.width = 203, .height = 149, .h_samp = 2, .v_samp = 1, .quality = 100},
    {.width = 203, .height = 149, .h_samp = 1, .v_samp = 2, .quality = 30},
    {.width = 203, .height = 149, .h_samp = 4, .v_samp = 1, .restart = 2},
    {.width = 203, .height = 149, .kind = JPEG_GRAY, .restart = 1},
    {.width = 203, .height = 149, .kind = JPEG_RAW_RGB},
    {.width = 203, .height = 149, .h_samp = 2, .v_samp = 2, .progressive = true},
};

static void test_pixels_are_libjpegs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sequential / sizeof *sequential; i++)
        for (int shrink = 1; shrink <= 8; shrink *= 2) {
            size_t size;
            uint8_t *bytes = jpeg_make(&sequential[i], &size), *want;
            assert_true(plain_decode(bytes, size, shrink, &want));
            struct image got = decode_all(decoder, bytes, size, shrink);
            assert_memory_equal(got.pixels, want, (size_t)got.w * (size_t)got.h * 3);
            free(got.pixels);
            free(want);
            free(bytes);
        }
}

/* Damages entropy-coded data, and compares ampscale's decoder with libjpeg. If libjpeg refuses a
 * file, ampscale refuses it too. If both accept a file, they decode the same pixels. If only
 * ampscale refuses a file, the data has a Huffman code that does not exist. */
static void test_damage_is_libjpegs(void **state)
{
    (void)state;
    enum { ROUNDS = 3000 };
    struct rng rng = rng_at(12, RNG_TEST, 0, 0);
    int sound = 0, bad = 0, stricter = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size;
        struct jpeg_spec spec = sequential[i % 5];
        spec.width = 75, spec.height = 61;
        uint8_t *bytes = jpeg_make(&spec, &size), *want;
        size_t scan = jpeg_find(bytes, size, 0xda) + 12;
        for (uint32_t n = 1 + rng_below(&rng, 3); n > 0; n--)
            bytes[scan + rng_below(&rng, (uint32_t)(size - scan - 2))] =
                rng_below(&rng, 4) == 0 ? 0xff : (uint8_t)rng_u32(&rng);
        bool known = plain_decode(bytes, size, 1, &want);
        struct image_info info;
        struct region r;
        assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
        enum status st = decoder_read(decoder, 1, decoded_size(&info, 1), &r);
        sound += st == STATUS_OK;
        bad += !known;
        if (st == STATUS_OK) {
            assert_true(known);
            assert_memory_equal(r.pixels, want, r.stride * (size_t)r.at.h);
        } else if (known) {
            assert_non_null(strstr(status_message(), "bad Huffman code"));
            stricter++;
        }
        free(want);
        free(bytes);
    }
    print_message("damaged files: %d decoded, %d bad for libjpeg, %d refused by ampscale alone\n",
                  sound, bad, stricter);
    assert_true(sound > 100 && bad > 100);
}

/* A mutated file must neither crash the decoder nor change how it decodes the next image. */
static void test_fuzz(void **state)
{
    (void)state;
    enum { ROUNDS = 6000 };
    static const struct jpeg_spec specs[] = {
        {.width = 61, .height = 43, .h_samp = 2, .v_samp = 2},
        {.width = 61, .height = 43, .progressive = true, .h_samp = 2, .v_samp = 1},
        {.width = 61, .height = 43, .kind = JPEG_YCCK, .exif = 3},
        {.width = 61, .height = 43, .kind = JPEG_GRAY, .restart = 1},
    };
    struct rng rng = rng_at(9, RNG_TEST, 0, 0);
    int sound = 0, bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size;
        uint8_t *bytes = jpeg_make(&specs[i % 4], &size);
        uint32_t header = 1 + rng_below(&rng, 2); /* 1: any byte may change; 2: only the header */
        for (uint32_t n = 1 + rng_below(&rng, 8); n > 0; n--)
            bytes[rng_below(&rng, (uint32_t)(header == 1 ? size : 400))] = (uint8_t)rng_u32(&rng);
        if (rng_below(&rng, 4) == 0)
            size = rng_below(&rng, (uint32_t)size);
        enum status st = decode_some(decoder, bytes, size, &rng);
        sound += st == STATUS_OK;
        bad += st != STATUS_OK;
        free(bytes);
    }
    print_message("fuzz: %d sound, %d bad\n", sound, bad);
    assert_true(sound > 100 && bad > 100);
    size_t size;
    uint8_t *bytes = jpeg_make(&specs[0], &size);
    free(decode_all(decoder, bytes, size, 1).pixels);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions_equal_full_decode),
        cmocka_unit_test(test_tiny_images),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_arithmetic_coding),
        cmocka_unit_test(test_not_a_jpeg),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_hole),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_scan_bomb),
        cmocka_unit_test(test_unsupported_channels),
        cmocka_unit_test(test_rectangle_outside),
        cmocka_unit_test(test_pixels_are_libjpegs),
        cmocka_unit_test(test_damage_is_libjpegs),
        cmocka_unit_test(test_fuzz),
    };
    return cmocka_run_group_tests_name("input_decode", tests, decoder_set_up, decoder_tear_down);
}
