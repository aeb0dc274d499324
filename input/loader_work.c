/* The loader's workers. A worker takes the next image of the epoch, if the slot of its batch is
 * free, and fills the image's row. It writes the pixels without the lock: no other worker writes
 * this row. */
#include "input/loader_ring.h"

#include "base/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    GREY = 128,
    READ_TRIES = 8, /* attempts to read an image; the waits between them double each time and last
                     * 3.2 s in all */
    FIRST_WAIT_MS = 25,
    CLOSE_MS = 3000, /* time limit for stopping threads that wait for storage */
};

struct ticket {
    struct slot *slot;
    int row;
    uint32_t sample;
};

/* Takes the next image, if its slot is free. The caller holds the lock. */
static bool worker_take(struct loader *l, struct ticket *t)
{
    if (l->take_batch >= l->batches || l->failure != STATUS_OK)
        return false;
    struct slot *slot = &l->slot[l->take_batch % l->slots];
    if (l->take_row == 0) {
        if (slot->state != SLOT_FREE)
            return false;
        slot->state = SLOT_FILLING;
        slot->done = 0;
        slot->batch.index = l->take_batch;
        int64_t left = l->images - l->take_batch * l->config.batch;
        slot->batch.count = left < l->config.batch ? (int)left : l->config.batch;
        slot->batch.stats = (struct io_stats){0};
        slot->batch.seen = 0;
    }
    int64_t place = l->take_batch * l->config.batch + l->take_row;
    t->slot = slot;
    t->row = l->take_row;
    t->sample = loader_sample_at(l, place - loader_is_lost(l, place));
    if (++l->take_row == slot->batch.count) {
        l->take_row = 0;
        l->take_batch++;
    }
    l->busy++;
    return true;
}

/* Reads an image. Retries a failed read: storage may recover soon, and without the image the run
 * would not be reproducible. */
static enum status read_patiently(struct worker *w, uint32_t sample, const struct rng *rng,
                                  uint8_t *out, struct io_stats *stats)
{
    struct loader *l = w->loader;
    int waited_ms = 0;
    for (int i = 0, wait_ms = FIRST_WAIT_MS;; i++, wait_ms *= 2) {
        struct rng own = *rng;
        enum status st =
            sample_read(w->reader, &l->sample, image_files_at(&l->files, sample), &own, out, stats);
        if (st != STATUS_IO)
            return st;
        if (i + 1 == READ_TRIES || atomic_load(&l->closing))
            break;
        struct timespec t = {wait_ms / 1000, wait_ms % 1000 * 1000000L};
        nanosleep(&t, NULL);
        waited_ms += wait_ms;
    }
    char why[REASON_MAX];
    snprintf(why, sizeof why, "%s", status_message());
    return status_fail(STATUS_IO,
                       "cannot read image '%s/%s': %s, in every attempt during %.1f s; check the "
                       "storage and continue with --resume auto",
                       l->config.data->root, dataset_path(l->config.data, sample), why,
                       waited_ms * 1e-3);
}

/* Fills a row with its image. A bad image is recorded in the slot; it is not a failure. */
static enum status worker_fill(struct worker *w, const struct ticket *t, struct io_stats *stats)
{
    struct loader *l = w->loader;
    const struct dataset *data = l->config.data;
    uint8_t *out = t->slot->batch.pixels + (size_t)t->row * l->image_bytes;
    t->slot->batch.label[t->row] = dataset_label(data, t->sample);
    t->slot->bad[t->row] = false;
    if (l->noise) {
        struct rng rng = rng_at(l->config.seed, RNG_DUMMY, t->sample, 0);
        memcpy(out, l->noise + rng_below(&rng, NOISE_OFFSETS), l->image_bytes);
        return STATUS_OK;
    }
    struct rng rng = rng_at(l->config.seed, RNG_AUGMENT, (uint64_t)l->epoch, t->sample);
    enum status st = read_patiently(w, t->sample, &rng, out, stats);
    if (st != STATUS_DATA)
        return st;
    memset(out, GREY, l->image_bytes);
    t->slot->batch.label[t->row] = -1;
    t->slot->bad[t->row] = true;
    snprintf(t->slot->reason[t->row], REASON_MAX, "%s", status_message());
    return STATUS_OK;
}

/* Records that a row is finished, with the status and statistics of its image. The caller holds the
 * lock. */
static void worker_finish(struct loader *l, const struct ticket *t, enum status st,
                          const struct io_stats *stats)
{
    io_stats_add(&t->slot->batch.stats, stats);
    t->slot->batch.seen += sampler_mark(t->sample);
    t->slot->done++;
    l->busy--;
    if (st != STATUS_OK && l->failure == STATUS_OK) {
        l->failure = st;
        snprintf(l->failure_message, sizeof l->failure_message, "%s", status_message());
    }
    if (t->slot->done == t->slot->batch.count || l->busy == 0 || st != STATUS_OK)
        pthread_cond_signal(&l->ready);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->closing) {
        struct ticket t;
        if (!worker_take(l, &t)) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        struct io_stats stats = {0};
        enum status st = worker_fill(w, &t, &stats);
        pthread_mutex_lock(&l->lock);
        worker_finish(l, &t, st, &stats);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Blocks signals in the workers, since the main thread handles signals. */
enum status loader_workers_start(struct loader *l)
{
    enum status st = STATUS_OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < l->config.workers && st == STATUS_OK; i++) {
        struct worker *w = &l->worker[i];
        w->loader = l;
        st = sample_reader_open(&w->reader);
        if (st != STATUS_OK)
            break;
        int error = pthread_create(&w->thread, NULL, worker_main, w);
        w->started = error == 0;
        if (error != 0)
            st = status_fail(STATUS_IO, "cannot start loader thread %d: %s; use fewer", i + 1,
                             strerror(error));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

bool loader_workers_stop(struct loader *l, bool patient)
{
    struct timespec end;
    bool stopped = true;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += CLOSE_MS / 1000;
    for (int i = 0; l->worker && i < l->config.workers; i++) {
        struct worker *w = &l->worker[i];
        if (w->started && patient)
            pthread_join(w->thread, NULL);
        else if (w->started && pthread_timedjoin_np(w->thread, NULL, &end) != 0)
            stopped = false;
    }
    for (int i = 0; stopped && l->worker && i < l->config.workers; i++)
        sample_reader_close(l->worker[i].reader);
    if (stopped)
        free(l->worker);
    return stopped;
}
