/* Streams as threads. */
#include "tests/kernels/stream_backend.h"

#include "base/clock.h"
#include "base/rng.h"
#include "kernels/host.h"
#include "kernels/ref/ref.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct queue_device {
    struct device base;
    struct device *ref;
    pthread_mutex_t lock;
    enum status failed; /* of the first command that failed */
    char message[512];
    struct stream_counts counts;
};

enum command_kind { EXECUTE, UPLOAD, DOWNLOAD, COPY, ZERO, RECORD, WAIT, LAUNCH };

struct command {
    struct command *next;
    enum command_kind kind;
    struct op_plan *plan;
    void *arg[ROLE_COUNT];
    void *dst;
    const void *src;
    size_t bytes;
    struct mark *mark;
    uint64_t number; /* of the mark's records */
    struct graph_exec *graph;
};

struct list {
    struct command *first, *last;
};

struct graph_exec {
    struct queue_device *dev;
    struct list list;
};

struct queue_stream {
    struct stream base;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    struct list list;
    bool busy, closing;
    struct graph_exec *recording; /* NULL: commands are carried out */
    struct rng delays;            /* the thread's */
};

/* What an event is, reached through a pointer so that those who wait can lock it. */
struct mark {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded; /* by the host */
    uint64_t passed;   /* the last of these that a stream came to */
    uint64_t ns;       /* when */
};

struct event {
    struct queue_device *dev;
    struct mark *mark;
};

static struct queue_device *device_of(struct device *dev)
{
    return (struct queue_device *)dev;
}

static struct queue_stream *stream_of(struct stream *s)
{
    return (struct queue_stream *)s;
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

static enum status failure(struct queue_device *d)
{
    pthread_mutex_lock(&d->lock);
    enum status st = d->failed;
    if (st != STATUS_OK)
        st = status_fail(st, "%s", d->message);
    pthread_mutex_unlock(&d->lock);
    return st;
}

/* --- the thread --- */

static void await(struct mark *m, uint64_t number)
{
    pthread_mutex_lock(&m->lock);
    while (m->passed < number)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void pass(struct mark *m, uint64_t number)
{
    pthread_mutex_lock(&m->lock);
    if (number > m->passed) {
        m->passed = number;
        m->ns = clock_ns();
    }
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

/* One command in sixteen takes up to 0.2 ms longer, and copies from and to the host all do. */
static void take_time(struct queue_stream *s, const struct command *c)
{
    if (c->kind != UPLOAD && c->kind != DOWNLOAD && rng_double(&s->delays) > 0.0625)
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
    case UPLOAD:
    case DOWNLOAD:
    case COPY:
        memcpy(c->dst, c->src, c->bytes);
        return STATUS_OK;
    case ZERO:
        memset(c->dst, 0, c->bytes);
        return STATUS_OK;
    case RECORD:
        pass(c->mark, c->number);
        return STATUS_OK;
    case WAIT:
        await(c->mark, c->number);
        return STATUS_OK;
    case LAUNCH:
        for (const struct command *k = c->graph->list.first; k; k = k->next)
            TRY(carry_out(s, k));
        return STATUS_OK;
    }
    return STATUS_OK;
}

static struct command *take(struct queue_stream *s)
{
    struct command *c = s->list.first;
    s->list.first = c->next;
    if (!c->next)
        s->list.last = NULL;
    return c;
}

/* Marks are passed even after a failure, lest those who wait for them wait for ever. */
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
        struct command *c = take(s);
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
    if (l->last)
        l->last->next = c;
    else
        l->first = c;
    l->last = c;
}

static enum status put(struct stream *stream, const struct command *what)
{
    struct queue_stream *s = stream_of(stream);
    struct command *c = malloc(sizeof *c);
    if (!c)
        return status_fail(STATUS_OOM, "no memory for a command");
    *c = *what;
    c->next = NULL;
    if (s->recording) {
        append(&s->recording->list, c);
        return STATUS_OK;
    }
    pthread_mutex_lock(&s->lock);
    append(&s->list, c);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return STATUS_OK;
}

static enum status stream_open(struct device *dev, struct stream **out)
{
    struct queue_stream *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return status_fail(STATUS_OOM, "no memory for a stream");
    s->base.device = dev;
    s->delays = rng_at(1, RNG_TEST, 0, 0);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->idle, NULL);
    if (pthread_create(&s->thread, NULL, serve, s) != 0) {
        free(s);
        return status_fail(STATUS_IO, "cannot start a thread for a stream");
    }
    *out = &s->base;
    return STATUS_OK;
}

