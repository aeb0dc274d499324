/* A folder of images and their batches, for tests of loaders. */
#include "tests/input/loading.h"

#include "tests/input/trees.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dataset *images;

struct jpeg_spec image_spec(int i)
{
    return (struct jpeg_spec){.width = i == LARGE ? 130 : 34 + i % 13,
                              .height = i == LARGE ? 110 : 33 + 7 * i % 13,
                              .kind = i == 12      ? JPEG_CMYK
                                      : i % 4 == 3 ? JPEG_GRAY
                                                   : JPEG_COLOR,
                              .progressive = i % 5 == 4};
}

int images_set_up(void **state)
{
    scratch_set_up(state);
    for (int i = 0; i < N; i++) {
        size_t size;
        char path[64];
        struct jpeg_spec spec = image_spec(i);
        uint8_t *bytes = jpeg_make(&spec, &size);
        snprintf(path, sizeof path, "train/c%d/%02d.%s", i / PER_CLASS, i % PER_CLASS,
                 i == 4 ? "png" : "JPEG"); /* a JPEG file whose name ends in .png */
        tree_put(*state, path, bytes, size);
        free(bytes);
    }
    return dataset_open(*state, "train", &images) == STATUS_OK ? 0 : -1;
}

int images_tear_down(void **state)
{
    dataset_free(images);
    return scratch_tear_down(state);
}

void image_put(int i, const void *bytes, size_t size)
{
    tree_put(images->root, dataset_path(images, i), bytes, size);
}

struct loader_config loading(void)
{
    return (struct loader_config){.data = images,
                                  .train = true,
                                  .image_size = SIZE,
                                  .batch = BATCH,
                                  .workers = 2,
                                  .prefetch = 2,
                                  .seed = 42,
                                  .world = 1};
}

struct loader *loader_of(const struct loader_config *c)
{
    struct loader *l;
    expect_ok(loader_open(c, &l));
    return l;
}

void epoch_read(struct loader *l, int64_t epoch, int64_t first, struct epoch *e)
{
    assert_int_equal(loader_start(l, epoch, first), STATUS_OK);
    memset(e, 0, sizeof *e);
    for (int64_t index = first;; index++) {
        struct batch *b;
        expect_ok(loader_next(l, &b));
        if (!b) {
            assert_int_equal(index, loader_batches(l));
            return;
        }
        assert_int_equal(b->index, index);
        memcpy(e->label + e->rows, b->label, (size_t)b->count * sizeof *b->label);
        memcpy(e->pixels[e->rows], b->pixels, (size_t)b->count * IMAGE_BYTES);
        e->rows += b->count;
        e->seen += b->seen;
        io_stats_add(&e->stats, &b->stats);
        loader_release(l, b);
    }
}

void epoch_load(const struct loader_config *c, int64_t epoch, int64_t first, struct epoch *e)
{
    struct loader *l = loader_of(c);
    epoch_read(l, epoch, first, e);
    loader_close(l);
}

void epoch_same(const struct epoch *a, int from, const struct epoch *b, int tolerance)
{
    assert_int_equal(a->rows - from, b->rows);
    assert_memory_equal(a->label + from, b->label, (size_t)b->rows * sizeof *b->label);
    for (int row = 0; row < b->rows; row++)
        for (int i = 0; i < IMAGE_BYTES; i++)
            if (abs(a->pixels[row + from][i] - b->pixels[row][i]) > tolerance)
                fail_msg("row %d, value %d is %d instead of %d", row, i, b->pixels[row][i],
                         a->pixels[row + from][i]);
}

void epoch_fails(const struct loader_config *c, enum status want, const char *reason)
{
    struct loader *l = loader_of(c);
    struct batch *b = NULL;
    enum status st;
    assert_int_equal(loader_start(l, 0, 0), STATUS_OK);
    while ((st = loader_next(l, &b)) == STATUS_OK && b)
        loader_release(l, b);
    expect_failed(st, want, reason);
    assert_null(b);
    loader_close(l);
}
