/* Batches of decoded images, prepared ahead by worker threads.
 *
 *     TRY(loader_open(&config, &loader));
 *     TRY(loader_start(loader, epoch, 0));
 *     while (loader_next(loader, &batch) == STATUS_OK && batch) {
 *         ...
 *         loader_release(loader, batch);
 *     }
 *     loader_close(loader);
 *
 * What a batch holds is a pure function of (data, seed, epoch, batch number, rank, world): workers,
 * prefetching and the batch at which an epoch is entered change nothing. Workers share one image
 * at a time, batches come in order, and no more than `prefetch` of them are in the making or
 * waiting while one is held. One thread consumes; after loader_open nothing is allocated but what
 * a larger image makes a buffer grow.
 *
 * An image that cannot be decoded is bad: it is left out, its row has the label -1, and one warning
 * line goes to stderr (for the first ten such files); more than max_bad_images of them are an
 * error. In training its row holds the pixels of another image of the batch, so that batch norm
 * sees images alone, and a batch without a sound image is an error; in validation the row is grey.
 * An image that cannot be read is no bad one: it is tried again for three seconds, and then the
 * loader fails. */
#ifndef INPUT_LOADER_H
#define INPUT_LOADER_H

#include "base/status.h"
#include "input/dataset.h"
#include "input/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loader_config {
    const struct dataset *data; /* stays until loader_close */
    bool train;                 /* shuffled, augmented, padded over ranks; or each image once */
    int image_size;             /* S */
    int resize;                 /* validation: shorter side before the crop; 0: S * 256 / 224 */
    struct crop_range range;    /* training; all zero: torchvision's defaults */
    int batch;                  /* images in a batch of this rank */
    bool drop_last;             /* leave out a last batch that is not full */
    int workers;                /* threads, >= 1 */
    int prefetch;               /* batches prepared ahead, >= 1 */
    uint64_t seed;
    int rank, world;
    int64_t max_bad_images; /* distinct files that may be bad before loader_next fails */
    /* A fault, for tests of what notices: in epoch lose_epoch the image in the middle of this
     * rank's share is lost, and the one before it comes twice. */
    bool lose_image;
    int64_t lose_epoch;
    double stop_wait_s; /* seconds that loader_next still waits once the process is asked to stop */
    /* Memory for pixels and labels, for example pinned; NULL: the loader's own, 64-byte aligned. */
    enum status (*alloc)(void *context, size_t bytes, void **mem);
    void (*free)(void *context, void *mem);
    void *alloc_context;
};

struct batch {
    uint8_t *pixels; /* (batch, S, S, 3) RGB; rows from count on are zero */
    int32_t *label;  /* (batch); -1 for a bad image and from count on */
    int count;       /* rows that belong to the epoch; stats.bad of them are left out */
    int64_t index;   /* batch number in the epoch, from 0 */
    struct io_stats stats;
    uint64_t seen; /* which images these are, in any order: a sum of sampler_mark, modulo 2^64 */
};

struct loader;

/* A batch that is larger than this rank's share of a training set is STATUS_USAGE. */
MUST_CHECK enum status loader_open(const struct loader_config *config, struct loader **out);
void loader_close(struct loader *l); /* NULL is fine; batches held become invalid */

/* Batches in an epoch of this rank: ceil(images / batch), or floor under drop_last. In validation
 * ranks may differ. */
int64_t loader_batches(const struct loader *l);

/* Images that this rank sees in an epoch. */
int64_t loader_images(const struct loader *l);

/* The validation resize in force: config.resize, or its default. */
int loader_resize(const struct loader *l);

/* Begins an epoch at a batch, 0 <= first_batch <= loader_batches. An epoch that is under way is
 * given up; batches held become invalid. */
MUST_CHECK enum status loader_start(struct loader *l, int64_t epoch, int64_t first_batch);

/* What `seen` comes to over batches [first, end) of the epoch that was started last, where each of
 * their images was handed out once. */
uint64_t loader_expected(const struct loader *l, int64_t first, int64_t end);

/* Waits for the next batch; *out is NULL at the end of the epoch. STATUS_DATA past max_bad_images:
 * the message names the last bad file. STATUS_IO for an image that cannot be read.
 * STATUS_INTERRUPTED when the process is asked to stop (base/stop.h) and the batch does not become
 * complete within stop_wait_s. STATUS_INVALID when prefetch + 1 batches are held. */
MUST_CHECK enum status loader_next(struct loader *l, struct batch **out);

/* Gives a batch back. */
void loader_release(struct loader *l, struct batch *batch);

/* Distinct bad files met since loader_open, in the batches that were handed out. */
int64_t loader_bad_images(const struct loader *l);
#endif
