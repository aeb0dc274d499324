/* A fake device. Its streams are threads, and the host cannot access its memory. */
#include "async_device.h"

#include "base/clock.h"
#include "base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    ALIGN = 256,
    LATE_NS = 200000, /* a stream sometimes sleeps this long before it executes work */
    LATE_ONE_IN = 64
};

/* Device memory is one reserved range of addresses with two halves. A device address is in the
 * first half, which no code can access. The data is at the same offset in the second half. */
static const size_t HALF = (size_t)1 << 30;

struct async_device {
    struct device base;
    pthread_mutex_t lock; /* guards everything that changes, also in streams and events */
    pthread_cond_t change;
    char *reserved;
    size_t used;
};

struct event {
    struct async_device *device;
    /* number of records that the host has requested, and number that the stream has executed */
    int64_t wanted, passed;
    uint64_t ns; /* time of the latest executed record */
};

/* What a stream executes: waits for record `number` of `awaits`, then copies, then calls, then
 * makes record `number` of `records`. */
struct work {
    struct work *next;
    const struct event *awaits;
    void *to;
    const void *from;
    size_t bytes;
    void (*call)(void *arg);
    void *arg;
    struct event *records;
    int64_t number;
};

struct async_stream {
    struct stream base;
    pthread_t thread;
    struct work *first, **last;
    bool busy, closing;
    uint64_t done;
};

static struct async_device *of(struct device *dev)
{
    return (struct async_device *)dev;
}

void *async_device_inside(struct device *dev, const void *mem)
{
    char *reserved = of(dev)->reserved;
    const char *at = mem;
    bool ours = at >= reserved && at < reserved + HALF;
    return (void *)(ours ? at + HALF : at);
}

static enum status no_memory(void)
{
    return status_fail(STATUS_OOM, "no memory for a test");
}

/* --- streams --- */

/* Waits for record `number`; 0: for the latest that the host has requested. */
static void await(const struct event *e, int64_t number)
{
    pthread_mutex_lock(&e->device->lock);
    if (number == 0)
        number = e->wanted;
    while (e->passed < number)
        pthread_cond_wait(&e->device->change, &e->device->lock);
    pthread_mutex_unlock(&e->device->lock);
}

static void carry_out(struct async_stream *s, const struct work *w)
{
    if (hash_splitmix64(s->done++) % LATE_ONE_IN == 0)
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    if (w->awaits && w->number > 0)
        await(w->awaits, w->number);
    if (w->bytes > 0)
        memcpy(w->to, w->from, w->bytes);
    if (w->call)
        w->call(w->arg);
}

static void *serve(void *arg)
{
    struct async_stream *s = arg;
    struct async_device *d = of(s->base.device);
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!s->first && !s->closing)
            pthread_cond_wait(&d->change, &d->lock);
        struct work *w = s->first;
        if (!w)
            break;
        s->first = w->next;
        if (!s->first)
            s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&d->lock);
        carry_out(s, w);
        pthread_mutex_lock(&d->lock);
        if (w->records) {
            w->records->passed = w->number > w->records->passed ? w->number : w->records->passed;
            w->records->ns = clock_ns();
        }
        free(w);
        s->busy = false;
        pthread_cond_broadcast(&d->change);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static enum status put(struct stream *stream, struct work what)
{
    struct async_stream *s = (struct async_stream *)stream;
    struct async_device *d = of(stream->device);
    struct work *w = malloc(sizeof *w);
    if (!w)
        return no_memory();
    pthread_mutex_lock(&d->lock);
    if (what.records)
        what.number = ++what.records->wanted;
    if (what.awaits)
        what.number = what.awaits->wanted;
    *w = what;
    *s->last = w;
    s->last = &w->next;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
    return STATUS_OK;
}

static enum status stream_open(struct device *dev, struct stream **out)
{
    struct async_stream *s = calloc(1, sizeof *s);
    if (!s)
        return no_memory();
    s->base.device = dev;
    s->last = &s->first;
    if (pthread_create(&s->thread, NULL, serve, s) != 0)
        return status_fail(STATUS_IO, "no thread for a test");
    *out = &s->base;
    return STATUS_OK;
}

