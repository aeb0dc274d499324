/* What a split of a data set consists of, and whether every file of it is sound. */
#ifndef INPUT_SCAN_H
#define INPUT_SCAN_H

#include "base/status.h"
#include "input/dataset.h"

#include <stdint.h>
#include <stdio.h>

struct scan_range {
    int64_t min, median, max;
};

struct scan_bad {
    int64_t sample; /* of the data set */
    char *reason;
};

struct scan_report {
    int64_t images, bytes;
    struct scan_range per_class;            /* images in a class */
    struct scan_range width, height, sizes; /* pixels, pixels, bytes; of sound files */
    int64_t gray, cmyk, progressive;        /* sound files of these kinds */
    int64_t n_bad;
    struct scan_bad *bad; /* (n_bad) in the data set's order */
};

/* Reads and decodes every file with `workers` threads. Bad files are what is looked for, not a
 * failure. `progress` may be NULL. */
MUST_CHECK enum status scan_run(const struct dataset *data, int workers, FILE *progress,
                                struct scan_report **out);
void scan_free(struct scan_report *r); /* NULL is fine */
#endif
