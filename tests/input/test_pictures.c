/* Decodes valid and damaged pictures. The pixels of pictures/NAME must equal NAME.ppm, which PIL
 * (Pillow 13.0) made: Image.open("NAME").convert("RGB").save("NAME.ppm"). Views must equal
 * NAME.view.ppm: torchvision 0.29.2's CenterCrop(48)(Resize(55)(image.convert("RGB"))). */
#include "base/file.h"
#include "input/sample.h"
#include "tests/input/decoded.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

static const struct picture {
    const char *name;
    bool interlaced, color;
} pictures[] = {
    {"gray-1"},
    {"gray-4"},
    {"gray-8"},
    {"gray-16"},
    {"gray-16-interlaced", .interlaced = true},
    {"gray-transparent"},
    {"gray-alpha-8"},
    {"gray-alpha-16"},
    {"rgb-8", .color = true},
    {"rgb-8-interlaced", .color = true, .interlaced = true},
    {"rgb-16", .color = true},
    {"rgb-gamma", .color = true},
    {"rgb-alpha-16-interlaced", .color = true, .interlaced = true},
    {"palette-4", .color = true},
    {"palette-8", .color = true},
    {"palette-transparent", .color = true},
    {"palette-short", .color = true},
};
enum { PICTURES_N = COUNT(pictures) };

static uint8_t *read_picture(const char *name, const char *suffix, size_t *size)
{
    char path[4096], *bytes;
    snprintf(path, sizeof path, "%s/%s%s", PICTURES, name, suffix);
    assert_int_equal(file_read(path, 1 << 20, &bytes, size), STATUS_OK);
    return (uint8_t *)bytes;
}

/* Returns the largest difference of pixels from those in a file. */
static int compare_ppm(const struct image *image, const char *name, const char *suffix)
{
    size_t ppm_size;
    int largest = 0;
    uint8_t *ppm = read_picture(name, suffix, &ppm_size);
    char head[32];
    size_t length = (size_t)snprintf(head, sizeof head, "P6\n%d %d\n255\n", image->w, image->h);
    size_t n = (size_t)image->w * (size_t)image->h * 3;
    assert_int_equal(ppm_size, length + n);
    assert_memory_equal(ppm, head, length);
    for (size_t i = 0; i < n; i++) {
        int d = abs(image->pixels[i] - ppm[length + i]);
        largest = d > largest ? d : largest;
    }
    free(ppm);
    return largest;
}

static void check_pixels(const char *name, const char *suffix, const uint8_t *bytes, size_t size,
                         int allowed)
{
    struct image image = decode_all(bytes, size, 1);
    int largest = compare_ppm(&image, name, suffix);
    if (largest > allowed)
        fail_msg("%s: a value differs by %d from PIL's", name, largest);
    free(image.pixels);
}

enum { LAST_CHUNK = 12 };

/* decoder_begin must refuse a truncated file. A crop that is decoded later may not need the missing
 * part, and would not detect the damage. */
static void check_truncated(const uint8_t *bytes, size_t size)
{
    struct image_info info;
    for (size_t cut = 12; cut < size - LAST_CHUNK; cut += 31) {
        assert_int_equal(decoder_begin(decoder, bytes, cut, &info), STATUS_DATA);
        assert_non_null(strstr(status_message(), "truncated"));
    }
    decode_refused(bytes, size - LAST_CHUNK - 9, "truncated"); /* 9: 2 checksums, and a byte */
}

/* Only the last chunk, which has no data, is missing or incomplete. */
static void check_no_end(const struct picture *p, uint8_t *bytes, size_t size)
{
    struct image_info info;
    for (size_t cut = size - LAST_CHUNK; cut < size; cut++) {
        check_pixels(p->name, ".png.ppm", bytes, cut, 0);
        assert_int_equal(decoder_begin(decoder, bytes, cut, &info), STATUS_OK);
        assert_int_equal(decoder_check(decoder), STATUS_OK);
    }
    check_regions(bytes, size - LAST_CHUNK);
    bytes[size - LAST_CHUNK - 20] ^= 1; /* damages pixels */
    decode_refused(bytes, size - LAST_CHUNK, "");
}