static void stream_close(struct stream *stream)
{
    struct async_stream *s = (struct async_stream *)stream;
    if (!s)
        return;
    pthread_mutex_lock(&of(stream->device)->lock);
    s->closing = true;
    pthread_cond_broadcast(&of(stream->device)->change);
    pthread_mutex_unlock(&of(stream->device)->lock);
    pthread_join(s->thread, NULL);
    free(s);
}

static enum status stream_sync(struct stream *stream)
{
    struct async_stream *s = (struct async_stream *)stream;
    struct async_device *d = of(stream->device);
    pthread_mutex_lock(&d->lock);
    while (s->first || s->busy)
        pthread_cond_wait(&d->change, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return STATUS_OK;
}

static enum status copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    struct device *dev = s->device;
    return put(s, (struct work){.to = async_device_inside(dev, dst),
                                .from = async_device_inside(dev, src),
                                .bytes = bytes});
}

enum status async_device_call(struct stream *s, void (*call)(void *arg), void *arg)
{
    return put(s, (struct work){.call = call, .arg = arg});
}

static enum status stream_wait(struct stream *s, const struct event *e)
{
    return put(s, (struct work){.awaits = e});
}

/* --- events --- */

static enum status event_open(struct device *dev, struct event **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return no_memory();
    (*out)->device = of(dev);
    return STATUS_OK;
}

static void event_close(struct event *e)
{
    free(e);
}

static enum status event_record(struct event *e, struct stream *s)
{
    return put(s, (struct work){.records = e});
}

static enum status event_wait(const struct event *e)
{
    await(e, 0);
    return STATUS_OK;
}

bool async_device_passed(const struct event *e)
{
    pthread_mutex_lock(&e->device->lock);
    bool passed = e->passed >= e->wanted;
    pthread_mutex_unlock(&e->device->lock);
    return passed;
}

static double event_seconds(const struct event *from, const struct event *to)
{
    return ((double)to->ns - (double)from->ns) * 1e-9;
}

/* --- memory; a freed address is never allocated again --- */

static enum status device_alloc(struct device *dev, size_t bytes, void **mem)
{
    struct async_device *d = of(dev);
    pthread_mutex_lock(&d->lock);
    *mem = d->reserved + d->used;
    d->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    bool fits = d->used <= HALF;
    pthread_mutex_unlock(&d->lock);
    return fits ? STATUS_OK : status_fail(STATUS_OOM, "the test's device is full");
}

static void device_free(struct device *dev, void *mem)
{
    (void)dev, (void)mem;
}

static enum status host_alloc(struct device *dev, size_t bytes, void **mem)
{
    (void)dev;
    *mem = malloc(bytes);
    return *mem ? STATUS_OK : no_memory();
}

static void host_free(struct device *dev, void *mem)
{
    (void)dev;
    free(mem);
}

static void close_device(struct device *dev)
{
    struct async_device *d = of(dev);
    munmap(d->reserved, 2 * HALF);
    pthread_cond_destroy(&d->change);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static const struct backend async_backend = {.name = "async",
                                             .close = close_device,
                                             .alloc = device_alloc,
                                             .free = device_free,
                                             .alloc_host = host_alloc,
                                             .free_host = host_free,
                                             .upload = copy,
                                             .download = copy,
                                             .copy = copy,
                                             .stream_open = stream_open,
                                             .stream_close = stream_close,
                                             .stream_sync = stream_sync,
                                             .event_open = event_open,
                                             .event_close = event_close,
                                             .event_record = event_record,
                                             .event_seconds = event_seconds,
                                             .asynchronous = true,
                                             .stream_wait = stream_wait,
                                             .event_wait = event_wait};

enum status async_device_open(struct device **dev)
{
    struct async_device *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory();
    d->base.backend = &async_backend;
    d->base.threads = 1;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->change, NULL);
    d->reserved =
        mmap(NULL, 2 * HALF, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (d->reserved == MAP_FAILED ||
        mprotect(d->reserved + HALF, HALF, PROT_READ | PROT_WRITE) != 0) {
        free(d);
        return status_fail(STATUS_OOM, "no address space for a test");
    }
    *dev = &d->base;
    return STATUS_OK;
}
