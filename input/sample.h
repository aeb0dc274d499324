/* From a file to the pixels that a network sees: read, choose the view, decode, resample.
 *
 * A reader belongs to one thread; its buffers grow to the largest image and are then reused. */
#ifndef INPUT_SAMPLE_H
#define INPUT_SAMPLE_H

#include "base/rng.h"
#include "base/status.h"
#include "input/augment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What input has cost; sums over images, and over threads where several worked. */
struct io_stats {
    int64_t files; /* opened and read */
    int64_t bytes; /* of these files */
    int64_t bad;   /* images that could not be decoded */
    int64_t read_ns;
    int64_t decode_ns; /* decoding and resampling */
};

void io_stats_add(struct io_stats *sum, const struct io_stats *x);

struct sample_config {
    bool train;
    int image_size;          /* output is image_size x image_size */
    int resize;              /* validation: the shorter side before the centre crop */
    struct crop_range range; /* training */
};

struct sample_reader;

MUST_CHECK enum status sample_reader_open(struct sample_reader **r);
void sample_reader_close(struct sample_reader *r); /* NULL is fine */

/* Reads and decodes all of a file, `path` below the open folder `dir` (AT_FDCWD: the current one),
 * and keeps nothing of it. What is known about the file is in *info (width 0: not even a header)
 * and *bytes also when it fails, as in sample_read. */
MUST_CHECK enum status sample_check(struct sample_reader *r, int dir, const char *path,
                                    struct jpeg_info *info, int64_t *bytes);

/* Writes image_size * image_size RGB pixels to `out` and adds to `stats`. `rng` chooses the crop
 * and the flip in training. STATUS_DATA means that this image is bad: its bytes cannot be decoded
 * (counted, `out` undefined, the reason without the path). STATUS_IO means that it could not be
 * read, which may pass (the reason without the path, `rng` as it was). Anything else is no fault of
 * the image. */
MUST_CHECK enum status sample_read(struct sample_reader *r, const struct sample_config *config,
                                   int dir, const char *path, struct rng *rng, uint8_t *out,
                                   struct io_stats *stats);

/* sample_read in its steps, for who asks what each costs. */

/* The whole file, read into memory of the reader's, which stays until its next. */
MUST_CHECK enum status sample_load(struct sample_reader *r, int dir, const char *path,
                                   const uint8_t **bytes, size_t *size);

/* A view's pixels as decoding leaves them, and how they are to be resampled. */
struct sample_view {
    struct resize_axis x, y;
    bool flip;
    struct region region; /* the reader's, until it decodes the next */
};

/* Chooses the view of a file in memory and decodes what it needs. */
MUST_CHECK enum status sample_decode(struct sample_reader *r, const struct sample_config *config,
                                     const uint8_t *bytes, size_t size, struct rng *rng,
                                     struct sample_view *view);

/* Writes image_size * image_size RGB pixels. */
MUST_CHECK enum status sample_resample(struct sample_reader *r, const struct sample_view *view,
                                       uint8_t *out);
#endif
