/* Tests the loader's batches. The loader returns them in order, and they do not depend on the
 * number of threads. It uses bounded memory, and accepts a limited number of bad files. */
#include "base/file.h"
#include "base/rng.h"
#include "input/loader_ring.h"
#include "input/sampler.h"
#include "tests/input/jpegs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CLASSES = 3, PER_CLASS = 9, N = CLASSES * PER_CLASS, SIZE = 24, BATCH = 4 };
enum { IMAGE_BYTES = SIZE * SIZE * 3 };

static char dir[64];
static struct dataset *data;

/* 27 images of various shapes and formats. */
static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/ampscale-loader-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < N; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/train/c%d", dir, i / PER_CLASS);
        if (dir_make(path) != STATUS_OK)
            return -1;
        struct jpeg_spec spec = {.width = 40 + 13 * i % 90,
                                 .height = 30 + 29 * i % 80,
                                 .kind = i % 4 == 3 ? JPEG_GRAY : JPEG_COLOR,
                                 .progressive = i % 5 == 0,
                                 .flat = i % 6 == 0 ? 0 : 20 + 7 * i};
        size_t size;
        uint8_t *bytes = jpeg_make(&spec, &size);
        snprintf(path, sizeof path, "%s/train/c%d/%02d.%s", dir, i / PER_CLASS, i % PER_CLASS,
                 i == 4 ? "png" : "JPEG"); /* a JPEG file whose name ends in .png */
        file_write(path, bytes, size);
        free(bytes);
    }
    return dataset_open(dir, "train", &data) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dataset_free(data);
    data = NULL;
    tree_remove(dir);
    return 0;
}

static struct loader_config config(void)
{
    return (struct loader_config){.data = data,
                                  .train = true,
                                  .image_size = SIZE,
                                  .batch = BATCH,
                                  .workers = 2,
                                  .prefetch = 2,
                                  .seed = 42,
                                  .world = 1};
}

static struct loader *open_loader(const struct loader_config *c)
{
    struct loader *l;
    if (loader_open(c, &l) != STATUS_OK)
        fail_msg("%s", status_message());
    return l;
}

/* Checks the images of an epoch and their order. */
struct epoch {
    int rows;
    int32_t label[2 * N];
    uint8_t pixels[2 * N][IMAGE_BYTES];
};

static void collect(struct loader *l, int64_t epoch, int64_t first, struct epoch *e)
{
    assert_int_equal(loader_start(l, epoch, first), STATUS_OK);
    e->rows = 0;
    for (int64_t index = first;; index++) {
        struct batch *b;
        assert_int_equal(loader_next(l, &b), STATUS_OK);
        if (!b) {
            assert_int_equal(index, loader_batches(l));
            break;
        }
        assert_int_equal(b->index, index);
        for (int i = 0; i < b->count; i++, e->rows++) {
            e->label[e->rows] = b->label[i];
            memcpy(e->pixels[e->rows], b->pixels + (size_t)i * IMAGE_BYTES, IMAGE_BYTES);
        }
        loader_release(l, b);
    }
}

static void assert_same_epoch(const struct epoch *a, int from, const struct epoch *b)
{
    assert_int_equal(a->rows - from, b->rows);
    assert_memory_equal(a->label + from, b->label, (size_t)b->rows * sizeof *b->label);
    assert_memory_equal(a->pixels[from], b->pixels, (size_t)b->rows * IMAGE_BYTES);
}

static struct epoch want, got;

static void test_workers_change_nothing(void **state)
{
    (void)state;
    for (int train = 0; train < 2; train++) {
        struct loader_config c = config();
        c.train = train;
        c.workers = 1;
        c.prefetch = 1;
        struct loader *l = open_loader(&c);
        collect(l, 3, 0, &want);
        assert_int_equal(want.rows, N);
        loader_close(l);
        static const int workers[] = {2, 5};
        for (int i = 0; i < 2; i++) {
            c.workers = workers[i];
            c.prefetch = 1 + 2 * i;
            l = open_loader(&c);
            collect(l, 2, 0, &got); /* before epoch 3, this loader reads another epoch */
            collect(l, 3, 0, &got);
            assert_same_epoch(&want, 0, &got);
            loader_close(l);
        }
    }
}

static void test_entering_in_mid_epoch(void **state)
{
    (void)state;
    struct loader_config c = config();
    struct loader *l = open_loader(&c);
    collect(l, 7, 0, &want);
    for (int first = 0; first <= 7; first++) {
        struct batch *b;
        /* Begins epoch 1, which collect() then aborts by starting epoch 7. At that time, the test
         * may still use the first batch of epoch 1, and the loader is decoding later batches. */
        assert_int_equal(loader_start(l, 1, 0), STATUS_OK);
        for (int i = 0; i < first % 4; i++) {
            assert_int_equal(loader_next(l, &b), STATUS_OK);
            if (i > 0)
                loader_release(l, b);
        }
        collect(l, 7, first, &got);
        assert_same_epoch(&want, first == 7 ? N : first * BATCH, &got);
    }
    assert_int_equal(loader_start(l, 7, 8), STATUS_INVALID);
    loader_close(l);
}

