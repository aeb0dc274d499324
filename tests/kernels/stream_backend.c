/* Events, graphs and plans of an asynchronous device. Its streams are threads. */
#include "tests/kernels/stream_queue.h"

#include "kernels/device_list.h"
#include "kernels/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- commands --- */

static enum status move(struct stream *s, void *dst, const void *src, size_t bytes)
{
    return queue_put(s, &(struct command){.kind = MOVE, .dst = dst, .src = src, .bytes = bytes});
}

static enum status copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    return queue_put(s, &(struct command){.kind = COPY, .dst = dst, .src = src, .bytes = bytes});
}

enum status stream_device_call(struct stream *s, void (*call)(void *context), void *context)
{
    return queue_put(s, &(struct command){.kind = CALL, .call = call, .context = context});
}

static enum status zero(struct stream *s, void *dst, size_t bytes)
{
    return queue_put(s, &(struct command){.kind = ZERO, .dst = dst, .bytes = bytes});
}

/* --- events --- */

static enum status event_open(struct device *dev, struct event **out)
{
    struct event *e = queue_new(sizeof *e);
    e->dev = device_of(dev);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    *out = e;
    return STATUS_OK;
}

static void event_close(struct event *e)
{
    if (!e)
        return;
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    free(e);
}

static uint64_t last_record(struct event *e, bool another)
{
    pthread_mutex_lock(&e->lock);
    uint64_t number = e->recorded += another;
    pthread_mutex_unlock(&e->lock);
    return number;
}

static enum status event_record(struct event *e, struct stream *s)
{
    e->captured = stream_of(s)->recording;
    e->by = stream_of(s);
    return queue_put(s,
                     &(struct command){.kind = RECORD, .event = e, .number = last_record(e, true)});
}

/* As in CUDA, a stream that waits for an event of a capture joins the capture. A captured stream
 * cannot wait for other events. */
static enum status stream_wait(struct stream *stream, const struct event *event)
{
    struct event *e = (struct event *)event;
    struct queue_stream *s = stream_of(stream);
    struct graph_exec *g = s->recording;
    if (e->captured && !g) {
        s->recording = g = e->by->recording;
        if (!g || g->branch)
            return status_fail(STATUS_INVALID, "an event of another capture");
        g->branch = s;
    }
    if (g && e->captured != g)
        return status_fail(STATUS_INVALID, "a capture cannot wait for an event outside of it");
    if (g && e->by == g->branch && s == g->origin)
        g->open = false;
    return queue_put(stream,
                     &(struct command){.kind = WAIT, .event = e, .number = last_record(e, false)});
}

static enum status event_wait(const struct event *event)
{
    struct event *e = (struct event *)event;
    TRY(queue_call(&e->dev->base, STREAM_CALL_NONE)); /* the record may have failed */
    event_await(e, last_record(e, false));
    return queue_failure(e->dev);
}

bool stream_event_passed(const struct event *event)
{
    struct event *e = (struct event *)event;
    pthread_mutex_lock(&e->lock);
    bool passed = e->passed >= e->recorded;
    pthread_mutex_unlock(&e->lock);
    return passed;
}

static uint64_t passed_at(const struct event *event)
{
    struct event *e = (struct event *)event;
    pthread_mutex_lock(&e->lock);
    uint64_t ns = e->ns;
    pthread_mutex_unlock(&e->lock);
    return ns;
}

static double event_seconds(const struct event *from, const struct event *to)
{
    return ((double)passed_at(to) - (double)passed_at(from)) * 1e-9;
}

/* --- graphs --- */

static enum status capture_begin(struct stream *stream)
{
    struct queue_stream *s = stream_of(stream);
    TRY(queue_call(stream->device, STREAM_CALL_CAPTURE_BEGIN));
    struct graph_exec *g = queue_new(sizeof *g);
    g->dev = device_of(stream->device);
    g->origin = s;
    s->recording = g;
    return STATUS_OK;
}

/* Launches a graph: puts each command on the stream that recorded it. Commands that g->origin
 * recorded are put on `s` instead. */
