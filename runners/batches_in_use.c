/* Returns batches to the loader after the engine has read them. */
#include "runners/batches_in_use.h"

#include <string.h>

/* Returns the oldest batches to the loader until at most `n` batches are in use. */
static enum status release(struct batches_in_use *h, int n)
{
    while (h->n > n) {
        TRY(engine_batch_read(h->engine, h->n - 1));
        loader_release(h->loader, h->batch[0]);
        h->n--;
        memmove(h->batch, h->batch + 1, (size_t)h->n * sizeof h->batch[0]);
    }
    return STATUS_OK;
}

enum status batches_in_use_add(struct batches_in_use *h, struct batch *b)
{
    h->batch[h->n++] = b;
    return release(h, engine_lag(h->engine) > 0 ? ENGINE_HOLDS : 0);
}

enum status batches_in_use_release(struct batches_in_use *h)
{
    return release(h, 0);
}