static void test_pixels_are_pils(void **state)
{
    for (const struct picture *p = pictures; p < pictures + PICTURES_N; p++) {
        size_t size;
        struct image_info info;
        struct region r;
        uint8_t *bytes = read_picture(p->name, ".png", &size);
        if (image_format_lacks(IMAGE_PNG)) {
            decode_refused(bytes, size, "this build lacks lib");
        } else {
            check_pixels(p->name, ".png.ppm", bytes, size, 0);
            check_regions(bytes, size);
            check_truncated(bytes, size);
            assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
            assert_true(info.format == IMAGE_PNG && info.shrink_max == 1);
            assert_true(info.gray == !p->color && info.progressive == p->interlaced);
            assert_int_equal(decoder_read(decoder, 2, (struct rect){0, 0, 1, 1}, &r),
                             STATUS_INVALID);
            assert_int_equal(decoder_check(decoder), STATUS_OK);
            check_no_end(p, bytes, size);
        }
        free(bytes);
    }
}

static void test_inks_are_pils(void **state)
{
    static const char *const names[] = {"inks", "inks-progressive"};
    for (int i = 0; i < COUNT(names); i++) {
        size_t size;
        uint8_t *bytes = read_picture(names[i], ".jpg", &size);
        check_pixels(names[i], ".jpg.ppm", bytes, size, 1);
        free(bytes);
    }
}

/* --- views --- */

/* Makes the pixels that a network sees of a picture, with view number `seed` in training. */
static struct image view_of(const char *name, struct sample_config c, uint64_t seed)
{
    size_t size;
    struct sample_reader *reader;
    struct sample_view view;
    struct rng rng = rng_at(seed, RNG_TEST, 2, 0);
    struct image image = {c.image_size, c.image_size,
                          malloc((size_t)c.image_size * (size_t)c.image_size * 3)};
    uint8_t *bytes = read_picture(name, "", &size);
    assert_non_null(image.pixels);
    assert_int_equal(sample_reader_open(&reader), STATUS_OK);
    assert_int_equal(sample_decode(reader, &c, bytes, size, &rng, &view), STATUS_OK);
    assert_int_equal(sample_resample(reader, &view, image.pixels), STATUS_OK);
    sample_reader_close(reader);
    free(bytes);
    return image;
}

/* Pictures as people have them: four inks without Adobe's marker, no end marker, noise in the
 * unused pixels of the last blocks, small print. Decoding small print at a reduced size changes it.
 */
static void test_views_are_torchvisions(void **state)
{
    static const struct {
        const char *name;
        bool small_print;
    } views[] = {
        {"cmyk-no-adobe-marker.jpg"}, {"jpg-no-eoi.jpg"},     {"mcu-padding.jpg"},
        {"png-no-iend.png"},          {"text-560.jpg", true},
    };
    struct sample_config c = {.image_size = 48, .resize = 55};
    for (int i = 0; i < COUNT(views); i++) {
        int most[2] = {1, views[i].small_print ? 255 : 8};
        if (strstr(views[i].name, ".png") && image_format_lacks(IMAGE_PNG))
            continue;
        for (int fast = 0; fast < 2; fast++) {
            c.fast = fast;
            struct image image = view_of(views[i].name, c, 0);
            int largest = compare_ppm(&image, views[i].name, ".view.ppm");
            if (largest > most[fast] || (fast && views[i].small_print && largest <= 8))
                fail_msg("%s, fast %d: differs by %d", views[i].name, fast, largest);
            free(image.pixels);
        }
    }
}

/* All pixels of the picture are 20. The unused pixels of its last blocks are noise, which must not
 * reach the view. */
static void test_padding_is_not_seen(void **state)
{
    for (int fast = 0; fast < 2; fast++)
        for (uint64_t seed = 0; seed < 300; seed++) {
            struct sample_config c = {true, 12, .range = {0.08f, 1, 3.0f / 4, 4.0f / 3},
                                      .fast = fast};
            struct image image = view_of("padding.jpg", c, seed);
            for (int i = 0; i < 12 * 12 * 3; i++)
                if (abs(image.pixels[i] - 20) > 1)
                    fail_msg("fast %d, view %d: a value is %d", fast, (int)seed, image.pixels[i]);
            free(image.pixels);
        }
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
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
        size_t length = big_endian(bytes + at);
        if (length > size - at - 12)
            return;
        uLong sum = crc32(0, bytes + at + 4, (uInt)length + 4);
        put_big_endian(bytes + at + 8 + length, (uint32_t)sum);
        at += 12 + length;
    }
}

