/* Compares the kernel that crops, resamples and flips decoded pictures with the CPU's resizer. The
 * cases are many sizes, crops and flips, pictures that are wider than the kernel's shared memory,
 * and missing pictures. */
#include "base/rng.h"
#include "input/augment.h"
#include "kernels/cuda/resample.h"
#include "tests/kernels/cuda/rig.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3, BATCH = 5 };

static const struct crop_range usual = {0.08f, 1, 3.0f / 4, 4.0f / 3};

struct kase {
    int width, height;
    struct view view;
    uint8_t *rgb; /* rows of `pitch` bytes */
    size_t pitch;
    struct resizer tables;
    uint8_t *out;
    int32_t written;
};

/* Fills a picture with noise, which is the hardest case. The bytes between rows are not part of the
 * picture. */
static void make_picture(struct kase *k, struct rng *rng)
{
    k->pitch = (size_t)k->width * COLOURS + rng_below(rng, 40);
    k->rgb = malloc(k->pitch * (size_t)k->height);
    assert_non_null(k->rgb);
    for (size_t i = 0; i < k->pitch * (size_t)k->height; i++)
        k->rgb[i] = (uint8_t)(rng_u32(rng) >> 3);
}

static struct cu_weights weights_of(const struct resize_table *t)
{
    return (struct cu_weights){t->taps, t->begin, t->count, t->weight};
}

static void describe(struct kase *k, int side, struct cu_picture *p)
{
    size_t bytes = (size_t)side * (size_t)side * COLOURS;
    k->out = malloc(bytes);
    assert_non_null(k->out);
    assert_int_equal(resize_table_fill(&k->view.x, k->view.flip, &k->tables.x), STATUS_OK);
    assert_int_equal(resize_table_fill(&k->view.y, false, &k->tables.y), STATUS_OK);
    k->written = -1;
    *p = (struct cu_picture){.rgb = k->rgb,
                             .pitch = (int64_t)k->pitch,
                             .width = k->width,
                             .height = k->height,
                             .x = weights_of(&k->tables.x),
                             .y = weights_of(&k->tables.y),
                             .out = k->out,
                             .written = &k->written};
}

/* Compares the kernel's output with the CPU's. No value may differ by more than one grey level, and
 * nearly all values must be equal. */
static void check_out(const struct kase *k, int side)
{
    static struct resizer cpu;
    int n = side * side * COLOURS, worst = 0, differ = 0;
    uint8_t *want = malloc((size_t)n);
    const struct region region = {k->rgb, k->pitch, {0, 0, k->width, k->height}};
    assert_non_null(want);
    assert_int_equal(resizer_run(&cpu, &k->view.x, &k->view.y, k->view.flip, &region, want),
                     STATUS_OK);
    for (int i = 0; i < n; i++) {
        int d = abs(want[i] - k->out[i]);
        worst = d > worst ? d : worst;
        differ += d > 0;
    }
    if (worst > 1 || differ * 1000 > n + 1000)
        fail_msg("%dx%d to %d%s: %d of %d values differ, by up to %d", k->width, k->height, side,
                 k->view.flip ? ", flipped" : "", differ, n, worst);
    resizer_free(&cpu);
    free(want);
}

static void run_batch(struct kase *k, int n, int side)
{
    struct cu_queue q = shim_queue();
    struct cu_picture p[BATCH];
    for (int i = 0; i < n; i++)
        describe(&k[i], side, &p[i]);
    assert_int_equal(cu_resample(&q, side, n, p), STATUS_OK);
}

static void free_batch(struct kase *k, int n)
{
    for (int i = 0; i < n; i++) {
        resizer_free(&k[i].tables);
        free(k[i].rgb);
        free(k[i].out);
    }
}

static void test_crops_and_flips(void **state)
{
    static const int sides[] = {1, 7, 24, 33};
    struct rng rng = rng_at(3, RNG_TEST, 0, 0);
    int flips = 0;
    for (int round = 0; round < 12; round++) {
        struct kase k[BATCH] = {{0}};
        int side = sides[round % 4];
        for (int i = 0; i < BATCH; i++) {
            k[i].width = 1 + (int)rng_below(&rng, round % 3 ? 90 : 300);
            k[i].height = 1 + (int)rng_below(&rng, round % 3 ? 90 : 200);
            make_picture(&k[i], &rng);
            k[i].view = round % 2 ? view_train(&usual, side, k[i].width, k[i].height, &rng)
                                  : view_val(side, side * 8 / 7, k[i].width, k[i].height);
            flips += k[i].view.flip;
        }
        run_batch(k, BATCH, side);
        for (int i = 0; i < BATCH; i++) {
            assert_int_equal(k[i].written, 1);
            check_out(&k[i], side);
        }
        free_batch(k, BATCH);
    }
    assert_true(flips > 5);
}

/* Each row is wider than CU_RESAMPLE_SPAN, so the kernel computes it in several tiles. */
static void test_wide_pictures(void **state)
{
    static const int widths[] = {CU_RESAMPLE_SPAN, CU_RESAMPLE_SPAN + 1, 4 * CU_RESAMPLE_SPAN + 7};
    struct rng rng = rng_at(4, RNG_TEST, 0, 0);
    for (int i = 0; i < 6; i++) {
        int side = i < 3 ? 32 : 9;
        struct kase k = {.width = widths[i % 3], .height = 3};
        make_picture(&k, &rng);
        k.view = view_train(&(struct crop_range){1, 1, 1e-3f, 1e4f}, side, k.width, k.height, &rng);
        k.view.flip = i % 2;
        run_batch(&k, 1, side);
        assert_true(k.tables.x.taps < CU_RESAMPLE_SPAN);
        check_out(&k, side);
        free_batch(&k, 1);
    }
}

/* A picture counts as decoded if one byte of its last row is set. */
static void test_pictures_left_out(void **state)
{
    for (int place = -1; place < 40 * COLOURS; place += 17) {
        struct rng rng = rng_at(5, RNG_TEST, 0, 0);
        struct kase k = {.width = 40, .height = 30};
        make_picture(&k, &rng);
        memset(k.rgb + 29 * k.pitch, CU_UNWRITTEN, 40 * COLOURS);
        if (place >= 0)
            k.rgb[29 * k.pitch + (size_t)place] = 0;
        k.view = view_val(8, 9, k.width, k.height);
        run_batch(&k, 1, 8);
        assert_int_equal(k.written, place >= 0);
        free_batch(&k, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crops_and_flips),
        cmocka_unit_test(test_wide_pictures),
        cmocka_unit_test(test_pictures_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
