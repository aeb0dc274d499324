/* Measures the images of a split of a data set, and checks that every file is intact. */
#pragma once

#include "base/bar.h"
#include "base/status.h"
#include "input/dataset.h"
#include "input/decode.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct scan_range {
    int64_t min, median, max;
};

struct scan_bad {
    int64_t sample; /* index in the data set */
    char *reason;
};

struct scan_report {
    int64_t images, bytes;
    struct scan_range per_class;            /* images per class */
    struct scan_range width, height, sizes; /* ranges over intact files; width and height in pixels,
                                             * sizes in bytes */
    int64_t gray, cmyk, progressive;        /* number of intact files of each kind */
    int64_t format[IMAGE_FORMATS];          /* number of files by format, including bad files */
    int64_t n_bad;
    struct scan_bad *bad; /* (n_bad) in the data set's order */
};

/* Reads and decodes every file with `workers` threads. Bad files are listed in the report; they are
 * not a failure. `bar` shows the number of images; it may be NULL. */
MUST_CHECK enum status scan_run(const struct dataset *data, int workers, struct bar *bar,
                                struct scan_report **out);
void scan_free(struct scan_report *r); /* NULL is fine */

/* Decodes every image of DIR/train and DIR/val with `workers` threads and prints their properties
 * to `out`, as text or as one JSON object. *sound becomes true if nothing is missing or damaged.
 * STATUS_DATA if the folder does not exist. `bar` shows the number of images of a split; it may be
 * NULL. */
MUST_CHECK enum status scan_folder(const char *dir, int workers, struct bar *bar, bool json,
                                   FILE *out, bool *sound);
