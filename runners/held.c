/* Batches in use. */
#include "runners/held.h"

#include <string.h>

/* Gives the oldest back until `n` are left. */
static enum status release(struct held *h, int n)
{
    while (h->n > n) {
        TRY(engine_batch_read(h->engine, h->n - 1));
        loader_release(h->loader, h->batch[0]);
        h->n--;
        memmove(h->batch, h->batch + 1, (size_t)h->n * sizeof h->batch[0]);
    }
    return STATUS_OK;
}

enum status held_add(struct held *h, struct batch *b)
{
    h->batch[h->n++] = b;
    return release(h, engine_lag(h->engine) > 0 ? ENGINE_HOLDS : 0);
}

enum status held_release(struct held *h)
{
    return release(h, 0);
}