static enum status capture_launch(struct graph_exec *g, struct stream *s)
{
    TRY(queue_call(s->device, STREAM_CALL_LAUNCH));
    g->dev->counts.launched++;
    for (struct command c, *k = g->list.first; k; k = k->next) {
        c = *k;
        if (c.kind == RECORD || c.kind == WAIT)
            c.number = last_record(c.event, c.kind == RECORD);
        TRY(queue_put(c.stream == g->origin ? s : &c.stream->base, &c));
    }
    return STATUS_OK;
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

static enum status capture_end(struct stream *stream, struct graph_exec **out)
{
    struct queue_stream *s = stream_of(stream);
    struct graph_exec *g = s->recording;
    *out = NULL;
    s->recording = NULL;
    enum status st = queue_call(stream->device, STREAM_CALL_CAPTURE_END);
    if (g->branch)
        g->branch->recording = NULL;
    if (st == STATUS_OK && g->open)
        st = status_fail(STATUS_LIBRARY, "a stream of the capture was not joined");
    if (st != STATUS_OK) {
        capture_free(g);
        return st;
    }
    g->dev->counts.recorded++;
    *out = g;
    return STATUS_OK;
}

/* --- plans --- */

struct queue_plan {
    struct op_plan base;
    struct op_plan *ref;
};

/* An operation with sums over ranks is executed by the calling thread, which must request the sums
 * (struct bn_sync). */
static enum status execute(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct op_desc *d = &plan->desc;
    if ((d->kind == OP_BN_FWD_TRAIN || d->kind == OP_BN_BWD) && d->attr.bn.sync) {
        if (stream_of(s)->recording)
            return status_fail(STATUS_INVALID, "a sum over ranks in a stream that is recorded");
        TRY(queue_sync(s));
        return op_execute(((struct queue_plan *)plan)->ref, arg, NULL);
    }
    TRY(queue_call(plan->device, STREAM_CALL_EXECUTE));
    struct command c = {.kind = EXECUTE, .plan = ((struct queue_plan *)plan)->ref};
    memcpy(c.arg, arg, sizeof c.arg);
    return queue_put(s, &c);
}

static void plan_free(struct op_plan *plan)
{
    op_plan_free(((struct queue_plan *)plan)->ref);
    free(plan);
}

static bool is_fused(enum op_kind kind)
{
    return kind == OP_CONV_STATS_FWD || kind == OP_CONV_APPLY_BWD_WEIGHTS ||
           kind == OP_CONV_BWD_DATA_BN;
}

/* Reports a shorter time for a fused operation than for any plain operation that the fused one
 * replaces. */
static enum status seconds(struct op_plan *plan, double *seconds)
{
    enum op_kind kind = plan->desc.kind;
    bool part = kind == OP_BN_FINALIZE || kind == OP_BN_APPLY || kind == OP_BN_BWD_APPLY;
    *seconds = part || is_fused(kind) ? 1e-6 : 1e-3;
    return STATUS_OK;
}

static enum status plan_any(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_plan *ref;
    TRY(queue_call(dev, is_fused(desc->kind) ? STREAM_CALL_PLAN_FUSED : STREAM_CALL_NONE));
    TRY(op_plan(device_of(dev)->ref, desc, &ref));
    struct queue_plan *p = queue_new(sizeof *p);
    *p = (struct queue_plan){.base = *ref, .ref = ref};
    p->base.device = dev;
    p->base.seconds = ((const struct stream_backend *)dev->backend)->fusion_pays ? seconds : NULL;
    p->base.execute = execute;
    p->base.free = plan_free;
    *plan = &p->base;
    return STATUS_OK;
}

/* --- the device --- */

static enum status open_device(const struct backend *b, int index, int threads, struct device **out)
{
    struct device *ref;
    *out = NULL;
    TRY(backend_ref.open(&backend_ref, index, threads, &ref));
    struct queue_device *d = queue_new(sizeof *d);
    d->ref = ref;
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

static bool pdl(struct device *dev)
{
    (void)dev;
    return true;
}

struct stream_counts stream_backend_counts(struct device *dev)
{
    return device_of(dev)->counts;
}

void stream_backend_fail(struct stream_backend *b, const struct stream_fault *fault)
{
    b->fault = *fault;
    b->calls = 0;
    b->lost = false;
}

void stream_backend_make(struct stream_backend *b)
{
    b->fusion_pays = false;
    stream_backend_fail(b, &(struct stream_fault){STREAM_CALL_NONE});
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        b->record[kind] = (struct op_record){UINT64_C(1) << kind, ~0u, ~0u, plan_any};
    b->base = (struct backend){.name = "stream",
                               .n_records = OP_KIND_COUNT,
                               .record = b->record,
                               .open = open_device,
                               .close = close_device,
                               .describe = describe,
                               .native = native,
                               .pdl = pdl,
                               HOST_BACKEND_MEMBERS};
    b->base.asynchronous = true;
    b->base.upload = move;
    b->base.download = move;
    b->base.copy = copy;
    b->base.zero = zero;
    b->base.stream_open = queue_open;
    b->base.stream_close = queue_close;
    b->base.stream_sync = queue_sync;
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
