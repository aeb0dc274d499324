/* A folder of images and their batches, for tests of loaders. If a function fails, the test fails.
 */
#pragma once

#include "input/loader.h"
#include "tests/input/jpegs.h"

enum { CLASSES = 3, PER_CLASS = 9, N = CLASSES * PER_CLASS, SIZE = 24, BATCH = 4, BATCHES = 7 };
enum { IMAGE_BYTES = SIZE * SIZE * 3 };

/* The images, of various shapes and formats. All but image LARGE are smaller than twice the output,
 * so that they are decoded at full size. cmocka's set-up makes them, in a folder of the test. */
enum { LARGE = 9 };
extern struct dataset *images;
int images_set_up(void **state);
int images_tear_down(void **state);
struct jpeg_spec image_spec(int i);

/* Overwrites the file of an image. */
void image_put(int i, const void *bytes, size_t size);

/* Training on all images by one rank: seed 42, two workers, two prefetched batches. */
struct loader_config loading(void);
struct loader *loader_of(const struct loader_config *c);

/* The images that a loader returns from a batch to the end of an epoch, and sums over its batches.
 */
struct epoch {
    int rows;
    int32_t label[2 * N];
    uint8_t pixels[2 * N][IMAGE_BYTES];
    uint64_t seen;
    struct io_stats stats;
};

void epoch_read(struct loader *l, int64_t epoch, int64_t first, struct epoch *e);

/* The same, with a loader that is closed again. */
void epoch_load(const struct loader_config *c, int64_t epoch, int64_t first, struct epoch *e);

/* Checks that `b` has the rows of `a` that begin at row `from`. Values may differ by `tolerance`.
 */
void epoch_same(const struct epoch *a, int from, const struct epoch *b, int tolerance);

/* Reads epoch 0 and checks that it fails with this status and a message that contains `reason`. */
void epoch_fails(const struct loader_config *c, enum status st, const char *reason);