static void stream_close(struct stream *stream)
{
    struct queue_stream *s = stream_of(stream);
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

static enum status stream_sync(struct stream *stream)
{
    struct queue_stream *s = stream_of(stream);
    pthread_mutex_lock(&s->lock);
    while (s->list.first || s->busy)
        pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return failure(device_of(stream->device));
}

static enum status upload(struct stream *s, void *dst, const void *src, size_t bytes)
{
    return put(s, &(struct command){.kind = UPLOAD, .dst = dst, .src = src, .bytes = bytes});
}

static enum status copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    return put(s, &(struct command){.kind = COPY, .dst = dst, .src = src, .bytes = bytes});
}

static enum status download(struct stream *s, void *dst, const void *src, size_t bytes)
{
    return put(s, &(struct command){.kind = DOWNLOAD, .dst = dst, .src = src, .bytes = bytes});
}

static enum status zero(struct stream *s, void *dst, size_t bytes)
{
    return put(s, &(struct command){.kind = ZERO, .dst = dst, .bytes = bytes});
}

/* --- events --- */

static enum status event_open(struct device *dev, struct event **out)
{
    struct event *e = malloc(sizeof *e);
    struct mark *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!e || !m) {
        free(e);
        free(m);
        return status_fail(STATUS_OOM, "no memory for an event");
    }
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    *e = (struct event){device_of(dev), m};
    *out = e;
    return STATUS_OK;
}

static void event_close(struct event *e)
{
    pthread_mutex_destroy(&e->mark->lock);
    pthread_cond_destroy(&e->mark->changed);
    free(e->mark);
    free(e);
}

static uint64_t last_record(struct mark *m, bool another)
{
    pthread_mutex_lock(&m->lock);
    uint64_t number = m->recorded += another;
    pthread_mutex_unlock(&m->lock);
    return number;
}

static enum status not_recordable(const struct stream *s, const char *what)
{
    const struct queue_stream *q = (const struct queue_stream *)s;
    return q->recording ? status_fail(STATUS_INVALID, "%s in a stream that is being recorded", what)
                        : STATUS_OK;
}

static enum status event_record(struct event *e, struct stream *s)
{
    TRY(not_recordable(s, "an event"));
    return put(s, &(struct command){
                      .kind = RECORD, .mark = e->mark, .number = last_record(e->mark, true)});
}

static enum status stream_wait(struct stream *s, const struct event *e)
{
    TRY(not_recordable(s, "an event"));
    return put(
        s, &(struct command){.kind = WAIT, .mark = e->mark, .number = last_record(e->mark, false)});
}

static enum status event_wait(const struct event *e)
{
    await(e->mark, last_record(e->mark, false));
    return failure(e->dev);
}

static uint64_t passed_at(struct mark *m)
{
    pthread_mutex_lock(&m->lock);
    uint64_t ns = m->ns;
    pthread_mutex_unlock(&m->lock);
    return ns;
}

static double event_seconds(const struct event *from, const struct event *to)
{
    return ((double)passed_at(to->mark) - (double)passed_at(from->mark)) * 1e-9;
}

/* --- graphs --- */

static enum status capture_begin(struct stream *stream)
{
    struct queue_stream *s = stream_of(stream);
    struct graph_exec *g = calloc(1, sizeof *g);
    if (!g)
        return status_fail(STATUS_OOM, "no memory for a graph");
    g->dev = device_of(stream->device);
    s->recording = g;
    return STATUS_OK;
}

static enum status capture_end(struct stream *stream, struct graph_exec **g)
{
    struct queue_stream *s = stream_of(stream);
    *g = s->recording;
    s->recording = NULL;
    (*g)->dev->counts.recorded++;
    return STATUS_OK;
}

