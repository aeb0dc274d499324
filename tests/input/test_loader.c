/* Tests the loader's batches. The loader returns them in order, and they do not depend on the
 * number of threads. It uses bounded memory, and accepts a limited number of bad files. */
#include "input/sampler.h"
#include "tests/input/loading.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct epoch want, got;

static void test_workers_change_nothing(void **state)
{
    for (int train = 0; train < 2; train++) {
        struct loader_config c = loading();
        c.train = train;
        c.workers = c.prefetch = 1;
        epoch_load(&c, 3, 0, &want);
        assert_int_equal(want.rows, N);
        for (int i = 0; i < 2; i++) {
            c.workers = i ? 5 : 2;
            c.prefetch = 1 + 2 * i;
            struct loader *l = loader_of(&c);
            epoch_read(l, 2, 0, &got); /* before epoch 3, this loader reads another epoch */
            epoch_read(l, 3, 0, &got);
            epoch_same(&want, 0, &got, 0);
            loader_close(l);
        }
    }
}

/* An epoch can begin at any batch. An aborted epoch must not change the next epoch, whenever it is
 * aborted: batches may be in use, and the loader is decoding later batches. */
static void test_restarts(void **state)
{
    struct loader_config c = loading();
    c.workers = 5;
    c.prefetch = 4;
    struct loader *l = loader_of(&c);
    epoch_read(l, 7, 0, &want);
    for (int i = 0; i < 64; i++) {
        struct batch *b;
        int first = i % (BATCHES + 1);
        assert_int_equal(loader_start(l, i, i % 3), STATUS_OK);
        for (int k = 0; k < i % 4; k++) {
            assert_int_equal(loader_next(l, &b), STATUS_OK);
            if (i % 5 == 0)
                loader_release(l, b);
        }
        epoch_read(l, 7, first, &got);
        epoch_same(&want, first == BATCHES ? N : first * BATCH, &got, 0);
    }
    assert_int_equal(loader_start(l, 7, BATCHES + 1), STATUS_INVALID);
    loader_close(l);
}

/* The loader returns images in the order of the sampler. An image's pixels must not depend on the
 * other images of its batch. */
static void test_order_follows_the_sampler(void **state)
{
    enum { WORLD = 4 };
    struct loader_config c = loading();
    epoch_load(&c, 5, 0, &want);
    uint32_t order[N];
    sampler_order(true, c.seed, 5, N, order);
    for (int i = 0; i < N; i++)
        assert_int_equal(want.label[i], dataset_label(images, order[i]));
    c.world = WORLD;
    c.batch = 3;
    for (c.rank = 0; c.rank < WORLD; c.rank++) {
        epoch_load(&c, 5, 0, &got);
        assert_int_equal(got.rows, 7);
        for (int i = 0; i < got.rows; i++) {
            int place = (c.rank + i * WORLD) % N;
            assert_int_equal(got.label[i], want.label[place]);
            assert_memory_equal(got.pixels[i], want.pixels[place], IMAGE_BYTES);
        }
    }
}

/* Returns the position of a sample in the order of an epoch. */
static int place_of(uint32_t sample, uint64_t seed, int64_t epoch)
{
    uint32_t order[N];
    int place = 0;
    sampler_order(true, seed, epoch, N, order);
    while (order[place] != sample)
        place++;
    return place;
}

/* In training, order and crops differ between epochs and seeds. In validation, they are always the
 * same. */
static void test_epochs_and_seeds_differ(void **state)
{
    struct loader_config c = loading();
    epoch_load(&c, 0, 0, &want);
    epoch_load(&c, 1, 0, &got);
    assert_memory_not_equal(want.label, got.label, sizeof *want.label * N);
    for (uint32_t i = 0; i < N; i++)
        assert_memory_not_equal(want.pixels[place_of(i, c.seed, 0)],
                                got.pixels[place_of(i, c.seed, 1)], IMAGE_BYTES);
    c.seed++;
    epoch_load(&c, 0, 0, &got);
    assert_memory_not_equal(want.pixels, got.pixels, (size_t)N * IMAGE_BYTES);
    c.train = false;
    epoch_load(&c, 0, 0, &want);
    epoch_load(&c, 1, 0, &got);
    epoch_same(&want, 0, &got, 0);
}

static void test_last_batch(void **state)
{
    struct loader_config c = loading();
    struct loader *l = loader_of(&c);
    struct batch *b;
    assert_int_equal(loader_batches(l), BATCHES);
    assert_int_equal(loader_start(l, 0, 6), STATUS_OK);
    assert_int_equal(loader_next(l, &b), STATUS_OK);
    assert_int_equal(b->count, 3);
    assert_int_equal(b->label[3], -1);
    for (int i = 0; i < IMAGE_BYTES; i++)
        assert_int_equal(b->pixels[3 * IMAGE_BYTES + i], 0);
    assert_int_equal(b->stats.files, 3);
    assert_true(b->stats.bytes > 0 && b->stats.decode_ns > 0);
    loader_release(l, b);
    for (int i = 0; i < 2; i++) { /* further calls also return no batch */
        assert_int_equal(loader_next(l, &b), STATUS_OK);
        assert_null(b);
    }
    loader_close(l);
    c.drop_last = true;
    epoch_load(&c, 0, 0, &got);
    assert_int_equal(got.rows, 24);
}

