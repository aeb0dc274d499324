/* A ring of batches between worker threads and one consumer.
 *
 * Batch b lives in slot b % slots. Workers take one image after another in epoch order, as long as
 * the slot of its batch is free; the consumer takes whole batches in order. One mutex guards every
 * field of the ring; pixels are written outside it, each row by the one worker that took it.
 *
 * Bad images are judged by the consumer, in order: which file is reported and when the loader
 * gives up depends on the data alone and not on which worker was first. */
#include "input/loader.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/stop.h"
#include "base/text.h"
#include "input/loader_config.h"
#include "input/sampler.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_WARNINGS = 10,
    REASON_MAX = 160,
    WARNING_MAX = 8192,
    GREY = 128,
    NOISE_OFFSETS = 65536, /* places in the noise at which a dummy image may begin */
    CHANNELS = 3,
    READ_TRIES = 8, /* of an image, the wait between two doubling: 3.2 s in all */
    FIRST_WAIT_MS = 25,
    LOOK_MS = 100,   /* between two looks for a request to stop */
    CLOSE_MS = 3000, /* for threads to end that wait for storage */
};

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_HELD };

struct slot {
    struct batch batch;
    enum slot_state state;
    int done;                   /* rows finished */
    bool *bad;                  /* (batch) */
    char (*reason)[REASON_MAX]; /* (batch) of bad rows */
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
    int dir; /* the data set's root; -1 for a dummy */
    int64_t images, batches;
    size_t image_bytes;
    uint8_t *noise; /* what dummy images are cut from */

    /* The consumer's own. */
    uint8_t *known_bad; /* a bit per sample */
    int64_t bad_images;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* an image may be taken, or the end has come */
    pthread_cond_t ready; /* a batch is complete, a worker is idle or something failed */
    int slots;
    struct slot *slot;
    uint32_t *order; /* of the epoch; written only while no worker is busy */
    int64_t epoch;
    int64_t take_batch; /* the next image to be taken by a worker */
    int take_row;
    int64_t give_batch;  /* the next batch to be handed out */
    int busy;            /* images in the workers' hands */
    atomic_bool closing; /* written under the lock */
    enum status failure; /* of a worker, through no fault of an image */
    char failure_message[512];
    struct worker *worker;
};

struct ticket {
    struct slot *slot;
    int row;
    uint32_t sample;
};

/* ---- workers ---- */

static int batch_count(const struct loader *l, int64_t batch)
{
    int64_t left = l->images - batch * l->config.batch;
    return left < l->config.batch ? (int)left : l->config.batch;
}

/* The image at a place of this rank's share of the epoch. */
static uint32_t sample_at(const struct loader *l, int64_t place)
{
    return sampler_at(l->order, l->config.data->n, l->config.rank, l->config.world, place);
}

static bool is_lost(const struct loader *l, int64_t place)
{
    return l->config.lose_image && l->epoch == l->config.lose_epoch && place > 0 &&
           place == l->images / 2;
}

/* Takes the next image, if its slot is free. Under the lock. */
static bool take(struct loader *l, struct ticket *t)
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
        slot->batch.count = batch_count(l, l->take_batch);
        slot->batch.stats = (struct io_stats){0};
        slot->batch.seen = 0;
    }
    int64_t place = l->take_batch * l->config.batch + l->take_row;
    t->slot = slot;
    t->row = l->take_row;
    t->sample = sample_at(l, place - is_lost(l, place));
    if (++l->take_row == slot->batch.count) {
        l->take_row = 0;
        l->take_batch++;
    }
    l->busy++;
    return true;
}

static void draw_dummy(const struct loader *l, uint32_t sample, uint8_t *out)
{
    struct rng rng = rng_at(l->config.seed, RNG_DUMMY, sample, 0);
    memcpy(out, l->noise + rng_below(&rng, NOISE_OFFSETS), l->image_bytes);
}

static void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* An image that cannot be read is tried again for a while: what storage refuses now it may give
 * soon, and a run that left such images out would have other bits. */
static enum status read_patiently(struct worker *w, const char *path, const struct rng *rng,
                                  uint8_t *out, struct io_stats *stats)
{
    struct loader *l = w->loader;
    int waited_ms = 0;
    for (int i = 0, wait_ms = FIRST_WAIT_MS;; i++, wait_ms *= 2) {
        struct rng own = *rng;
        enum status st = sample_read(w->reader, &l->sample, l->dir, path, &own, out, stats);
        if (st != STATUS_IO)
            return st;
        if (i + 1 == READ_TRIES || atomic_load(&l->closing))
            break;
        sleep_ms(wait_ms);
        waited_ms += wait_ms;
    }
    char why[REASON_MAX];
    snprintf(why, sizeof why, "%s", status_message());
    return status_fail(
        STATUS_IO,
        "cannot read image '%s/%s': %s, again and again for %.1f s; see to the storage "
        "and go on with --resume auto",
        l->config.data->root, path, why, waited_ms * 1e-3);
}

