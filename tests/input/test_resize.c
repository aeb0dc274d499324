/* Compares the resizer with a slow filter in double precision and with PIL, and tests which crops
 * are drawn. */
#include "base/rng.h"
#include "input/augment.h"
#include "input/resize.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct picture {
    int w, h;
    uint8_t *pixels; /* (h, w, 3) */
};

static struct picture picture_make(int w, int h, uint64_t seed)
{
    struct picture p = {w, h, malloc((size_t)w * (size_t)h * 3)};
    assert_non_null(p.pixels);
    struct rng rng = rng_at(seed, RNG_TEST, 0, 0);
    for (size_t i = 0; i < (size_t)w * (size_t)h * 3; i++)
        p.pixels[i] = (uint8_t)(rng_u32(&rng) >> 3); /* noise: the hardest case */
    return p;
}

/* Computes the filter by its definition, without rounding and without skipped terms. */
static double slow_weight(const struct resize_axis *a, int o, int source)
{
    double support = fmax(a->scale, 1), centre = a->origin + (o + 0.5) * a->scale;
    return fmax(1 - fabs(source + 0.5 - centre) / support, 0);
}

static double slow_pixel(const struct picture *p, const struct resize_axis *x,
                         const struct resize_axis *y, int ox, int oy, int c)
{
    double sum = 0, total = 0;
    for (int sy = y->lo; sy < y->hi; sy++) {
        double wy = slow_weight(y, oy, sy);
        for (int sx = x->lo; wy > 0 && sx < x->hi; sx++) {
            double w = wy * slow_weight(x, ox, sx);
            sum += w * p->pixels[(sy * p->w + sx) * 3 + c];
            total += w;
        }
    }
    return sum / total;
}

/* Resizes a picture. The resizer gets only the pixels that it has requested. */
static uint8_t *resize(const struct picture *p, const struct resize_axis *x,
                       const struct resize_axis *y, bool flip)
{
    /* All cases use the same resizer: the tables of one case must not affect the next case. */
    static struct resizer r;
    struct rect at;
    int right, bottom;
    resize_axis_span(x, &at.x, &right);
    resize_axis_span(y, &at.y, &bottom);
    at.w = right - at.x;
    at.h = bottom - at.y;
    assert_true(at.x >= x->lo && right <= x->hi && at.y >= y->lo && bottom <= y->hi);
    size_t row = (size_t)at.w * 3, n = (size_t)x->count * (size_t)y->count * 3;
    uint8_t *cut = malloc((size_t)at.h * row), *out = malloc(n), *plain = malloc(n);
    assert_true(cut && out && plain);
    for (int i = 0; i < at.h; i++)
        memcpy(cut + (size_t)i * row, p->pixels + ((at.y + i) * p->w + at.x) * 3, row);
    struct region region = {cut, row, at};
    assert_int_equal(resizer_run(&r, x, y, flip, &region, out), STATUS_OK);
    r.plain = true; /* the portable loops must compute the same bits */
    assert_int_equal(resizer_run(&r, x, y, flip, &region, plain), STATUS_OK);
    assert_memory_equal(out, plain, n);
    resizer_free(&r);
    free(plain);
    free(cut);
    return out;
}

static void check(const struct picture *p, struct resize_axis x, struct resize_axis y)
{
    uint8_t *out = resize(p, &x, &y, false), *mirror = resize(p, &x, &y, true);
    double worst = 0;
    for (int i = 0; i < y.count; i++)
        for (int j = 0; j < x.count; j++)
            for (int c = 0; c < 3; c++) {
                double want = slow_pixel(p, &x, &y, x.first + j, y.first + i, c);
                int got = out[(i * x.count + j) * 3 + c];
                worst = fmax(worst, fabs(got - want));
                assert_int_equal(got, mirror[(i * x.count + x.count - 1 - j) * 3 + c]);
            }
    if (worst > 0.75)
        fail_msg("%dx%d to %dx%d is off by %.3f levels", p->w, p->h, x.count, y.count, worst);
    free(out);
    free(mirror);
}