static enum status capture_launch(struct graph_exec *g, struct stream *s)
{
    g->dev->counts.launched++;
    return put(s, &(struct command){.kind = LAUNCH, .graph = g});
}

static void capture_free(struct graph_exec *g)
{
    for (struct command *c = g->list.first; c;) {
        struct command *next = c->next;
        free(c);
        c = next;
    }
    free(g);
}

/* --- plans --- */

struct queue_plan {
    struct op_plan base;
    struct op_plan *ref;
};

static bool calls_the_host(const struct op_desc *d)
{
    return (d->kind == OP_BN_FWD_TRAIN || d->kind == OP_BN_BWD) && d->attr.bn.sync;
}

/* Sums over ranks are called from the thread that executes the plan (struct bn_sync). */
static enum status execute(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    if (calls_the_host(&plan->desc)) {
        TRY(not_recordable(s, "a sum over ranks"));
        TRY(stream_sync(s));
        return op_execute(((struct queue_plan *)plan)->ref, arg, NULL);
    }
    struct command c = {.kind = EXECUTE, .plan = ((struct queue_plan *)plan)->ref};
    memcpy(c.arg, arg, sizeof c.arg);
    return put(s, &c);
}

static void plan_free(struct op_plan *plan)
{
    op_plan_free(((struct queue_plan *)plan)->ref);
    free(plan);
}

static enum status plan_any(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_plan *ref;
    TRY(op_plan(device_of(dev)->ref, desc, &ref));
    struct queue_plan *p = malloc(sizeof *p);
    if (!p) {
        op_plan_free(ref);
        return status_fail(STATUS_OOM, "no memory for a plan");
    }
    *p = (struct queue_plan){.base = *ref, .ref = ref};
    p->base.device = dev;
    p->base.execute = execute;
    p->base.free = plan_free;
    *plan = &p->base;
    return STATUS_OK;
}

/* --- the device --- */

static enum status open_device(const struct backend *b, int index, int threads, struct device **out)
{
    struct queue_device *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return status_fail(STATUS_OOM, "no memory for a device");
    enum status st = backend_ref.open(&backend_ref, index, threads, &d->ref);
    if (st != STATUS_OK) {
        free(d);
        return st;
    }
    d->base = (struct device){.backend = b, .index = index, .threads = threads};
    pthread_mutex_init(&d->lock, NULL);
    *out = &d->base;
    return STATUS_OK;
}

static void close_device(struct device *dev)
{
    struct queue_device *d = device_of(dev);
    device_close(d->ref);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static void describe(struct device *dev, char *out, size_t size)
{
    (void)dev;
    snprintf(out, size, "streams of the reference");
}

static bool native(struct device *dev, enum dtype type)
{
    return device_native(device_of(dev)->ref, type);
}

struct stream_counts stream_backend_counts(struct device *dev)
{
    return device_of(dev)->counts;
}

void stream_backend_make(struct stream_backend *b)
{
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        b->record[kind] = (struct op_record){(enum op_kind)kind, ~0u, ~0u, plan_any};
    b->base = (struct backend){.name = "stream",
                               .n_records = OP_KIND_COUNT,
                               .record = b->record,
                               .open = open_device,
                               .close = close_device,
                               .describe = describe,
                               .native = native,
                               HOST_BACKEND_MEMBERS};
    b->base.asynchronous = true;
    b->base.upload = upload;
    b->base.download = download;
    b->base.copy = copy;
    b->base.zero = zero;
    b->base.stream_open = stream_open;
    b->base.stream_close = stream_close;
    b->base.stream_sync = stream_sync;
    b->base.event_open = event_open;
    b->base.event_close = event_close;
    b->base.event_record = event_record;
    b->base.event_seconds = event_seconds;
    b->base.stream_wait = stream_wait;
    b->base.event_wait = event_wait;
    b->base.capture_begin = capture_begin;
    b->base.capture_end = capture_end;
    b->base.capture_launch = capture_launch;
    b->base.capture_free = capture_free;
}