/* The headers claim more pixels than the decoder's limit. Only a few bytes of data follow them. */
static void test_bombs(void **state)
{
    size_t size;
    uint8_t *bytes = read_picture("rgb-8", ".png", &size);
    bool readable = !image_format_lacks(IMAGE_PNG);
    put_big_endian(bytes + 16, 60000);
    put_big_endian(bytes + 20, 60000);
    mend_checksums(bytes, size);
    decode_refused(bytes, size, readable ? "60000x60000 pixels are more than the limit" : "lacks");
    put_big_endian(bytes + 16, 0x7fffffff);
    mend_checksums(bytes, size);
    decode_refused(bytes, size, readable ? "2147483647x60000 pixels are more" : "lacks");
    free(bytes);
}

static uint8_t *put_chunk(uint8_t *at, const char *type, const uint8_t *data, size_t size)
{
    put_big_endian(at, (uint32_t)size);
    memcpy(at + 4, type, 4);
    memcpy(at + 8, data, size);
    return at + size + LAST_CHUNK;
}

/* A side may be as long as the limit of pixels allows. */
static void test_long_side(void **state)
{
    enum { LONG = 1200000, ROW = LONG + 1 };
    uint8_t header[13] = {[8] = 8};
    uint8_t *row = malloc(ROW), *bytes = malloc(ROW), *packed = malloc(ROW), *at = bytes;
    uLongf packed_size = ROW;
    assert_true(row && bytes && packed);
    memset(row, 77, ROW);
    row[0] = 0; /* no filter */
    put_big_endian(header, LONG);
    put_big_endian(header + 4, 1);
    assert_int_equal(compress(packed, &packed_size, row, ROW), Z_OK);
    memcpy(at, "\x89PNG\r\n\x1a\n", 8);
    at = put_chunk(at + 8, "IHDR", header, sizeof header);
    at = put_chunk(at, "IDAT", packed, packed_size);
    at = put_chunk(at, "IEND", header, 0);
    mend_checksums(bytes, (size_t)(at - bytes));
    if (!image_format_lacks(IMAGE_PNG)) {
        struct image image = decode_all(bytes, (size_t)(at - bytes), 1);
        assert_true(image.w == LONG && image.h == 1 && image.pixels[3 * LONG - 1] == 77);
        free(image.pixels);
    }
    free(row);
    free(bytes);
    free(packed);
}

/* A damaged file must neither crash the decoder nor change how it decodes the next image. */
static void test_damage(void **state)
{
    enum { ROUNDS = 2000 };
    struct rng rng = rng_at(9, RNG_TEST, 1, 0);
    int sound = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size;
        uint8_t *bytes = read_picture(pictures[i % PICTURES_N].name, ".png", &size);
        size_t reach = rng_below(&rng, 2) ? size : 60; /* 60: only the header changes */
        for (uint32_t n = 1 + rng_below(&rng, 6); n > 0; n--)
            bytes[8 + rng_below(&rng, (uint32_t)reach - 8)] = (uint8_t)rng_u32(&rng);
        if (rng_below(&rng, 4) > 0)
            mend_checksums(bytes, size);
        if (rng_below(&rng, 8) == 0)
            size = rng_below(&rng, (uint32_t)size);
        /* In memory of exactly its size, a sanitizer detects a read past the end. */
        uint8_t *exact = malloc(size ? size : 1);
        assert_non_null(exact);
        memcpy(exact, bytes, size);
        sound += decode_some(exact, size, &rng) == STATUS_OK;
        free(exact);
        free(bytes);
    }
    assert_true(sound < ROUNDS - 100);
    assert_true(sound > 50 || image_format_lacks(IMAGE_PNG));
    test_pixels_are_pils(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels_are_pils),
        cmocka_unit_test(test_inks_are_pils),
        cmocka_unit_test(test_views_are_torchvisions),
        cmocka_unit_test(test_padding_is_not_seen),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_long_side),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, decoder_set_up, decoder_tear_down);
}
