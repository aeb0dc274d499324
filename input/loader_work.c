/* The loader's workers. A worker takes the next image of the epoch, if the slot of its batch is
 * free, and fills the image's row. It writes the pixels without the lock: no other worker writes
 * this row. If a device decodes, a worker keeps some files and then passes them to the device
 * together. It passes them to the device at the latest when there is no image to take, so that it
 * never waits while it keeps files. */
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

/* Reads an image's file. Retries a failed read: storage may recover soon, and without the image the
 * run would not be reproducible. */
static enum status fetch_patiently(struct loader *l, struct sample_reader *reader, uint32_t sample,
                                   struct io_stats *stats)
{
    int waited_ms = 0;
    for (int i = 0, wait_ms = FIRST_WAIT_MS;; i++, wait_ms *= 2) {
        enum status st = sample_fetch(reader, image_files_at(&l->files, sample), stats);
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

/* Records a bad image, whose status is STATUS_DATA. Returns every other status unchanged. */
static enum status settle(struct loader *l, const struct ticket *t, enum status st)
{
    if (st != STATUS_DATA)
        return st;
    memset(loader_row(l, t), GREY, l->image_bytes);
    t->slot->batch.label[t->row] = -1;
    t->slot->bad[t->row] = true;
    snprintf(t->slot->reason[t->row], REASON_MAX, "%s", status_message());
    return STATUS_OK;
}

enum status loader_decode(struct loader *l, struct sample_reader *reader, const struct ticket *t,
                          struct io_stats *stats)
{
    struct rng rng = loader_rng(l, t);
    return settle(l, t, sample_make(reader, &l->sample, &rng, loader_row(l, t), stats));
}

/* Fills a row with its image. Sets *kept to whether the worker keeps the file for the device
 * instead. The row of a kept file is filled later. */
static enum status worker_fill(struct worker *w, const struct ticket *t, struct io_stats *stats,
                               bool *kept)
{
    struct loader *l = w->loader;
    t->slot->batch.label[t->row] = dataset_label(l->config.data, t->sample);
    t->slot->bad[t->row] = false;
    *kept = false;
    if (l->noise) {
        struct rng rng = rng_at(l->config.seed, RNG_DUMMY, t->sample, 0);
        memcpy(loader_row(l, t), l->noise + rng_below(&rng, NOISE_OFFSETS), l->image_bytes);
        return STATUS_OK;
    }
    struct sample_reader *reader = w->files ? worker_files_reader(w->files) : w->reader;
    enum status st = fetch_patiently(l, reader, t->sample, stats);
    if (st != STATUS_OK)
        return settle(l, t, st);
    *kept = w->files && worker_files_keep(w->files, t, stats);
    return *kept ? STATUS_OK : loader_decode(l, reader, t, stats);
}

void loader_finish(struct loader *l, const struct ticket *t, enum status st,
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

/* Loads an image. The caller holds the lock; the function releases it while it loads. */
static void worker_load(struct worker *w, const struct ticket *t)
{
    struct io_stats stats = {0};
    bool kept;
    pthread_mutex_unlock(&w->loader->lock);
    enum status st = worker_fill(w, t, &stats, &kept);
    if (kept && worker_files_full(w->files))
        worker_files_decode(w->files);
    pthread_mutex_lock(&w->loader->lock);
    if (!kept)
        loader_finish(w->loader, t, st, &stats);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->closing) {
        struct ticket t;
        if (worker_take(l, &t)) {
            worker_load(w, &t);
        } else if (w->files && worker_files_kept(w->files) > 0) {
            pthread_mutex_unlock(&l->lock);
            worker_files_decode(w->files);
            pthread_mutex_lock(&l->lock);
        } else {
            pthread_cond_wait(&l->work, &l->lock);
        }
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
        st = l->config.decoder && !l->noise ? worker_files_open(l, &w->files)
                                            : sample_reader_open(&w->reader);
        if (st != STATUS_OK)
            break;
        int error = pthread_create(&w->thread, NULL, worker_main, w);
        w->started = error == 0;
        if (error != 0)
            st = status_fail(STATUS_IO, "cannot start loader thread %d: %s; use fewer threads",
                             i + 1, strerror(error));
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
    for (int i = 0; stopped && l->worker && i < l->config.workers; i++) {
        sample_reader_close(l->worker[i].reader);
        worker_files_close(l->worker[i].files);
    }
    if (stopped)
        free(l->worker);
    return stopped;
}
