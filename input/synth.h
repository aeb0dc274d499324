/* A synthetic data set on disk, in the folders DIR/train/<class> and DIR/val/<class>.
 *
 * The bytes of an image depend only on seed, class, image number and size, not on the number of
 * threads. A few percent of the files are grayscale or progressive, and some have other spellings
 * of the extension, as in real data sets. DIR/dataset.json records the configuration of the set and
 * whether it is complete. */
#pragma once

#include "base/bar.h"
#include "base/status.h"
#include "input/synth_draw.h"
#include "input/synth_kind.h"

#include <stdbool.h>
#include <stdint.h>

struct synth_config {
    const char *out;
    int classes;    /* 1 .. SYNTH_MAX_CLASSES */
    int train, val; /* images per class, each >= 1 */
    int size;       /* SYNTH_MIN_SIZE .. SYNTH_MAX_SIZE: typical side in pixels */
    uint64_t seed;
    int workers;     /* threads, >= 1 */
    bool force;      /* write into a folder with other files; nothing is deleted */
    struct bar *bar; /* shows the number of images written; may be NULL */
    /* Each thread calls this before each image. If it fails, synth_write ends with that failure.
     * NULL: not called. */
    enum status (*proceed)(void);
};

/* Writes the set. Completes a set whose writing was interrupted; overwrites a complete set with the
 * same bytes. STATUS_USAGE for a folder with other files, or a set with another configuration (its
 * files would remain among the new files). */
MUST_CHECK enum status synth_write(const struct synth_config *config);

/* Returns STATUS_DATA if `dir` is an incomplete synthetic set. Accepts all other folders. */
MUST_CHECK enum status synth_check_complete(const char *dir);
