/* Inside runners/: batches that the engine may still be reading, between it and their loader.
 *
 * Each batch that was given to the engine is added; the oldest go back to the loader when they have
 * been read, without keeping a device that goes on beside the host waiting. */
#ifndef RUNNERS_BATCHES_IN_USE_H
#define RUNNERS_BATCHES_IN_USE_H

#include "input/loader.h"
#include "runners/engine.h"

struct batches_in_use {
    struct engine *engine;
    struct loader *loader;
    int n;
    struct batch *batch[ENGINE_HOLDS + 1]; /* the oldest first */
};

/* `b` is the batch that the engine was given last. */
MUST_CHECK enum status batches_in_use_add(struct batches_in_use *h, struct batch *b);

/* Waits until all have been read and gives them back. */
MUST_CHECK enum status batches_in_use_release(struct batches_in_use *h);

#endif
