/* Decodes valid and damaged PNG files. The pixels must equal those that PIL decodes
 * (tests/input/pictures/make.py). */
#include "base/file.h"
#include "base/rng.h"
#include "tests/input/decoded.h"
#include "tests/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

static const struct picture {
    const char *name;
    bool interlaced, gray;
} pictures[] = {
    {"gray-1.png", .gray = true},
    {"gray-2.png", .gray = true},
    {"gray-4.png", .gray = true},
    {"gray-8.png", .gray = true},
    {"gray-16.png", .gray = true},
    {"gray-16-interlaced.png", .gray = true, .interlaced = true},
    {"gray-transparent.png", .gray = true},
    {"gray-alpha-8.png", .gray = true},
    {"gray-alpha-16.png", .gray = true},
    {"rgb-8.png"},
    {"rgb-8-interlaced.png", .interlaced = true},
    {"rgb-16.png"},
    {"rgb-gamma.png"},
    {"rgb-alpha-8.png"},
    {"rgb-alpha-16-interlaced.png", .interlaced = true},
    {"palette-1.png"},
    {"palette-2.png"},
    {"palette-4.png"},
    {"palette-8.png"},
    {"palette-transparent.png"},
    {"palette-short.png"},
};
enum { PICTURES_N = sizeof pictures / sizeof *pictures };

static uint8_t *read_picture(const char *name, size_t *size)
{
    char path[4096], *bytes;
    snprintf(path, sizeof path, "%s/%s", PICTURES, name);
    assert_int_equal(file_read(path, 1 << 20, &bytes, size), STATUS_OK);
    return (uint8_t *)bytes;
}

/* Returns whether this build can decode PNG files. If it cannot, checks the decoder's error
 * message. */
static bool can_read(const uint8_t *bytes, size_t size)
{
    if (!image_format_lacks(IMAGE_PNG))
        return true;
    decode_refused(decoder, bytes, size, "this build lacks lib");
    return false;
}

static void check_pixels(const struct picture *p, const uint8_t *bytes, size_t size)
{
    char name[256];
    size_t ppm_size;
    struct image image = decode_all(decoder, bytes, size, 1);
    snprintf(name, sizeof name, "%s.ppm", p->name);
    uint8_t *ppm = read_picture(name, &ppm_size);
    char head[32];
    int length = snprintf(head, sizeof head, "P6\n%d %d\n255\n", image.w, image.h);
    size_t n = (size_t)image.w * (size_t)image.h * 3;
    assert_int_equal(ppm_size, (size_t)length + n);
    assert_memory_equal(ppm, head, (size_t)length);
    for (size_t i = 0; i < n; i++) {
        int want = ppm[(size_t)length + i], got = image.pixels[i];
        if (got != want)
            fail_msg("%s: value %zu is %d; PIL has %d", p->name, i, got, want);
    }
    free(ppm);
    free(image.pixels);
}

static void test_pixels_are_pils(void **state)
{
    (void)state;
    for (int i = 0; i < PICTURES_N; i++) {
        const struct picture *p = &pictures[i];
        size_t size;
        struct image_info info;
        uint8_t *bytes = read_picture(p->name, &size);
        if (can_read(bytes, size)) {
            check_pixels(p, bytes, size);
            check_regions(decoder, bytes, size);
            assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
            assert_int_equal(info.format, IMAGE_PNG);
            assert_int_equal(info.gray, p->gray);
            assert_int_equal(info.progressive, p->interlaced);
            assert_int_equal(info.shrink_max, 1);
            struct region r;
            assert_int_equal(decoder_read(decoder, 2, (struct rect){0, 0, 1, 1}, &r),
                             STATUS_INVALID);
            assert_int_equal(decoder_check(decoder), STATUS_OK);
        }
        free(bytes);
    }
}

/* decoder_begin must refuse a truncated file. A crop that is decoded later may not need the missing
 * part, and would not detect the damage. */
static void test_truncated(void **state)
{
    struct image_info info;
    (void)state;
    for (int i = 0; i < PICTURES_N; i++) {
        size_t size;
        uint8_t *bytes = read_picture(pictures[i].name, &size);
        if (can_read(bytes, size))
            for (size_t cut = 12; cut < size; cut += SANITIZED ? 97 : 7) {
                assert_int_equal(decoder_begin(decoder, bytes, cut, &info), STATUS_DATA);
                assert_non_null(strstr(status_message(), "truncated"));
            }
        free(bytes);
    }
}

static void put_big_endian(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Recomputes the checksum of each chunk of a PNG. With a wrong checksum, the decoder would refuse
 * the file before it executes the code under test. */
static void mend_checksums(uint8_t *bytes, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        size_t length = ((size_t)bytes[at] << 24) + ((size_t)bytes[at + 1] << 16) +
                        ((size_t)bytes[at + 2] << 8) + bytes[at + 3];
        if (length > size - at - 12)
            return;
        put_big_endian(bytes + at + 8 + length,
                       (uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4));
        at += 12 + length;
    }
}

/* The headers claim more pixels than the decoder's limit. Only a few bytes of data follow the
 * headers. */
static void test_bombs(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = read_picture("rgb-8.png", &size);
    if (can_read(bytes, size)) {
        put_big_endian(bytes + 16, 60000);
        put_big_endian(bytes + 20, 60000);
        mend_checksums(bytes, size);
        decode_refused(decoder, bytes, size, "60000x60000 pixels are more than the limit");
        put_big_endian(bytes + 16, 0x7fffffff);
        mend_checksums(bytes, size);
        decode_refused(decoder, bytes, size, "damaged PNG");
    }
    free(bytes);
}

/* A mutated file must neither crash the decoder nor change how it decodes the next image. */
static void test_damage(void **state)
{
    (void)state;
    enum { ROUNDS = SANITIZED ? 2000 : 8000 };
    struct rng rng = rng_at(9, RNG_TEST, 1, 0);
    int sound = 0, bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const struct picture *p = &pictures[i % PICTURES_N];
        size_t size;
        uint8_t *bytes = read_picture(p->name, &size);
        size_t reach = rng_below(&rng, 2) ? size : 60; /* 60: only the header changes */
        for (uint32_t n = 1 + rng_below(&rng, 6); n > 0; n--)
            bytes[8 + rng_below(&rng, (uint32_t)reach - 8)] = (uint8_t)rng_u32(&rng);
        if (rng_below(&rng, 4) > 0)
            mend_checksums(bytes, size);
        if (rng_below(&rng, 8) == 0)
            size = rng_below(&rng, (uint32_t)size);
        /* Copies the file to memory of exactly its size. A sanitizer then detects a read past the
         * end. */
        uint8_t *exact = malloc(size ? size : 1);
        assert_non_null(exact);
        memcpy(exact, bytes, size);
        enum status st = decode_some(decoder, exact, size, &rng);
        sound += st == STATUS_OK;
        bad += st != STATUS_OK;
        free(exact);
        free(bytes);
    }
    print_message("damage: %d sound, %d bad\n", sound, bad);
    assert_true(bad > 100);
    assert_true(sound > 50 || image_format_lacks(IMAGE_PNG));
    test_pixels_are_pils(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels_are_pils),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests_name("input_pictures", tests, decoder_set_up, decoder_tear_down);
}
