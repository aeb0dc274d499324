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
 * The content of a batch is a pure function of (data, seed, epoch, batch number, rank, world): it
 * does not depend on the number of workers, on prefetching, or on the batch at which an epoch is
 * resumed. Each worker takes one image at a time; batches are returned in order, to one consumer
 * thread. While the consumer uses one batch, at most `prefetch` others are being filled or are
 * ready. After loader_open, memory is allocated only when a larger image needs a larger buffer.
 *
 * An image that cannot be decoded is bad: its row has the label -1 and does not count in loss and
 * totals. The loader prints a warning to stderr for each of the first ten bad files, and fails if
 * there are more than max_bad_images. In training the row gets the pixels of another image of the
 * batch, so that batch norm sees images only. In validation, and in a batch without a good image,
 * the row is grey. A file that cannot be read is not a bad image: the loader retries for
 * three seconds, then fails. */
#pragma once

#include "input/loader_config.h"

struct batch {
    uint8_t *pixels; /* (batch, S, S, 3) RGB; rows from `count` on are zero */
    int32_t *label;  /* (batch); -1 for a bad image and in rows from `count` on */
    int count;       /* number of rows that have an image of the epoch; stats.bad is how many of
                      * these images are bad */
    int64_t index;   /* batch number in the epoch, from 0 */
    struct io_stats stats;
    uint64_t seen; /* sum of sampler_mark over the batch's images, modulo 2^64; does not depend on
                    * their order */
};

struct loader;

/* Opens a loader. STATUS_USAGE if a batch is larger than this rank's share of a training set. */
MUST_CHECK enum status loader_open(const struct loader_config *config, struct loader **out);
void loader_close(struct loader *l); /* NULL is fine; batches in use become invalid */

/* Returns the number of batches of this rank in an epoch: images / batch, rounded down with
 * drop_last, else rounded up. In validation the number may differ between ranks. */
int64_t loader_batches(const struct loader *l);

/* Returns the number of images that this rank sees in an epoch. */
int64_t loader_images(const struct loader *l);

/* Begins an epoch at batch first_batch, 0 <= first_batch <= loader_batches. Abandons an epoch that
 * has not ended: its batches in use become invalid. */
MUST_CHECK enum status loader_start(struct loader *l, int64_t epoch, int64_t first_batch);

/* Returns the expected sum of batch.seen over batches [first, end) of the current epoch. The sum
 * differs if the loader does not return each image exactly once. */
uint64_t loader_expected(const struct loader *l, int64_t first, int64_t end);

/* Waits for the next batch; *out is NULL at the end of the epoch. STATUS_DATA if more than
 * max_bad_images files are bad; the message names the last bad file. STATUS_IO for an image that
 * cannot be read. STATUS_INTERRUPTED when the process has been asked to stop (base/stop.h) and the
 * batch is not complete within stop_wait_s. STATUS_INVALID when prefetch + 1 batches are in use. */
MUST_CHECK enum status loader_next(struct loader *l, struct batch **out);

/* Returns a batch to the loader. */
void loader_release(struct loader *l, struct batch *batch);