/* An aborted epoch must not change the next epoch, whenever it is aborted. */
static void test_many_restarts(void **state)
{
    (void)state;
    struct loader_config c = config();
    c.workers = 5;
    c.prefetch = 4;
    struct loader *l = open_loader(&c);
    collect(l, 7, 0, &want);
    for (int i = 0; i < 100; i++) {
        struct batch *b;
        assert_int_equal(loader_start(l, i, i % 7), STATUS_OK);
        for (int k = 0; k < i % 3; k++)
            assert_int_equal(loader_next(l, &b), STATUS_OK);
        collect(l, 7, 0, &got);
        assert_same_epoch(&want, 0, &got);
    }
    loader_close(l);
}

/* The loader returns images in the order of the sampler. An image's pixels must not depend on the
 * other images of its batch. */
static void test_order_follows_the_sampler(void **state)
{
    (void)state;
    enum { WORLD = 4 };
    struct loader_config c = config();
    struct loader *l = open_loader(&c);
    collect(l, 5, 0, &want);
    loader_close(l);
    uint32_t order[N];
    sampler_order(true, c.seed, 5, N, order);
    for (int i = 0; i < N; i++)
        assert_int_equal(want.label[i], dataset_label(data, order[i]));
    c.world = WORLD;
    c.batch = 3;
    for (c.rank = 0; c.rank < WORLD; c.rank++) {
        l = open_loader(&c);
        assert_int_equal(loader_images(l), 7);
        assert_int_equal(loader_batches(l), 3);
        collect(l, 5, 0, &got);
        for (int i = 0; i < got.rows; i++) {
            int place = (c.rank + i * WORLD) % N;
            assert_int_equal(got.label[i], want.label[place]);
            assert_memory_equal(got.pixels[i], want.pixels[place], IMAGE_BYTES);
        }
        loader_close(l);
    }
}

static void test_epochs_and_seeds_differ(void **state)
{
    (void)state;
    struct loader_config c = config();
    struct loader *l = open_loader(&c);
    collect(l, 0, 0, &want);
    collect(l, 1, 0, &got);
    assert_memory_not_equal(want.label, got.label, sizeof *want.label * N);
    loader_close(l);
    c.seed++;
    l = open_loader(&c);
    collect(l, 0, 0, &got);
    assert_memory_not_equal(want.pixels, got.pixels, (size_t)N * IMAGE_BYTES);
    loader_close(l);
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

/* In training, the crop of an image differs between epochs. In validation, the crop is always the
 * same. */
static void test_views_differ_between_epochs(void **state)
{
    (void)state;
    struct loader_config c = config();
    struct loader *l = open_loader(&c);
    collect(l, 0, 0, &want);
    collect(l, 1, 0, &got);
    /* Compares only images of several colours. All crops of a one-coloured image are equal. */
    for (uint32_t i = 0; i < N; i += 6)
        assert_memory_not_equal(want.pixels[place_of(i, c.seed, 0)],
                                got.pixels[place_of(i, c.seed, 1)], IMAGE_BYTES);
    loader_close(l);
    c.train = false;
    l = open_loader(&c);
    collect(l, 0, 0, &want);
    collect(l, 1, 0, &got);
    assert_same_epoch(&want, 0, &got);
    loader_close(l);
}

static void test_last_batch(void **state)
{
    (void)state;
    struct loader_config c = config();
    struct loader *l = open_loader(&c);
    struct batch *b;
    assert_int_equal(loader_batches(l), 7);
    assert_int_equal(loader_start(l, 0, 6), STATUS_OK);
    assert_int_equal(loader_next(l, &b), STATUS_OK);
    assert_int_equal(b->count, 3);
    assert_int_equal(b->label[3], -1);
    for (int i = 0; i < IMAGE_BYTES; i++)
        assert_int_equal(b->pixels[3 * IMAGE_BYTES + i], 0);
    assert_int_equal(b->stats.files, 3);
    assert_true(b->stats.bytes > 0 && b->stats.decode_ns > 0);
    loader_release(l, b);
    assert_int_equal(loader_next(l, &b), STATUS_OK);
    assert_null(b);
    assert_int_equal(loader_next(l, &b), STATUS_OK); /* further calls also return no batch */
    assert_null(b);
    loader_close(l);

    c.drop_last = true;
    l = open_loader(&c);
    assert_int_equal(loader_batches(l), 6);
    collect(l, 0, 0, &got);
    assert_int_equal(got.rows, 24);
    loader_close(l);
}

/* Counts allocations: all memory must be allocated before the first batch. */
static enum status counting_alloc(void *context, size_t bytes, void **mem)
{
    ++*(int *)context;
    *mem = malloc(bytes);
    return *mem ? STATUS_OK : status_fail(STATUS_OOM, "no memory");
}

static void counting_free(void *context, void *mem)
{
    --*(int *)context;
    free(mem);
}

static void test_prefetch_is_bounded(void **state)
{
    (void)state;
    int allocated = 0;
    struct loader_config c = config();
    c.batch = 1;
    c.prefetch = 3;
    c.workers = 5;
    c.alloc = counting_alloc;
    c.free = counting_free;
    c.alloc_context = &allocated;
    struct loader *l = open_loader(&c);
    assert_int_equal(allocated, 2 * 4);
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
    assert_int_equal(allocated, 2 * 4);
    loader_close(l);
    assert_int_equal(allocated, 0);
}

static void spoil(int sample, const char *bytes, size_t size)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", data->root, dataset_path(data, sample));
    if (bytes)
        file_write(path, bytes, size);
    else
        assert_int_equal(unlink(path), 0);
}

