/* A synthetic data set on disk, in the folders DIR/train/<class> and DIR/val/<class>.
 *
 * Every byte of an image is a function of (seed, class, image number, size), whatever the number of
 * threads. A few percent of the files are grayscale or progressive, and some bear other spellings
 * of the extension, as in data sets of the field. DIR/dataset.json says how the set was made, and
 * whether it is complete. */
#ifndef INPUT_SYNTH_H
#define INPUT_SYNTH_H

#include "base/status.h"
#include "input/synth_draw.h"
#include "input/synth_kind.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct synth_config {
    const char *out;
    int classes;    /* 1 .. SYNTH_MAX_CLASSES */
    int train, val; /* images per class, each >= 1 */
    int size;       /* SYNTH_MIN_SIZE .. SYNTH_MAX_SIZE: typical side in pixels */
    uint64_t seed;
    int workers;    /* threads, >= 1 */
    bool force;     /* write into a folder that holds other things; nothing is deleted */
    FILE *progress; /* a line that is drawn again and again; NULL for none */
    /* Asked before each image, by every thread: a failure ends the making with it. NULL for none.
     */
    enum status (*go_on)(void);
};

/* Makes the set, or makes it again: one that was interrupted is completed, and one that is complete
 * is written over with the same bytes. STATUS_USAGE for a folder that holds something else, or a
 * set made otherwise (its files would be left among the new ones). */
MUST_CHECK enum status synth_write(const struct synth_config *config);

/* STATUS_DATA when `dir` is a synthetic set whose making was interrupted; other folders are fine.
 */
MUST_CHECK enum status synth_check_complete(const char *dir);
#endif
