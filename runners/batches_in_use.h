/* Internal to runners/: batches in use, which the engine may still be reading.
 *
 * The caller adds each batch that it passes to the engine. After the engine has read the oldest
 * batches, this code returns them to the loader. With an asynchronous device, it leaves the newest
 * ENGINE_HOLDS batches in use instead of waiting until the engine has read them. */
#pragma once

#include "engine/engine.h"
#include "input/loader.h"

struct batches_in_use {
    struct engine *engine;
    struct loader *loader;
    int n;
    struct batch *batch[ENGINE_HOLDS + 1]; /* the oldest first */
};

/* Adds `b`, the last batch passed to the engine, and releases the batches no longer in use. */
MUST_CHECK enum status batches_in_use_add(struct batches_in_use *h, struct batch *b);

/* Waits until the engine has read all batches, and returns them to the loader. */
MUST_CHECK enum status batches_in_use_release(struct batches_in_use *h);