static void test_bad_images(void **state)
{
    (void)state;
    struct loader_config c = config();
    c.train = false;
    struct loader *l = open_loader(&c);
    collect(l, 0, 0, &want);
    loader_close(l);

    spoil(2, "\x89PNG\r\n\x1a\n", 8);
    spoil(5, "\xff\xd8", 2);
    spoil(20, "", 0);
    c.max_bad_images = 3;
    l = open_loader(&c);
    for (int epoch = 0; epoch < 2; epoch++) { /* a bad file is counted once, not once per epoch */
        collect(l, epoch, 0, &got);
        assert_int_equal(l->bad_images, 3);
        for (int i = 0; i < N; i++) {
            bool bad = i == 2 || i == 5 || i == 20;
            assert_int_equal(got.label[i], bad ? -1 : want.label[i]);
            uint8_t grey[IMAGE_BYTES];
            memset(grey, 128, sizeof grey);
            assert_memory_equal(got.pixels[i], bad ? grey : want.pixels[i], IMAGE_BYTES);
        }
    }
    loader_close(l);

    c.max_bad_images = 2;
    l = open_loader(&c);
    struct batch *b;
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(loader_next(l, &b), STATUS_OK);
        assert_int_equal(b->stats.bad, i < 2 ? 1 : 0);
        loader_release(l, b);
    }
    assert_int_equal(loader_next(l, &b), STATUS_DATA);
    assert_null(b);
    assert_non_null(strstr(status_message(), "3 bad images are more than the allowed 2"));
    assert_non_null(strstr(status_message(), "c2/02.JPEG': an empty file"));
    loader_close(l);
}

/* In training, the loader replaces a bad image by another image of the batch. If all images of a
 * batch are bad, the epoch ends with an error. */
static void test_bad_rows_are_covered(void **state)
{
    (void)state;
    struct loader_config c = config();
    c.max_bad_images = N;
    struct loader *l = open_loader(&c);
    collect(l, 0, 0, &want);
    loader_close(l);
    for (int i = 0; i < N; i += 3)
        spoil(i, "", 0);
    l = open_loader(&c);
    collect(l, 0, 0, &got);
    assert_int_equal(l->bad_images, (N + 2) / 3);
    loader_close(l);
    for (int i = 0; i < N; i++) {
        int first = i / BATCH * BATCH, count = N - first < BATCH ? N - first : BATCH, from = i;
        while (got.label[from] < 0)
            from = first + (from + 1 - first) % count;
        assert_int_equal(got.label[from], want.label[from]);
        assert_memory_equal(got.pixels[i], want.pixels[from], IMAGE_BYTES);
    }
    for (int i = 0; i < N; i++)
        spoil(i, "", 0);
    struct batch *b;
    l = open_loader(&c);
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    assert_int_equal(loader_next(l, &b), STATUS_DATA);
    assert_non_null(strstr(status_message(), "epoch 0, batch 0: none of its"));
    loader_close(l);
}

/* A file that cannot be read does not count as a bad image. The loader tries several times and then
 * ends the epoch with an error. */