static struct resize_axis whole_axis(int from, int to)
{
    return (struct resize_axis){0, (double)from / to, 0, from, 0, to};
}

static void test_sizes(void **state)
{
    static const int sizes[][4] = {{64, 64, 64, 64}, {97, 61, 32, 32}, {31, 45, 64, 64},
                                   {1, 1, 7, 5},     {200, 3, 16, 16}, {130, 128, 64, 64},
                                   {900, 40, 8, 8},  {5, 300, 9, 2},   {2100, 33, 7, 5}};
    for (int i = 0; i < COUNT(sizes); i++) {
        struct picture p = picture_make(sizes[i][0], sizes[i][1], i);
        struct resize_axis x = whole_axis(p.w, sizes[i][2]), y = whole_axis(p.h, sizes[i][3]);
        check(&p, x, y);
        memset(p.pixels, 255, (size_t)p.w * (size_t)p.h * 3); /* white stays white exactly */
        uint8_t *out = resize(&p, &x, &y, false);
        for (int k = 0; k < x.count * y.count * 3; k++)
            assert_int_equal(out[k], 255);
        free(out);
        free(p.pixels);
    }
}

/* Resizes random rectangles of the source, whose coordinates may be fractional. Computes only a
 * part of the output. */
static void test_windows(void **state)
{
    struct picture p = picture_make(120, 90, 50);
    struct rng rng = rng_at(51, RNG_TEST, 0, 0);
    for (int i = 0; i < 40; i++) {
        struct resize_axis axis[2];
        for (int k = 0; k < 2; k++) {
            int n = k == 0 ? p.w : p.h;
            int lo = (int)rng_below(&rng, (uint32_t)n - 4), hi = lo + 2;
            hi += (int)rng_below(&rng, (uint32_t)(n - hi));
            int to = 1 + (int)rng_below(&rng, 40);
            int first = (int)rng_below(&rng, (uint32_t)to);
            int count = 1 + (int)rng_below(&rng, (uint32_t)(to - first));
            double inset = rng_double(&rng) * 0.9;
            axis[k] =
                (struct resize_axis){lo + inset, (hi - lo - inset) / to, lo, hi, first, count};
        }
        check(&p, axis[0], axis[1]);
    }
    free(p.pixels);
}

/* What PIL (Pillow 12 and 13) makes with Image.resize((width, height), Image.BICUBIC) of a picture
 * whose values are v = (5xx + 3yy + 7xy + 29c) % 251, or 255 * (v % 2) if it has two levels. With
 * two levels, sums leave 0..255, and another order of passes would change values by up to 16
 * levels. */
static const uint8_t pil_9x7_to_5x4[] = {
    3,   32,  61,  30,  59,  89,  97,  131, 158, 182, 124, 151, 128, 87,  113,
    21,  50,  79,  70,  101, 134, 146, 180, 172, 100, 103, 92,  115, 148, 109,
    60,  91,  120, 140, 151, 184, 157, 98,  129, 119, 127, 130, 137, 101, 130,
    119, 152, 175, 161, 150, 105, 106, 101, 136, 135, 166, 134, 96,  122, 145,
};
static const uint8_t pil_5x6_to_8x7[] = {
    0,   255, 0,   109, 146, 109, 252, 3,   252, 53,  202, 53,  53,  202, 53,  252, 3,   252, 109,
    146, 109, 0,   255, 0,   225, 30,  225, 239, 16,  239, 255, 0,   255, 232, 23,  232, 232, 23,
    232, 255, 0,   255, 239, 16,  239, 225, 30,  225, 74,  181, 74,  155, 100, 155, 253, 2,   253,
    116, 139, 116, 116, 139, 116, 253, 2,   253, 155, 100, 155, 74,  181, 74,  128, 128, 128, 185,
    71,  185, 254, 2,   254, 157, 98,  157, 157, 98,  158, 254, 1,   254, 185, 79,  176, 128, 143,
    112, 181, 74,  181, 214, 41,  214, 254, 1,   254, 198, 57,  198, 198, 57,  198, 254, 0,   255,
    220, 0,   255, 191, 0,   255, 30,  225, 30,  130, 125, 130, 252, 3,   252, 82,  173, 82,  82,
    193, 62,  252, 53,  202, 102, 46,  209, 0,   46,  209, 255, 0,   255, 255, 0,   255, 255, 0,
    255, 255, 0,   255, 255, 65,  190, 255, 254, 1,   101, 255, 0,   0,   255, 0,
};
static const uint8_t pil_31x29_to_4x3[] = {
    140, 122, 132, 123, 132, 120, 131, 131, 122, 129, 122, 135, 130, 128, 126, 128, 128, 126,
    127, 133, 122, 129, 136, 115, 142, 118, 145, 134, 135, 132, 127, 130, 121, 120, 123, 115,
};

