/* Internal to the loader: the ring of batches that its workers and its consumer share. */
#pragma once

#include "base/rng.h"
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

/* An image that a worker has taken: a row of a slot. */
struct ticket {
    struct slot *slot;
    int row;
    uint32_t sample;
};

struct worker {
    struct loader *loader;
    struct sample_reader *reader;
    struct worker_files *files; /* files kept for a device; NULL: no device decodes */
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
    atomic_bool device_failed; /* a warning that the device cannot decode was printed */
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

/* The row of the batch in which the image's pixels belong. */
static inline uint8_t *loader_row(const struct loader *l, const struct ticket *t)
{
    return t->slot->batch.pixels + (size_t)t->row * l->image_bytes;
}

/* The random numbers that choose the view of an image in the current epoch. */
static inline struct rng loader_rng(const struct loader *l, const struct ticket *t)
{
    return rng_at(l->config.seed, RNG_AUGMENT, (uint64_t)l->epoch, t->sample);
}

/* Decodes the file that `reader` has fetched, on the CPU, and writes the pixels to the image's row.
 * A bad image is recorded in the slot; it is not a failure. */
MUST_CHECK enum status loader_decode(struct loader *l, struct sample_reader *reader,
                                     const struct ticket *t, struct io_stats *stats);

/* Records that a row is finished, with the status and statistics of its image. The caller holds the
 * lock. */
void loader_finish(struct loader *l, const struct ticket *t, enum status st,
                   const struct io_stats *stats);

/* --- files that wait for a device (loader_device.c) --- */

MUST_CHECK enum status worker_files_open(struct loader *l, struct worker_files **out);
void worker_files_close(struct worker_files *f); /* NULL is fine */

/* The reader for the worker's next file. */
struct sample_reader *worker_files_reader(const struct worker_files *f);

/* If the device decodes files of this kind, keeps the file that worker_files_reader has fetched,
 * and returns true; worker_files_decode then finishes the row. */
bool worker_files_keep(struct worker_files *f, const struct ticket *t,
                       const struct io_stats *stats);

/* worker_files_kept returns the number of kept files; worker_files_full returns whether no more may
 * be kept. */
int worker_files_kept(const struct worker_files *f);
bool worker_files_full(const struct worker_files *f);

/* Decodes the kept files and finishes their rows. The CPU decodes the files that the device has not
 * decoded. */
void worker_files_decode(struct worker_files *f);

/* Starts the threads of l->worker, which load images until the loader closes. */
MUST_CHECK enum status loader_workers_start(struct loader *l);

/* Stops the threads and waits for them: without limit if `patient` is set, else at most three
 * seconds, since a thread may be waiting for storage. Returns false if a thread is still running;
 * memory that the thread may access must then not be freed. */
bool loader_workers_stop(struct loader *l, bool patient);
