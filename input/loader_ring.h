/* Inside the loader: the ring of batches that its workers and its consumer share. */
#pragma once

#include "input/loader.h"
#include "input/sampler.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    REASON_MAX = 160,
    NOISE_OFFSETS = 65536, /* offsets in the noise at which a dummy image may begin */
};

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_HELD };

struct slot {
    struct batch batch;
    enum slot_state state;
    int done;                   /* rows finished */
    bool *bad;                  /* (batch) */
    char (*reason)[REASON_MAX]; /* (batch) why a row is bad */
};

struct worker {
    struct loader *loader;
    struct sample_reader *reader;
    pthread_t thread;
    bool started;
};

struct loader {
    struct loader_config config;
    struct sample_config sample;
    struct image_files files; /* zero for a dummy set */
    int64_t images, batches;
    size_t image_bytes;
    uint8_t *noise; /* source of the pixels of a dummy set; else NULL */

    /* Used by the consumer only. */
    uint8_t *known_bad; /* a bit per sample */
    int64_t bad_images; /* number of distinct bad files in the batches returned since loader_open */

    pthread_mutex_t lock;
    pthread_cond_t work;  /* an image may be taken, or the loader is closing */
    pthread_cond_t ready; /* a batch is complete, no worker is busy, or a worker failed */
    int slots;
    struct slot *slot;
    uint32_t *order; /* the epoch's order; written only while no worker is busy */
    int64_t epoch;
    int64_t take_batch; /* position of the next image for a worker */
    int take_row;
    int64_t give_batch;  /* number of the next batch for the consumer */
    int busy;            /* images that workers are processing */
    atomic_bool closing; /* written under the lock */
    enum status failure; /* a worker's failure that is not a bad image */
    char failure_message[512];
    struct worker *worker;
};

/* The image at position `place` of this rank's share of the epoch. */
static inline uint32_t loader_sample_at(const struct loader *l, int64_t place)
{
    return sampler_at(l->order, l->config.data->n, l->config.rank, l->config.world, place);
}

/* Whether loader_config.lose_image loses the image at `place`; the image before it is then
 * repeated. */
static inline bool loader_is_lost(const struct loader *l, int64_t place)
{
    return l->config.lose_image && l->epoch == l->config.lose_epoch && place > 0 &&
           place == l->images / 2;
}

/* Starts the threads of l->worker, which load images until the loader closes. */
MUST_CHECK enum status loader_workers_start(struct loader *l);

/* Stops the threads. If not `patient`, threads that wait for storage get three seconds; if one is
 * still running then, returns false, and memory that it may access must not be freed. */
bool loader_workers_stop(struct loader *l, bool patient);
