/* Decodes JPEG files on a device, for the workers of a loader.
 *
 * input/ knows no device: the caller of a loader supplies the functions (loader_config.decoder).
 * The CUDA module has them for GPUs whose hardware decodes JPEG (engine/nvjpeg/). Each worker of a
 * loader opens a queue of its own, and passes several files at a time. The device decodes the whole
 * picture, then crops, resamples and flips it with the weights of resize.h. The CPU decodes each
 * picture that the device refuses or cannot decode. */
#pragma once

#include "base/status.h"
#include "input/resize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_FILES_MAX = 32 }; /* maximum number of files per call of `decode` */

/* Maximum number of pixels of a picture that the device decodes: device memory must hold the whole
 * picture. */
#define DEVICE_MAX_PIXELS (INT64_C(1) << 22)

struct device_picture {
    const uint8_t *bytes; /* the file, in memory that `alloc` returned */
    size_t size;
    int width, height;
    const struct resize_table *x, *y; /* tables of `side` outputs each, in pixels of the whole
                                       * picture; x includes the flip */
    int side;
    uint8_t *out; /* (side, side, 3) RGB, in host memory */
    bool done;    /* set by `decode`: `out` has been written */
};

struct device_queue;

struct device_decoder {
    const char *name; /* "NVIDIA H200, 7 JPEG engines", for messages */

    /* Host memory for files, from which data can be copied to the device at full speed. Any thread
     * may call these functions; `free` accepts NULL. */
    enum status (*alloc)(const struct device_decoder *d, size_t bytes, void **mem);
    void (*free)(const struct device_decoder *d, void *mem);

    /* A queue belongs to one thread. */
    enum status (*open)(const struct device_decoder *d, struct device_queue **q);
    void (*close)(struct device_queue *q); /* NULL is fine */

    /* Returns whether the device decodes files of this kind; reads the file's markers only. */
    bool (*takes)(struct device_queue *q, const uint8_t *bytes, size_t size);

    /* Decodes n pictures, 1 <= n <= DEVICE_FILES_MAX, and waits for them. The CPU must decode each
     * picture that is not `done` afterwards. A failure means an error of the device. With
     * STATUS_OK, a picture that is not `done` was skipped by the device without an error. */
    enum status (*decode)(struct device_queue *q, struct device_picture *picture, int n);

    void (*drop)(struct device_decoder *d); /* frees the decoder; its queues must be closed */
};