static void test_unreadable(void **state)
{
    (void)state;
    struct loader_config c = config();
    struct batch *b;
    c.train = false;
    c.max_bad_images = N;
    spoil(5, NULL, 0); /* vanished */
    struct loader *l = open_loader(&c);
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    enum status st;
    while ((st = loader_next(l, &b)) == STATUS_OK && b)
        loader_release(l, b);
    assert_int_equal(st, STATUS_IO);
    assert_non_null(strstr(status_message(), dataset_path(data, 5)));
    assert_non_null(strstr(status_message(), "cannot open: No such file or directory, in every"));
    assert_int_equal(l->bad_images, 0);
    loader_close(l);
}

static void test_wrong_configurations(void **state)
{
    (void)state;
    struct loader *l;
    struct loader_config c = config();
    c.batch = N + 1;
    assert_int_equal(loader_open(&c, &l), STATUS_USAGE);
    assert_null(l);
    assert_non_null(strstr(status_message(), "a batch of 28 is larger than the data set"));
    c.train = false; /* in validation, a batch may be shorter */
    assert_int_equal(loader_open(&c, &l), STATUS_OK);
    loader_close(l);
    c = config();
    c.resize = SIZE - 1;
    assert_int_equal(loader_open(&c, &l), STATUS_USAGE);
    c = config();
    c.range = (struct crop_range){0.5f, 0.1f, 1, 1};
    assert_int_equal(loader_open(&c, &l), STATUS_USAGE);
    c = config();
    c.workers = 0;
    assert_int_equal(loader_open(&c, &l), STATUS_INVALID);
    c = config();
    c.image_size = 224;
    assert_int_equal(loader_open(&c, &l), STATUS_OK);
    assert_int_equal(l->sample.resize, 256);
    loader_close(l);
}

static void test_dummy_images(void **state)
{
    (void)state;
    struct dataset *dummy;
    assert_int_equal(dataset_dummy(N, 5, &dummy), STATUS_OK);
    struct loader_config c = config();
    c.data = dummy;
    struct loader *l = open_loader(&c);
    collect(l, 0, 0, &want);
    loader_close(l);
    c.workers = 1;
    l = open_loader(&c);
    collect(l, 0, 0, &got);
    assert_same_epoch(&want, 0, &got);
    assert_memory_not_equal(want.pixels[0], want.pixels[1], IMAGE_BYTES);
    loader_close(l);
    dataset_free(dummy);
}

/* Sums the hashes of all images, from batch `first` to the end of the epoch. */
static uint64_t seen_from(struct loader *l, int64_t epoch, int64_t first)
{
    struct batch *b;
    uint64_t sum = 0;
    assert_int_equal(loader_start(l, epoch, first), STATUS_OK);
    while (loader_next(l, &b) == STATUS_OK && b) {
        sum += b->seen;
        loader_release(l, b);
    }
    return sum;
}

/* A sum of hashes shows whether the loader returned each image exactly once. The sum must be right
 * for a start at any batch, and the total of all ranks must be right. If the loader loses an image
 * in epoch 1, the sum of epoch 1 is wrong, and the sum of epoch 0 is right. */
static void test_lost_images_are_missed(void **state)
{
    (void)state;
    uint64_t ranks = 0, all = 0;
    for (int rank = 0; rank < 3; rank++) {
        struct loader_config c = config();
        c.world = 3;
        c.rank = rank;
        struct loader *l = open_loader(&c);
        for (int64_t first = 0; first <= loader_batches(l); first++)
            assert_true(seen_from(l, 1, first) == loader_expected(l, first, loader_batches(l)));
        ranks += seen_from(l, 1, 0);
        loader_close(l);
        c.lose_image = true;
        c.lose_epoch = 1;
        l = open_loader(&c);
        assert_true(seen_from(l, 0, 0) == loader_expected(l, 0, loader_batches(l)));
        assert_true(seen_from(l, 1, 0) != loader_expected(l, 0, loader_batches(l)));
        loader_close(l);
    }
    /* 27 images can be divided by 3 ranks, so no image is repeated */
    for (uint32_t i = 0; i < N; i++)
        all += sampler_mark(i);
    assert_true(ranks == all);
}

int main(void)
{
#define ON_FILES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ON_FILES(test_workers_change_nothing),
        ON_FILES(test_entering_in_mid_epoch),
        ON_FILES(test_many_restarts),
        ON_FILES(test_order_follows_the_sampler),
        ON_FILES(test_epochs_and_seeds_differ),
        ON_FILES(test_views_differ_between_epochs),
        ON_FILES(test_last_batch),
        ON_FILES(test_prefetch_is_bounded),
        ON_FILES(test_bad_images),
        ON_FILES(test_bad_rows_are_covered),
        ON_FILES(test_unreadable),
        ON_FILES(test_lost_images_are_missed),
        ON_FILES(test_wrong_configurations),
        cmocka_unit_test(test_dummy_images),
    };
    return cmocka_run_group_tests_name("input_loader", tests, NULL, NULL);
}
