/* Streams as threads. */
#include "tests/kernels/stream_queue.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *queue_new(size_t size)
{
    void *mem = calloc(1, size);
    if (!mem)
        abort();
    return mem;
}

/* --- failures --- */

static void note_failure(struct queue_device *d, enum status st)
{
    pthread_mutex_lock(&d->lock);
    if (d->failed == STATUS_OK) {
        d->failed = st;
        snprintf(d->message, sizeof d->message, "%s", status_message());
    }
    pthread_mutex_unlock(&d->lock);
}

enum status queue_failure(struct queue_device *d)
{
    pthread_mutex_lock(&d->lock);
    enum status st = d->failed;
    if (st != STATUS_OK)
        st = status_fail(st, "%s", d->message);
    pthread_mutex_unlock(&d->lock);
    return st;
}

enum status queue_call(const struct device *dev, enum stream_call call)
{
    struct stream_backend *b = (struct stream_backend *)dev->backend;
    const struct stream_fault *f = &b->fault;
    bool lost = __atomic_load_n(&b->lost, __ATOMIC_SEQ_CST);
    if (!lost && (call == STREAM_CALL_NONE || call != f->call ||
                  __atomic_add_fetch(&b->calls, 1, __ATOMIC_SEQ_CST) != f->number))
        return STATUS_OK;
    if (f->sticky)
        __atomic_store_n(&b->lost, true, __ATOMIC_SEQ_CST);
    return status_fail(f->status ? f->status : STATUS_LIBRARY,
                       lost ? "the device is lost" : "the device fails as configured");
}

/* --- the thread --- */

void event_await(struct event *e, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    while (e->passed < number)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

static void pass(struct event *e, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    if (number > e->passed) {
        e->passed = number;
        e->ns = clock_ns();
    }
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* Delays each copy from or to the host, and one in sixteen of the other commands, by up to 0.2 ms.
 */
static void take_time(struct queue_stream *s, const struct command *c)
{
    if (c->kind != MOVE && rng_double(&s->delays) > 0.0625)
        return;
    struct timespec t = {.tv_nsec = (long)(rng_double(&s->delays) * 2e5)};
    nanosleep(&t, NULL);
}

static enum status carry_out(struct queue_stream *s, const struct command *c)
{
    take_time(s, c);
    switch (c->kind) {
    case EXECUTE:
        return op_execute(c->plan, c->arg, NULL);
    case MOVE:
    case COPY:
        memcpy(c->dst, c->src, c->bytes);
        return STATUS_OK;
    case ZERO:
        memset(c->dst, 0, c->bytes);
        return STATUS_OK;
    case RECORD:
        pass(c->event, c->number);
        return STATUS_OK;
    case WAIT:
        event_await(c->event, c->number);
        return STATUS_OK;
    case CALL:
        c->call(c->context);
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* A stream passes events even after a failure, so that no thread waits for them
 * indefinitely. */
static void *serve(void *context)
{
    struct queue_stream *s = context;
    struct queue_device *d = device_of(s->base.device);
    bool failed = false;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->list.first && !s->closing)
            pthread_cond_wait(&s->more, &s->lock);
        if (!s->list.first)
            break;
        struct command *c = s->list.first;
        s->list.first = c->next;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        if (!failed || c->kind == RECORD) {
            enum status st = carry_out(s, c);
            if (st != STATUS_OK)
                note_failure(d, st);
            failed = failed || st != STATUS_OK;
        }
        free(c);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        if (!s->list.first)
            pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- streams --- */

static void append(struct list *l, struct command *c)
{
    if (l->first)
        l->last->next = c;
    else
        l->first = c;
    l->last = c;
}

enum status queue_put(struct stream *stream, const struct command *what)
{
    struct queue_stream *s = stream_of(stream);
    TRY(queue_call(stream->device, STREAM_CALL_NONE));
    struct command *c = queue_new(sizeof *c);
    *c = *what;
    c->next = NULL;
    c->dst = stream_device_inside(stream->device, c->dst);
    c->src = stream_device_inside(stream->device, c->src);
    if (s->recording) {
        c->stream = s;
        append(&s->recording->list, c);
        if (s == s->recording->branch)
            s->recording->open = true;
        return STATUS_OK;
    }
    pthread_mutex_lock(&s->lock);
    append(&s->list, c);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return STATUS_OK;
}

enum status queue_open(struct device *dev, struct stream **out)
{
    *out = NULL;
    TRY(queue_call(dev, STREAM_CALL_NONE));
    struct queue_stream *s = queue_new(sizeof *s);
    s->base.device = dev;
    s->delays = rng_at(1, RNG_TEST, 0, 0);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->idle, NULL);
    if (pthread_create(&s->thread, NULL, serve, s) != 0)
        abort();
    *out = &s->base;
    return STATUS_OK;
}

void queue_close(struct stream *stream)
{
    struct queue_stream *s = stream_of(stream);
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->idle);
    free(s);
}

enum status queue_sync(struct stream *stream)
{
    struct queue_stream *s = stream_of(stream);
    pthread_mutex_lock(&s->lock);
    while (s->list.first || s->busy)
        pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
    TRY(queue_call(stream->device, STREAM_CALL_NONE));
    return queue_failure(device_of(stream->device));
}
