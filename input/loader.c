/* A ring of batches, which worker threads fill and one consumer takes.
 *
 * Batch b uses slot b % slots. Workers take one image after another in epoch order, and wait while
 * the slot of the next image's batch is in use; the consumer takes whole batches in order. One
 * mutex protects every field of the ring; pixels are written without the mutex, since only one
 * worker writes each row.
 *
 * The consumer handles bad images in order. The data alone therefore determine which file the
 * consumer reports and at which batch it fails. The order in which workers finish has no
 * influence. */
#include "input/loader_ring.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/stop.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_WARNINGS = 10,
    WARNING_MAX = 8192,
    CHANNELS = 3,
    LOOK_MS = 100, /* milliseconds between two checks for a request to stop */
};

/* ---- opening and closing ---- */

static enum status alloc_pixels(const struct loader_config *c, size_t bytes, void **mem)
{
    if (c->alloc)
        return c->alloc(c->alloc_context, bytes, mem);
    *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!*mem)
        return status_fail(STATUS_OOM, "no memory for a batch of %.1f MiB; use a smaller batch",
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
    TRY(array_new(&l->slot, l->slots));
    for (int i = 0; i < l->slots; i++) {
        struct slot *s = &l->slot[i];
        void *pixels = NULL, *label = NULL;
        TRY(alloc_pixels(&l->config, rows * l->image_bytes, &pixels));
        s->batch.pixels = pixels;
        TRY(alloc_pixels(&l->config, rows * sizeof *s->batch.label, &label));
        s->batch.label = label;
        TRY(array_new(&s->bad, rows));
        TRY(array_new(&s->reason, rows));
    }
    return STATUS_OK;
}

static enum status open_data(struct loader *l)
{
    const struct dataset *data = l->config.data;
    TRY(array_new(&l->order, data->n));
    TRY(array_new(&l->known_bad, data->n / 8 + 1));
    if (data->sample)
        return image_files_open(data, &l->files);
    size_t size = l->image_bytes + NOISE_OFFSETS;
    TRY(array_new(&l->noise, size));
    struct rng rng = rng_at(l->config.seed, RNG_DUMMY, 0, 1);
    for (size_t i = 0; i < size; i++)
        l->noise[i] = (uint8_t)rng_u32(&rng);
    return STATUS_OK;
}

static enum status set_up(struct loader *l)
{
    const struct loader_config *c = &l->config;
    TRY(loader_config_check(c));
    l->sample =
        (struct sample_config){c->train, c->image_size, c->resize, c->range, c->filter, c->fast};
    l->image_bytes = (size_t)c->image_size * (size_t)c->image_size * CHANNELS;
    l->images = sampler_count(c->train, c->data->n, c->rank, c->world);
    if (c->train && c->batch > l->images)
        return status_fail(
            STATUS_USAGE,
            "a batch of %d is larger than the data set of %lld images%s; use %lld or less",
            c->batch, (long long)l->images, c->world > 1 ? " per rank" : "", (long long)l->images);
    l->batches = (l->images + (c->drop_last ? 0 : c->batch - 1)) / c->batch;
    l->give_batch = l->take_batch = l->batches; /* no epoch has begun */
    TRY(open_slots(l));
    TRY(open_data(l));
    TRY(array_new(&l->worker, c->workers));
    return loader_workers_start(l);
}

enum status loader_open(const struct loader_config *config, struct loader **out)
{
    *out = NULL;
    struct loader *l;
    TRY(array_new(&l, 1));
    l->config = loader_config_fill(*config);
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

void loader_close(struct loader *l)
{
    if (!l)
        return;
    if (!loader_workers_stop(l, !stop_requested()))
        return; /* a worker still runs and may use the memory */
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
    image_files_close(&l->files);
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

/* ---- the consumer ---- */

enum status loader_start(struct loader *l, int64_t epoch, int64_t first_batch)
{
    if (epoch < 0 || first_batch < 0 || first_batch > l->batches)
        return status_fail(STATUS_INVALID,
                           "cannot begin at batch %lld of epoch %lld: an epoch has %lld batches",
                           (long long)first_batch, (long long)epoch, (long long)l->batches);
    pthread_mutex_lock(&l->lock);
    l->take_batch = l->batches; /* now workers take no more images; wait for the images being
                                 * processed */
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
        sum += sampler_mark(loader_sample_at(l, place));
    return sum;
}

/* Counts a bad image and prints a warning, once per file even if several epochs contain the file.
 * Fails if the count exceeds max_bad_images. */
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
                l->bad_images == MAX_WARNINGS ? " (other bad images are only counted)" : "");
    }
    if (l->bad_images <= l->config.max_bad_images)
        return STATUS_OK;
    return status_fail(
        STATUS_DATA,
        "%lld bad images are more than the allowed %lld; the last one is '%s/%s': %s; "
        "'ampscale data scan' lists them all",
        (long long)l->bad_images, (long long)l->config.max_bad_images, data->root, path, reason);
}

/* In training, gives the row of a bad image the pixels of the next good image of the batch, so that
 * batch norm sees images only. The row keeps the label -1, so that it does not count in loss,
 * gradient and totals. (The row is not removed, because a batch with fewer rows would need other
 * plans.) The rows of a batch without a good image stay grey. */
static void cover_bad_rows(struct loader *l, struct slot *slot)
{
    struct batch *b = &slot->batch;
    for (int row = 0; row < b->count && b->stats.bad < b->count; row++) {
        int from = row;
        while (slot->bad[from])
            from = (from + 1) % b->count;
        if (from != row)
            memcpy(b->pixels + (size_t)row * l->image_bytes,
                   b->pixels + (size_t)from * l->image_bytes, l->image_bytes);
    }
}

/* Fills the bad rows and the empty last rows of a complete batch, before the consumer gets the
 * batch. */
static enum status complete(struct loader *l, struct slot *slot)
{
    struct batch *b = &slot->batch;
    for (int row = 0; b->stats.bad > 0 && row < b->count; row++) {
        if (!slot->bad[row])
            continue;
        int64_t place = b->index * l->config.batch + row;
        TRY(account(l, loader_sample_at(l, place - loader_is_lost(l, place)), slot->reason[row]));
    }
    if (b->stats.bad > 0 && l->config.train)
        cover_bad_rows(l, slot);
    size_t rest = (size_t)(l->config.batch - b->count);
    memset(b->pixels + (size_t)b->count * l->image_bytes, 0, rest * l->image_bytes);
    for (int row = b->count; row < l->config.batch; row++)
        b->label[row] = -1;
    return STATUS_OK;
}

/* Waits until the slot of the next batch is complete. The caller holds the lock. */
static enum status await(struct loader *l, struct slot *slot)
{
    uint64_t asked_ns = 0;
    if (slot->state == SLOT_HELD)
        return status_fail(STATUS_INVALID, "all %d batches are in use: release one first",
                           l->slots);
    while (l->failure == STATUS_OK &&
           !(slot->state == SLOT_FILLING && slot->done == slot->batch.count)) {
        struct timespec look;
        const char *signal = stop_requested();
        if (signal && asked_ns == 0)
            asked_ns = clock_ns();
        if (signal && (double)(clock_ns() - asked_ns) * 1e-9 >= l->config.stop_wait_s)
            return status_fail(
                STATUS_INTERRUPTED,
                "stopped by %s while waiting for images; continue with --resume auto", signal);
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
