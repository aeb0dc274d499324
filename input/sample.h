/* Turns an image file into the pixels that a network sees: reads the file, chooses the view,
 * decodes and resamples it.
 *
 * A reader belongs to one thread; its buffers grow to the largest image and are reused. */
#pragma once

#include "base/rng.h"
#include "base/status.h"
#include "input/augment.h"
#include "input/device_decoder.h"
#include "input/image_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The cost of input, summed over images and threads. The times of threads that run in parallel are
 * added, so a sum may exceed the elapsed time. */
struct io_stats {
    int64_t files;     /* images read: files, or parts of archives */
    int64_t bytes;     /* bytes of these files */
    int64_t bad;       /* images that could not be decoded */
    int64_t on_device; /* images that a device decoded (device_decoder.h) */
    int64_t read_ns;
    int64_t decode_ns; /* decoding and resampling */
};

void io_stats_add(struct io_stats *sum, const struct io_stats *x);

struct sample_config {
    bool train;
    int image_size;          /* output is image_size x image_size */
    int resize;              /* validation: the shorter side before the centre crop */
    struct crop_range range; /* training */
    enum resize_filter filter;
    bool fast; /* decode JPEG files at a reduced size where enough pixels remain (view_shrink) */
};

struct sample_reader;

MUST_CHECK enum status sample_reader_open(struct sample_reader **r);
void sample_reader_close(struct sample_reader *r); /* NULL is fine */

/* Like sample_reader_open, but stores the bytes of files in memory that `device` reads fast.
 * `device` must outlive the reader. */
MUST_CHECK enum status sample_reader_open_for(const struct device_decoder *device,
                                              struct sample_reader **r);

/* Reads and decodes a whole image and discards it. Fails as sample_read does. After a failure,
 * *info and *bytes have the values that were read before the failure. If the header was not read,
 * info->width is 0. */
MUST_CHECK enum status sample_check(struct sample_reader *r, struct image_file file,
                                    struct image_info *info, int64_t *bytes);

/* Writes image_size * image_size RGB pixels to `out` and adds to `stats`. In training `rng` chooses
 * the crop and the flip. STATUS_DATA: the image cannot be decoded; it counts as bad in `stats`, and
 * `out` is undefined. STATUS_IO: the file could not be read, but a later attempt may succeed; `rng`
 * is unchanged. In both cases the message is the reason without the path. No image causes any other
 * failure. */
MUST_CHECK enum status sample_read(struct sample_reader *r, const struct sample_config *config,
                                   struct image_file file, struct rng *rng, uint8_t *out,
                                   struct io_stats *stats);

/* The two halves of sample_read: sample_fetch reads the file into the reader's memory, sample_make
 * decodes it. Both may fail with STATUS_DATA, and sample_fetch also with STATUS_IO, as sample_read
 * does. */
MUST_CHECK enum status sample_fetch(struct sample_reader *r, struct image_file file,
                                    struct io_stats *stats);
MUST_CHECK enum status sample_make(struct sample_reader *r, const struct sample_config *config,
                                   struct rng *rng, uint8_t *out, struct io_stats *stats);

/* Describes the view of the fetched file for a device: `rng` chooses the same crop and flip as in
 * sample_make. Sets all members of *picture except `out` and `done`. The pointers in *picture
 * are to memory of the reader, and are valid until the reader's next call. STATUS_UNSUPPORTED for a
 * file that only the CPU decodes and for bicubic resampling, and STATUS_DATA for a damaged file. */
MUST_CHECK enum status sample_describe(struct sample_reader *r, const struct sample_config *config,
                                       struct rng *rng, struct device_picture *picture);

/* The following functions are the steps of sample_read, so that each step can be measured. */

/* Reads the whole file into the reader's memory. *bytes is valid until the reader's next call. */
MUST_CHECK enum status sample_load(struct sample_reader *r, struct image_file file,
                                   const uint8_t **bytes, size_t *size);

/* The decoded pixels of a view, and how to resample them. */
struct sample_view {
    struct resize_axis x, y;
    bool flip;
    struct region region; /* owned by the reader, valid until it decodes the next image */
};

/* Chooses the view of a file in memory and decodes the pixels that it needs. */
MUST_CHECK enum status sample_decode(struct sample_reader *r, const struct sample_config *config,
                                     const uint8_t *bytes, size_t size, struct rng *rng,
                                     struct sample_view *view);

/* Writes image_size * image_size RGB pixels. */
MUST_CHECK enum status sample_resample(struct sample_reader *r, const struct sample_view *view,
                                       uint8_t *out);
