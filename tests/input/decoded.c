/* Decodes whole pictures and parts of them. */
#include "tests/input/decoded.h"

#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

struct decoder *decoder;

int decoder_set_up(void **state)
{
    (void)state;
    return decoder_open(&decoder) == STATUS_OK ? 0 : -1;
}

int decoder_tear_down(void **state)
{
    (void)state;
    decoder_close(decoder);
    return 0;
}

static struct rect whole(const struct image_info *info, int shrink)
{
    return (struct rect){0, 0, (info->width + shrink - 1) / shrink,
                         (info->height + shrink - 1) / shrink};
}

struct image decode_all(const uint8_t *bytes, size_t size, int shrink)
{
    struct image_info info;
    struct region r;
    assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
    struct rect all = whole(&info, shrink);
    assert_int_equal(decoder_read(decoder, shrink, all, &r), STATUS_OK);
    assert_memory_equal(&r.at, &all, sizeof all);
    size_t row = (size_t)all.w * 3;
    struct image image = {all.w, all.h, malloc(row * (size_t)all.h)};
    assert_non_null(image.pixels);
    for (size_t y = 0; y < (size_t)all.h; y++)
        memcpy(image.pixels + y * row, r.pixels + y * r.stride, row);
    return image;
}

static void assert_same(const struct image *full, const struct region *r, struct rect want)
{
    assert_true(r->at.x <= want.x && r->at.x + r->at.w >= want.x + want.w);
    assert_true(r->at.y <= want.y && r->at.y + r->at.h >= want.y + want.h);
    for (int y = want.y; y < want.y + want.h; y++) {
        const uint8_t *a = full->pixels + ((size_t)y * (size_t)full->w + (size_t)want.x) * 3;
        const uint8_t *b =
            r->pixels + (size_t)(y - r->at.y) * r->stride + (size_t)(want.x - r->at.x) * 3;
        assert_memory_equal(a, b, (size_t)want.w * 3);
    }
}

void check_regions(const uint8_t *bytes, size_t size)
{
    struct rng rng = rng_at(3, RNG_TEST, 0, 0);
    struct image_info info;
    assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
    for (int shrink = 1, most = info.shrink_max; shrink <= most; shrink *= 2) {
        struct image full = decode_all(bytes, size, shrink);
        for (int i = 0; i < 30; i++) {
            struct region r;
            int w = 1 + (int)rng_below(&rng, (uint32_t)full.w);
            int h = 1 + (int)rng_below(&rng, (uint32_t)full.h);
            struct rect want = {(int)rng_below(&rng, (uint32_t)(full.w - w + 1)),
                                (int)rng_below(&rng, (uint32_t)(full.h - h + 1)), w, h};
            if (i % 3 == 0) /* the rectangle reaches the right and bottom edges */
                want = (struct rect){want.x, want.y, full.w - want.x, full.h - want.y};
            assert_int_equal(decoder_begin(decoder, bytes, size, &info), STATUS_OK);
            assert_int_equal(decoder_read(decoder, shrink, want, &r), STATUS_OK);
            assert_same(&full, &r, want);
        }
        free(full.pixels);
    }
}

enum status decode_some(const uint8_t *bytes, size_t size, struct rng *rng)
{
    struct image_info info;
    struct region r;
    enum status st = decoder_begin(decoder, bytes, size, &info);
    int shrink = 1 << rng_below(rng, 4);
    /* A damaged header can claim a much larger image. Decoding it would be valid, but slow. */
    if (st == STATUS_OK && (int64_t)info.width * info.height < 1000000) {
        shrink = shrink < info.shrink_max ? shrink : info.shrink_max;
        struct rect want = whole(&info, shrink);
        want.x = (int)rng_below(rng, (uint32_t)want.w);
        want.w -= want.x;
        want.h = (int)rng_below(rng, (uint32_t)want.h) + 1;
        st = decoder_read(decoder, shrink, want, &r);
        for (int y = 0; st == STATUS_OK && y < r.at.h; y++) /* reads all pixels, for sanitizers */
            (void)memchr(r.pixels + (size_t)y * r.stride, 256, (size_t)r.at.w * 3);
    }
    assert_true(st == STATUS_OK || st == STATUS_DATA);
    return st;
}

void decode_refused(const void *bytes, size_t size, const char *reason)
{
    struct image_info info;
    enum status st = decoder_begin(decoder, bytes, size, &info);
    if (st == STATUS_OK)
        st = decoder_check(decoder);
    expect_failed(st, STATUS_DATA, reason);
}