static void test_bicubic(void **state)
{
    static const struct {
        int width, height, to_width, to_height;
        bool two_levels;
        const uint8_t *want;
    } cases[] = {{9, 7, 5, 4, false, pil_9x7_to_5x4},
                 {5, 6, 8, 7, true, pil_5x6_to_8x7},
                 {31, 29, 4, 3, true, pil_31x29_to_4x3}};
    for (int i = 0; i < COUNT(cases); i++) {
        struct picture p = picture_make(cases[i].width, cases[i].height, 0);
        for (int k = 0; k < p.w * p.h * 3; k++) {
            int x = k / 3 % p.w, y = k / 3 / p.w;
            int v = (5 * x * x + 3 * y * y + 7 * x * y + 29 * (k % 3)) % 251;
            p.pixels[k] = (uint8_t)(cases[i].two_levels ? 255 * (v % 2) : v);
        }
        int w = cases[i].to_width, h = cases[i].to_height;
        struct resize_axis x = whole_axis(p.w, w), y = whole_axis(p.h, h);
        x.filter = y.filter = RESIZE_BICUBIC;
        uint8_t *out = resize(&p, &x, &y, false), *mirror = resize(&p, &x, &y, true);
        for (int k = 0; k < w * h * 3; k++) {
            if (abs(out[k] - cases[i].want[k]) > 1)
                fail_msg("%dx%d to %dx%d: value %d is %d, not %d", p.w, p.h, w, h, k, out[k],
                         cases[i].want[k]);
            assert_int_equal(out[k], mirror[(k / 3 / w * w + w - 1 - k / 3 % w) * 3 + k % 3]);
        }
        free(out);
        free(mirror);
        free(p.pixels);
    }
}

/* --- crops --- */

static const struct crop_range defaults = {0.08f, 1.0f, 3.0f / 4, 4.0f / 3};

static void test_crops_lie_within(void **state)
{
    static const int sizes[][2] = {{500, 375}, {1, 1}, {7, 900}, {3000, 2}, {64, 64}};
    for (int s = 0; s < COUNT(sizes); s++)
        for (uint64_t i = 0; i < 2000; i++) {
            struct rng rng = rng_at(s, RNG_TEST, 1, i);
            struct rect c = augment_crop(&defaults, sizes[s][0], sizes[s][1], &rng);
            assert_true(c.w >= 1 && c.h >= 1 && c.x >= 0 && c.y >= 0);
            assert_true(c.x + c.w <= sizes[s][0] && c.y + c.h <= sizes[s][1]);
        }
}

/* If none of its random crops fits, torchvision takes the crop at the centre with the nearest
 * allowed aspect ratio. */
static void test_central_fallback(void **state)
{
    static const struct {
        int width, height;
        struct rect want;
    } cases[] = {{900, 90, {390, 0, 120, 90}}, {90, 901, {0, 390, 90, 120}}};
    for (int i = 0; i < 2; i++) {
        struct rng rng = rng_at(1, RNG_TEST, 2, 0);
        struct crop_range all = {1, 1, 3.0f / 4, 4.0f / 3};
        struct rect c = augment_crop(&all, cases[i].width, cases[i].height, &rng);
        assert_memory_equal(&c, &cases[i].want, sizeof c);
    }
}

