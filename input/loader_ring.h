/* Internal to the loader: the ring of batches that its workers and its consumer share. */
#pragma once

#include "input/loader.h"
#include "input/sampler.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    REASON_MAX = 160,
    NOISE_OFFSETS = 65536, /* number of offsets in the noise at which a dummy image may begin */
};

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_HELD };

struct slot {
    struct batch batch;
    enum slot_state state;
    int done;                   /* rows finished */
    bool *bad;                  /* (batch) whether the image of a row is bad */
    char (*reason)[REASON_MAX]; /* (batch) why the image is bad */
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
    uint8_t *known_bad; /* one bit per sample: set once its file is known to be bad */
    int64_t bad_images; /* number of distinct bad files in the batches returned since loader_open */

    pthread_mutex_t lock;
    pthread_cond_t work;  /* an image may be taken, or the loader is closing */
    pthread_cond_t ready; /* a batch is complete, no worker is busy, or a worker failed */
    int slots;
    struct slot *slot;
    uint32_t *order; /* the epoch's order of images; written only while no worker is busy */
    int64_t epoch;
    int64_t take_batch; /* batch of the next image that a worker takes; take_row is its row */
    int take_row;
    int64_t give_batch;  /* number of the next batch for the consumer */
    int busy;            /* images that workers are processing */
    atomic_bool closing; /* written under the lock */
    enum status failure; /* the first failure of a worker; a bad image is not a failure */
    char failure_message[512];
    struct worker *worker;
};

/* Returns the image at position `place` of this rank's share of the epoch. */
static inline uint32_t loader_sample_at(const struct loader *l, int64_t place)
{
    return sampler_at(l->order, l->config.data->n, l->config.rank, l->config.world, place);
}

/* Returns whether the loader omits the image at `place` and repeats the preceding image, as
 * requested by loader_config.lose_image. */
static inline bool loader_is_lost(const struct loader *l, int64_t place)
{
    return l->config.lose_image && l->epoch == l->config.lose_epoch && place > 0 &&
           place == l->images / 2;
}

/* Starts the threads of l->worker, which load images until the loader closes. */
MUST_CHECK enum status loader_workers_start(struct loader *l);

/* Stops the threads and waits for them: without limit if `patient`, else at most three seconds,
 * since a thread may be waiting for storage. Returns false if a thread is still running; memory
 * that the thread may access must then not be freed. */
bool loader_workers_stop(struct loader *l, bool patient);
