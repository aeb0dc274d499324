/* Runs passes over the images: a stage in several threads, or an epoch of the loader. */
#include "bench/input.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/stop.h"
#include "base/thread_pool.h"
#include "engine/device_input.h"
#include "input/loader.h"
#include "input/sampler.h"
#include "kernels/backend.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    PREFETCH = 2,
    GPU_LEVELS = 8, /* largest accepted mean error, in grey levels, of an image that a GPU
                     * decoded */
};

/* The resources of one thread. */
struct hand {
    struct sample_reader *reader;
    uint8_t *pixels; /* pixels of one image */
};

struct passes {
    const struct input_set *set;
    enum input_stage stage;
    bool cold;
    int threads;
    size_t image_bytes;
    struct thread_pool *pool;
    struct hand *hand; /* (threads) */
    struct loader *loader;
    bool checks; /* results are checked */
    atomic_llong next, wrong;
    int64_t on_device;
};

/* --- a stage by itself --- */

/* Processes image i. Sets *want to the expected checksum of the result. Sets *sum to the checksum
 * of the result if results are checked, else to 0. */
static enum status work(struct passes *p, struct hand *h, int64_t i, uint64_t *sum, uint64_t *want)
{
    const struct input_set *set = p->set;
    const struct input_image *image = &set->image[i];
    const uint8_t *bytes;
    size_t size;
    struct rng rng = input_rng(i);
    struct sample_view view;
    switch (p->stage) {
    case INPUT_READ:
        TRY(sample_load(h->reader, image_files_at(&set->files, i), &bytes, &size));
        *want = image->bytes_sum;
        *sum = p->checks ? hash_bytes(0, bytes, size) : 0;
        return STATUS_OK;
    case INPUT_DECODE:
        TRY(sample_decode(h->reader, &set->sample, image->bytes, image->size, &rng, &view));
        if (p->checks)
            TRY(sample_resample(h->reader, &view, h->pixels));
        break;
    default:
        TRY(sample_resample(h->reader, &image->view, h->pixels));
    }
    *want = image->pixels_sum;
    *sum = p->checks ? hash_bytes(0, h->pixels, p->image_bytes) : 0;
    return STATUS_OK;
}

/* Threads take images one at a time, as in the loader. */
static enum status take_part(void *context, int member)
{
    struct passes *p = context;
    for (int64_t i; (i = atomic_fetch_add(&p->next, 1)) < p->set->data.n;) {
        uint64_t sum = 0, want = 0;
        TRY(stop_check());
        TRY(input_set_name(p->set, i, work(p, &p->hand[member], i, &sum, &want)));
        if (p->checks && sum != want)
            atomic_fetch_add(&p->wrong, 1);
    }
    return STATUS_OK;
}

/* --- the loader --- */

/* Gets the next batch. After a signal, replaces the loader's message, because that message explains
 * how to resume a run. */
static enum status next_batch(struct passes *p, struct batch **b)
{
    TRY(stop_check());
    enum status st = loader_next(p->loader, b);
    return st == STATUS_INTERRUPTED ? stop_check() : st;
}

/* Sets *right to whether `pixels` are the expected pixels of image i. */
static enum status check_pixels(struct passes *p, int64_t i, const uint8_t *pixels, bool *right)
{
    const struct input_image *image = &p->set->image[i];
    struct rng rng = input_rng(i);
    struct sample_view view;
    *right = hash_bytes(0, pixels, p->image_bytes) == image->pixels_sum;
    if (*right || p->stage != INPUT_GPU)
        return STATUS_OK;
    struct hand *h = &p->hand[0];
    int64_t sum = 0;
    TRY(sample_decode(h->reader, &p->set->sample, image->bytes, image->size, &rng, &view));
    TRY(sample_resample(h->reader, &view, h->pixels));
    for (size_t k = 0; k < p->image_bytes; k++)
        sum += abs(pixels[k] - h->pixels[k]);
    *right = sum <= (int64_t)p->image_bytes * GPU_LEVELS;
    return STATUS_OK;
}

/* Compares each image from the loader with the image at the same position in the order of the
 * epoch. Counts each image that is missing, repeated or different as wrong. */