/* Checks means over many crops. On a square image, a drawn crop fits if area <= exp(-|log ratio|).
 * With uniform area and log ratio, the mean area of the crops that fit is 0.478. Half of the crops
 * are flipped. */
static void test_crop_distribution(void **state)
{
    enum { N = 20000 };
    double area = 0, log_ratio = 0, middle = 0, flips = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct rng rng = rng_at(5, RNG_AUGMENT, 3, i);
        struct view v = view_train(&defaults, 64, 4000, 4000, &rng);
        double w = v.x.hi - v.x.lo, h = v.y.hi - v.y.lo;
        area += w * h / (4000.0 * 4000) / N;
        log_ratio += log(w / h) / N;
        middle += (v.x.lo + v.x.hi) / 8000.0 / N;
        flips += v.flip / (double)N;
    }
    assert_true(fabs(area - 0.478) < 0.006);
    assert_true(fabs(log_ratio) < 0.01);
    assert_true(fabs(middle - 0.5) < 0.01);
    assert_true(fabs(flips - 0.5) < 0.015);
}

static void test_validation_view(void **state)
{
    static const struct {
        int size, resize, width, height, x, y;
    } cases[] = {
        {224, 256, 500, 375, 58, 16}, /* round(58.5) rounds half to even, as in Python */
        {224, 257, 300, 300, 16, 16}, /* round(16.5) */
        {64, 73, 100, 4000, 4, 1428}, /* round(4.5) */
        {224, 232, 500, 375, 42, 4},  /* torchvision's second weights of ResNet-50 */
        {224, 235, 500, 375, 44, 6},  /* timm's --crop-pct 0.95: round(44.5), round(5.5) */
        {96, 109, 375, 500, 6, 24}, /* timm's default, --crop-pct 0.875: round(6.5), round(24.5) */
        {288, 288, 100, 300, 0, 288}, /* timm's --crop-pct 1.0 */
        {224, 224, 1, 1000000, 0, 111999888},
        {4096, 409600, 1, 1000000, 202752, 1073739776}, /* the longer side is limited to 2^31 - 1 */
    };
    for (int i = 0; i < COUNT(cases); i++) {
        struct view v = view_val(cases[i].size, cases[i].resize, cases[i].width, cases[i].height);
        assert_int_equal(v.x.first, cases[i].x);
        assert_int_equal(v.y.first, cases[i].y);
        assert_true(v.x.count == cases[i].size && v.y.count == cases[i].size && !v.flip);
    }
    struct view v = view_val(224, 256, 500, 375);
    assert_true(v.y.scale == 375.0 / 256 && v.x.scale == 500.0 / 341); /* int(256*500/375) */
}

static void test_shrink_keeps_enough_pixels(void **state)
{
    static const struct {
        int width, height, want;
    } cases[] = {{500, 375, 1},   {511, 900, 1},   {512, 512, 2},    {1023, 5000, 2},
                 {1024, 1024, 4}, {2048, 2049, 8}, {60000, 2800, 8}, {20, 20, 1}};
    for (int i = 0; i < COUNT(cases); i++) {
        struct view v = view_val(224, 256, cases[i].width, cases[i].height);
        assert_int_equal(view_shrink(&v), cases[i].want);
        struct resize_axis x = resize_axis_shrink(v.x, cases[i].want);
        assert_true(x.scale >= 1 || cases[i].want == 1);
        assert_true(x.hi == (cases[i].width + cases[i].want - 1) / cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_bicubic),
        cmocka_unit_test(test_crops_lie_within),
        cmocka_unit_test(test_central_fallback),
        cmocka_unit_test(test_crop_distribution),
        cmocka_unit_test(test_validation_view),
        cmocka_unit_test(test_shrink_keeps_enough_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
