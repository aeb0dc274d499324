/* The configuration of a loader, its defaults and its check. */
#pragma once

#include "base/status.h"
#include "input/dataset.h"
#include "input/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loader_config {
    const struct dataset *data; /* must stay valid until loader_close */
    bool train;     /* true: images are shuffled and augmented, and some are repeated so that all
                     * ranks have the same number of images; false: each image is used once */
    int image_size; /* S */
    int resize;     /* validation: shorter side before the crop; 0: S * 256 / 224 */
    struct crop_range range; /* training; all zero: torchvision's defaults */
    enum resize_filter filter;
    bool fast;      /* as sample_config.fast */
    int batch;      /* images in a batch of this rank */
    bool drop_last; /* omit a last batch that is not full */
    int workers;    /* threads, >= 1 */
    int prefetch;   /* batches prepared ahead, >= 1 */
    uint64_t seed;
    int rank, world;
    int64_t max_bad_images; /* loader_next fails if more files than this are bad */
    /* A fault injected to test the checks: in epoch lose_epoch the loader omits the image in the
     * middle of this rank's share, and returns the preceding image twice. */
    bool lose_image;
    int64_t lose_epoch;
    double stop_wait_s; /* seconds that loader_next waits after a request to stop */
    /* Allocates pixels and labels, for example in pinned memory; NULL: the loader allocates them,
     * 64-byte aligned. */
    enum status (*alloc)(void *context, size_t bytes, void **mem);
    void (*free)(void *context, void *mem);
    void *alloc_context;
    /* Decodes JPEG files in place of the CPU; must stay valid until loader_close. NULL: the CPU
     * decodes all files. */
    const struct device_decoder *decoder;
};

/* Returns `c` with torchvision's defaults in place of zeros: crops of 8 % to 100 % of the area,
 * ratios of 3:4 to 4:3, and `resize` = image_size * 256 / 224. */
struct loader_config loader_config_fill(struct loader_config c);

/* Checks a configuration. STATUS_USAGE: the message names a setting that the user must correct.
 * STATUS_INVALID: the calling code is wrong. */
MUST_CHECK enum status loader_config_check(const struct loader_config *c);