static void test_prefetch_is_bounded(void **state)
{
    struct loader_config c = loading();
    c.batch = 1;
    c.prefetch = 3;
    c.workers = 5;
    struct loader *l = loader_of(&c);
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    struct batch *held[4], *b;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(loader_next(l, &held[i]), STATUS_OK);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(held[i]->pixels, held[k]->pixels);
    }
    /* all batches are in use, so waiting would never end */
    assert_int_equal(loader_next(l, &b), STATUS_INVALID);
    loader_release(l, held[2]); /* batches may be released in any order */
    loader_release(l, held[0]);
    assert_int_equal(loader_next(l, &b), STATUS_OK);
    assert_int_equal(b->index, 4);
    loader_close(l);
}

static void test_bad_images(void **state)
{
    struct loader_config c = loading();
    c.train = false;
    epoch_load(&c, 0, 0, &want);
    image_put(2, "\x89PNG\r\n\x1a\n", 8);
    image_put(5, "\xff\xd8", 2);
    image_put(20, "", 0);
    c.max_bad_images = 3;
    struct loader *l = loader_of(&c);
    for (int epoch = 0; epoch < 2; epoch++) { /* a bad file is counted once, not once per epoch */
        epoch_read(l, epoch, 0, &got);
        for (int i = 0; i < N; i++) {
            bool bad = i == 2 || i == 5 || i == 20;
            uint8_t grey[IMAGE_BYTES];
            memset(grey, 128, sizeof grey);
            assert_int_equal(got.label[i], bad ? -1 : want.label[i]);
            assert_memory_equal(got.pixels[i], bad ? grey : want.pixels[i], IMAGE_BYTES);
        }
        assert_int_equal(got.stats.bad, 3);
    }
    loader_close(l);
    c.max_bad_images = 2;
    epoch_fails(&c, STATUS_DATA, "3 bad images are more than the allowed 2");
    assert_non_null(strstr(status_message(), "c2/02.JPEG': an empty file"));
}

/* In training, the loader replaces a bad image by another image of the batch. If all images of a
 * batch are bad, they are grey and have no labels, and the epoch continues. */
static void test_bad_rows_are_covered(void **state)
{
    struct loader_config c = loading();
    c.max_bad_images = N;
    epoch_load(&c, 0, 0, &want);
    for (int i = 0; i < N; i += 3)
        image_put(i, "", 0);
    epoch_load(&c, 0, 0, &got);
    assert_int_equal(got.stats.bad, (N + 2) / 3);
    for (int i = 0; i < N; i++) {
        int first = i / BATCH * BATCH, count = N - first < BATCH ? N - first : BATCH, from = i;
        while (got.label[from] < 0)
            from = first + (from + 1 - first) % count;
        assert_int_equal(got.label[from], want.label[from]);
        assert_memory_equal(got.pixels[i], want.pixels[from], IMAGE_BYTES);
    }
    for (int i = 0; i < N; i++)
        image_put(i, "", 0);
    epoch_load(&c, 0, 0, &got);
    assert_int_equal(got.stats.bad, N);
    for (int i = 0; i < N; i++) {
        uint8_t grey[IMAGE_BYTES];
        memset(grey, 128, sizeof grey);
        assert_int_equal(got.label[i], -1);
        assert_memory_equal(got.pixels[i], grey, IMAGE_BYTES);
    }
}

static void test_wrong_configurations(void **state)
{
    struct loader *l;
    struct loader_config c[] = {loading(), loading(), loading(), loading()};
    c[0].batch = N + 1;
    c[1].resize = SIZE - 1;
    c[2].range = (struct crop_range){0.5f, 0.1f, 1, 1};
    c[3].workers = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(loader_open(&c[i], &l), i < 3 ? STATUS_USAGE : STATUS_INVALID);
        assert_null(l);
    }
    c[0].train = false; /* in validation, a batch may be shorter */
    loader_close(loader_of(&c[0]));
}

/* A sum of hashes shows whether the loader returned each image exactly once. The sum must be right
 * for a start at any batch, and the total of all ranks must be right. */
static void test_lost_images_are_missed(void **state)
{
    uint64_t ranks = 0, all = 0;
    struct loader_config c = loading();
    c.world = 3;
    for (c.rank = 0; c.rank < 3; c.rank++) {
        struct loader *l = loader_of(&c);
        for (int64_t end = loader_batches(l), first = end; first >= 0; first--) {
            epoch_read(l, 1, first, &got);
            assert_true(got.seen == loader_expected(l, first, end));
        }
        ranks += got.seen;
        loader_close(l);
    }
    /* 27 images can be divided by 3 ranks, so no image is repeated */
    for (uint32_t i = 0; i < N; i++)
        all += sampler_mark(i);
    assert_true(ranks == all);
}

int main(void)
{
#define ON_FILES(test) cmocka_unit_test_setup_teardown(test, images_set_up, images_tear_down)
    const struct CMUnitTest tests[] = {
        ON_FILES(test_workers_change_nothing),
        ON_FILES(test_restarts),
        ON_FILES(test_order_follows_the_sampler),
        ON_FILES(test_epochs_and_seeds_differ),
        ON_FILES(test_last_batch),
        ON_FILES(test_prefetch_is_bounded),
        ON_FILES(test_bad_images),
        ON_FILES(test_bad_rows_are_covered),
        ON_FILES(test_lost_images_are_missed),
        ON_FILES(test_wrong_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