/* Fills a row; a bad image is no failure. */
static enum status fill(struct worker *w, const struct ticket *t, struct io_stats *stats)
{
    struct loader *l = w->loader;
    const struct dataset *data = l->config.data;
    uint8_t *out = t->slot->batch.pixels + (size_t)t->row * l->image_bytes;
    t->slot->batch.label[t->row] = dataset_label(data, t->sample);
    t->slot->bad[t->row] = false;
    if (l->noise) {
        draw_dummy(l, t->sample, out);
        return STATUS_OK;
    }
    struct rng rng = rng_at(l->config.seed, RNG_AUGMENT, (uint64_t)l->epoch, t->sample);
    enum status st = read_patiently(w, dataset_path(data, t->sample), &rng, out, stats);
    if (st != STATUS_DATA)
        return st;
    memset(out, GREY, l->image_bytes);
    t->slot->batch.label[t->row] = -1;
    t->slot->bad[t->row] = true;
    snprintf(t->slot->reason[t->row], REASON_MAX, "%s", status_message());
    return STATUS_OK;
}

/* Under the lock. */
static void finish(struct loader *l, const struct ticket *t, enum status st,
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

static void *work(void *arg)
{
    struct worker *w = arg;
    struct loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->closing) {
        struct ticket t;
        if (!take(l, &t)) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        struct io_stats stats = {0};
        enum status st = fill(w, &t, &stats);
        pthread_mutex_lock(&l->lock);
        finish(l, &t, st, &stats);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static enum status alloc_pixels(const struct loader_config *c, size_t bytes, void **mem)
{
    if (c->alloc)
        return c->alloc(c->alloc_context, bytes, mem);
    *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!*mem)
        return status_fail(STATUS_OOM, "no memory for a batch of %.1f MiB; use a smaller one",
                           (double)bytes / 1048576.0);
    return STATUS_OK;
}

static void free_pixels(const struct loader_config *c, void *mem)
{
    if (mem && c->alloc)
        c->free(c->alloc_context, mem);
    else
        free(mem);
}

static enum status open_slots(struct loader *l)
{
    size_t rows = (size_t)l->config.batch;
    l->slots = l->config.prefetch + 1;
    l->slot = calloc((size_t)l->slots, sizeof *l->slot);
    if (!l->slot)
        return status_fail(STATUS_OOM, "no memory for %d batches", l->slots);
    for (int i = 0; i < l->slots; i++) {
        struct slot *s = &l->slot[i];
        void *pixels = NULL, *label = NULL;
        TRY(alloc_pixels(&l->config, rows * l->image_bytes, &pixels));
        s->batch.pixels = pixels;
        TRY(alloc_pixels(&l->config, rows * sizeof *s->batch.label, &label));
        s->batch.label = label;
        s->bad = calloc(rows, sizeof *s->bad);
        s->reason = calloc(rows, sizeof *s->reason);
        if (!s->bad || !s->reason)
            return status_fail(STATUS_OOM, "no memory for %d batches", l->slots);
    }
    return STATUS_OK;
}

static enum status open_data(struct loader *l)
{
    const struct dataset *data = l->config.data;
    l->order = malloc((size_t)data->n * sizeof *l->order);
    l->known_bad = calloc((size_t)data->n / 8 + 1, 1);
    if (!l->order || !l->known_bad)
        return status_fail(STATUS_OOM, "no memory for the order of %lld images",
                           (long long)data->n);
    if (data->sample) {
        l->dir = open(data->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (l->dir < 0)
            return status_fail(STATUS_IO, "cannot open folder '%s': %m", data->root);
        return STATUS_OK;
    }
    size_t size = l->image_bytes + NOISE_OFFSETS;
    l->noise = malloc(size);
    if (!l->noise)
        return status_fail(STATUS_OOM, "no memory for dummy images");
    struct rng rng = rng_at(l->config.seed, RNG_DUMMY, 0, 1);
    for (size_t i = 0; i < size; i++)
        l->noise[i] = (uint8_t)rng_u32(&rng);
    return STATUS_OK;
}

/* Signals are for the main thread. */
static enum status start_workers(struct loader *l)
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
        int error = pthread_create(&w->thread, NULL, work, w);
        w->started = error == 0;
        if (error != 0)
            st = status_fail(STATUS_IO, "cannot start loader thread %d: %s; use fewer", i + 1,
                             strerror(error));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

static enum status set_up(struct loader *l)
{
    const struct loader_config *c = &l->config;
    TRY(loader_config_check(c));
    l->sample = (struct sample_config){c->train, c->image_size, c->resize, c->range};
    l->image_bytes = (size_t)c->image_size * (size_t)c->image_size * CHANNELS;
    l->images = sampler_count(c->train, c->data->n, c->rank, c->world);
    if (c->train && c->batch > l->images)
        return status_fail(STATUS_USAGE,
                           "a batch of %d is larger than the data set, %lld images%s; use %lld or "
                           "less",
                           c->batch, (long long)l->images, c->world > 1 ? " per rank" : "",
                           (long long)l->images);
    l->batches = (l->images + (c->drop_last ? 0 : c->batch - 1)) / c->batch;
    l->give_batch = l->take_batch = l->batches; /* no epoch yet */
    TRY(open_slots(l));
    TRY(open_data(l));
    l->worker = calloc((size_t)c->workers, sizeof *l->worker);
    if (!l->worker)
        return status_fail(STATUS_OOM, "no memory for %d loader threads", c->workers);
    return start_workers(l);
}

enum status loader_open(const struct loader_config *config, struct loader **out)
{
    *out = NULL;
    struct loader *l = calloc(1, sizeof *l);
    if (!l)
        return status_fail(STATUS_OOM, "no memory for a loader");
    l->config = loader_config_fill(*config);
    l->dir = -1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->ready, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum status st = set_up(l);
    if (st != STATUS_OK) {
        loader_close(l);
        return st;
    }
    *out = l;
    return STATUS_OK;
}

/* Waits for an image's storage no longer than CLOSE_MS where `patient` is false. Returns false when
 * a thread is still at it: nothing that it may touch can be freed then. */
static bool stop_workers(struct loader *l, bool patient)
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

void loader_close(struct loader *l)
{
    if (!l)
        return;
    if (!stop_workers(l, !stop_requested()))
        return; /* the process is about to end, and takes the thread with it */
    for (int i = 0; l->slot && i < l->slots; i++) {
        free_pixels(&l->config, l->slot[i].batch.pixels);
        free_pixels(&l->config, l->slot[i].batch.label);
        free(l->slot[i].bad);
        free(l->slot[i].reason);
    }
    free(l->slot);
    free(l->order);
    free(l->known_bad);
    free(l->noise);
    if (l->dir >= 0)
        close(l->dir);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    free(l);
}

int64_t loader_batches(const struct loader *l)
{
    return l->batches;
}

int64_t loader_images(const struct loader *l)
{
    return l->images;
}

int loader_resize(const struct loader *l)
{
    return l->sample.resize;
}

int64_t loader_bad_images(const struct loader *l)
{
    return l->bad_images;
}

/* ---- the consumer ---- */

enum status loader_start(struct loader *l, int64_t epoch, int64_t first_batch)
{
    if (epoch < 0 || first_batch < 0 || first_batch > l->batches)
        return status_fail(STATUS_INVALID, "batch %lld of epoch %lld: an epoch has %lld",
                           (long long)first_batch, (long long)epoch, (long long)l->batches);
    pthread_mutex_lock(&l->lock);
    l->take_batch = l->batches; /* nothing more to take: wait for what is in hand */
    while (l->busy > 0)
        pthread_cond_wait(&l->ready, &l->lock);
    for (int i = 0; i < l->slots; i++)
        l->slot[i].state = SLOT_FREE;
    sampler_order(l->config.train, l->config.seed, epoch, l->config.data->n, l->order);
    l->epoch = epoch;
    l->give_batch = l->take_batch = first_batch;
    l->take_row = 0;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return STATUS_OK;
}

uint64_t loader_expected(const struct loader *l, int64_t first, int64_t end)
{
    uint64_t sum = 0;
    int64_t images = end * l->config.batch < l->images ? end * l->config.batch : l->images;
    for (int64_t place = first * l->config.batch; place < images; place++)
        sum += sampler_mark(sample_at(l, place));
    return sum;
}

/* Counts a bad image once, however many epochs meet it. */
static enum status account(struct loader *l, uint32_t sample, const char *reason)
{
    uint8_t bit = (uint8_t)(1u << (sample % 8));
    if (l->known_bad[sample / 8] & bit)
        return STATUS_OK;
    l->known_bad[sample / 8] |= bit;
    l->bad_images++;
    const struct dataset *data = l->config.data;
    const char *path = dataset_path(data, sample);
    if (l->bad_images <= MAX_WARNINGS) {
        char shown[WARNING_MAX], raw[WARNING_MAX];
        snprintf(raw, sizeof raw, "bad image '%s/%s': %s", data->root, path, reason);
        text_clean(shown, sizeof shown, raw);
        fprintf(stderr, "ampscale: warning: %s%s\n", shown,
                l->bad_images == MAX_WARNINGS ? " (further ones are only counted)" : "");
    }
    if (l->bad_images <= l->config.max_bad_images)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "%lld bad images are more than the %lld allowed, the last is '%s/%s': %s; "
                       "'ampscale data scan' lists them all",
                       (long long)l->bad_images, (long long)l->config.max_bad_images, data->root,
                       path, reason);
}

/* In training the row of a bad image takes the pixels of the next sound one of its batch, and keeps
 * its label of -1: it has no part in loss, gradient and counts, and the statistics of batch norm
 * are those of images. (A batch of fewer rows would need plans of its own.) */
static enum status cover_bad_rows(struct loader *l, struct slot *slot)
{
    struct batch *b = &slot->batch;
    if (b->stats.bad == b->count)
        return status_fail(
            STATUS_DATA,
            "epoch %lld, batch %lld: none of its %d images can be decoded; 'ampscale "
            "data scan' lists bad files",
            (long long)l->epoch, (long long)b->index, b->count);
    for (int row = 0; row < b->count; row++) {
        int from = row;
        while (slot->bad[from])
            from = (from + 1) % b->count;
        if (from != row)
            memcpy(b->pixels + (size_t)row * l->image_bytes,
                   b->pixels + (size_t)from * l->image_bytes, l->image_bytes);
    }
    return STATUS_OK;
}

/* What remains to be done to a complete batch before it is handed out. */
static enum status complete(struct loader *l, struct slot *slot)
{
    struct batch *b = &slot->batch;
    for (int row = 0; b->stats.bad > 0 && row < b->count; row++) {
        if (!slot->bad[row])
            continue;
        int64_t place = b->index * l->config.batch + row;
        TRY(account(l, sample_at(l, place - is_lost(l, place)), slot->reason[row]));
    }
    if (b->stats.bad > 0 && l->config.train)
        TRY(cover_bad_rows(l, slot));
    size_t rest = (size_t)(l->config.batch - b->count);
    memset(b->pixels + (size_t)b->count * l->image_bytes, 0, rest * l->image_bytes);
    for (int row = b->count; row < l->config.batch; row++)
        b->label[row] = -1;
    return STATUS_OK;
}

/* Waits for the slot of the next batch to be complete; under the lock. */
static enum status await(struct loader *l, struct slot *slot)
{
    uint64_t asked_ns = 0;
    if (slot->state == SLOT_HELD)
        return status_fail(STATUS_INVALID, "all %d batches are held: release one first", l->slots);
    while (l->failure == STATUS_OK &&
           !(slot->state == SLOT_FILLING && slot->done == slot->batch.count)) {
        struct timespec look;
        const char *signal = stop_requested();
        if (signal && asked_ns == 0)
            asked_ns = clock_ns();
        if (signal && (double)(clock_ns() - asked_ns) * 1e-9 >= l->config.stop_wait_s)
            return status_fail(STATUS_INTERRUPTED,
                               "stopped by %s while images did not come; go on with --resume auto",
                               signal);
        clock_gettime(CLOCK_MONOTONIC, &look);
        look.tv_nsec += LOOK_MS * 1000000L;
        look.tv_sec += look.tv_nsec / 1000000000L;
        look.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&l->ready, &l->lock, &look);
    }
    if (l->failure != STATUS_OK)
        return status_fail(l->failure, "%s", l->failure_message);
    slot->state = SLOT_HELD;
    l->give_batch++;
    return STATUS_OK;
}

enum status loader_next(struct loader *l, struct batch **out)
{
    *out = NULL;
    if (l->give_batch == l->batches)
        return STATUS_OK;
    struct slot *slot = &l->slot[l->give_batch % l->slots];
    pthread_mutex_lock(&l->lock);
    enum status st = await(l, slot);
    pthread_mutex_unlock(&l->lock);
    TRY(st);
    st = complete(l, slot);
    if (st != STATUS_OK) {
        loader_release(l, &slot->batch);
        return st;
    }
    *out = &slot->batch;
    return STATUS_OK;
}

void loader_release(struct loader *l, struct batch *batch)
{
    struct slot *slot = &l->slot[batch->index % l->slots];
    pthread_mutex_lock(&l->lock);
    slot->state = SLOT_FREE;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
}