static enum status check_epoch(struct passes *p)
{
    int64_t n = p->set->data.n, place = 0, right = 0;
    uint32_t *order = NULL;
    bool *seen = NULL;
    struct batch *b = NULL;
    enum status st;
    CHECK(array_new(&order, n));
    CHECK(array_new(&seen, n));
    sampler_order(true, 0, 0, n, order);
    CHECK(loader_start(p->loader, 0, 0));
    for (;;) {
        CHECK(next_batch(p, &b));
        if (!b)
            break;
        for (int row = 0; row < b->count && place < n; row++, place++) {
            uint32_t i = order[place];
            bool same;
            CHECK(check_pixels(p, i, b->pixels + (size_t)row * p->image_bytes, &same));
            right += !seen[i] && same;
            seen[i] = true;
        }
        p->on_device += b->stats.on_device;
        loader_release(p->loader, b);
    }
    atomic_store(&p->wrong, n - right);
done:
    free(order);
    free(seen);
    return st;
}

static enum status run_epoch(struct passes *p)
{
    struct batch *b;
    TRY(loader_start(p->loader, 0, 0));
    for (;;) {
        TRY(next_batch(p, &b));
        if (!b)
            return STATUS_OK;
        loader_release(p->loader, b);
    }
}

/* --- passes --- */

static enum status run_pass(struct passes *p)
{
    if (input_stage_loads(p->stage))
        return p->checks ? check_epoch(p) : run_epoch(p);
    atomic_store(&p->next, 0);
    return thread_pool_run(p->pool, take_part, p);
}

static enum status pass_sample(void *context, double *seconds)
{
    struct passes *p = context;
    if (p->cold)
        TRY(input_set_drop(p->set));
    uint64_t begun = clock_ns();
    TRY(run_pass(p));
    *seconds = (double)(clock_ns() - begun) * 1e-9;
    return STATUS_OK;
}

static enum status pass_check(struct passes *p, int64_t *wrong)
{
    double ignored;
    atomic_store(&p->wrong, 0);
    p->checks = true;
    TRY(pass_sample(p, &ignored));
    *wrong = atomic_load(&p->wrong);
    return STATUS_OK;
}

static enum status open_loader(const struct input_config *c, struct passes *p)
{
    int64_t n = p->set->data.n;
    struct loader_config l = {.data = &p->set->data,
                              .train = true,
                              .image_size = c->options.image_size,
                              .fast = c->fast,
                              .batch = c->options.batch < n ? c->options.batch : (int)n,
                              .workers = p->threads,
                              .prefetch = PREFETCH,
                              .world = 1};
    if (p->stage == INPUT_GPU)
        device_input_set(&l, p->set->device, p->set->decoder);
    return loader_open(&l, &p->loader);
}

static enum status passes_open(const struct input_config *c, struct passes *p)
{
    p->image_bytes = 3 * (size_t)c->options.image_size * (size_t)c->options.image_size;
    if (input_stage_loads(p->stage))
        TRY(open_loader(c, p));
    TRY(array_new(&p->hand, p->threads));
    for (int i = 0; i < p->threads; i++) {
        TRY(array_new(&p->hand[i].pixels, p->image_bytes));
        TRY(sample_reader_open(&p->hand[i].reader));
    }
    return thread_pool_open(p->threads, &p->pool);
}

static void passes_close(struct passes *p)
{
    loader_close(p->loader);
    thread_pool_close(p->pool);
    for (int i = 0; p->hand && i < p->threads; i++) {
        sample_reader_close(p->hand[i].reader);
        free(p->hand[i].pixels);
    }
    free(p->hand);
}

enum status input_measure(const struct input_config *c, const struct input_set *set,
                          enum input_stage stage, bool cold, int threads, struct input_row *row)
{
    struct passes p = {.set = set, .stage = stage, .cold = cold, .threads = threads};
    enum status st;
    *row = (struct input_row){.stage = stage,
                              .threads = threads,
                              .cold = cold,
                              .images = set->data.n,
                              .bytes = set->bytes};
    CHECK(passes_open(c, &p));
    CHECK(harness_run(&c->options.timing, pass_sample, &p, &row->time));
    CHECK(pass_check(&p, &row->wrong));
    row->on_device = p.on_device;
done:
    passes_close(&p);
    return st;
}
