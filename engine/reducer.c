/* Reduces gradients in buckets. */
#include "engine/reducer.h"

#include "base/array.h"
#include "engine/flat_op.h"
#include "model/exchange.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
    int64_t begin, end;            /* elements of the flat buffer */
    struct rounding *rounding;     /* NULL: nothing to round */
    struct flat_op add;            /* adds gradients of earlier micro-batches, if any */
    struct grad_compress compress; /* all zero if gradients are not compressed */
    struct comm_op op;
    /* Events of an asynchronous device. ready: the bucket is complete. began: the bucket's
     * reduction has begun. over: the reduction has ended. `began` and `over` have an event for each
     * of the last REDUCER_STEPS steps. */
    struct event *ready, *began[REDUCER_STEPS], *over[REDUCER_STEPS];
};

struct reducer {
    struct reducer_config config;
    struct device *dev;
    struct stream *stream;
    float *gradients;   /* the network's */
    float *accumulated; /* sum over earlier micro-batches; NULL: steps have one micro-batch */
    bool first, last;   /* whether the current micro-batch is the first or the last of its step */
    int64_t step;       /* number of the current step, from 1 */
    bool blank, poison; /* as in reducer_begin */
    int n, next;        /* number of buckets; index of the next bucket to complete */
    struct bucket *bucket;
};

static bool shared(const struct reducer *r)
{
    return r->config.comm && comm_size(r->config.comm) > 1;
}

static bool is_asynchronous(const struct reducer *r)
{
    return shared(r) && r->dev->backend->asynchronous;
}

static bool compressed(const struct reducer *r)
{
    return shared(r) && r->config.compress != DTYPE_F32;
}

/* Cuts the buffer into buckets, each ending where a layer's gradients end. */
static enum status cut(struct reducer *r, struct program *p, int64_t count)
{
    size_t want = r->config.first_bytes;
    int64_t begin = 0;
    TRY(array_new(&r->bucket, program_steps(p) + 1));
    for (int i = 0; i < program_steps(p); i++) {
        int64_t end = program_step(p, i).grad_end;
        if (end <= begin || (size_t)(end - begin) * sizeof(float) < want)
            continue;
        r->bucket[r->n++] = (struct bucket){.begin = begin, .end = end};
        begin = end;
        want = r->config.bucket_bytes;
    }
    if (begin < count)
        r->bucket[r->n++] = (struct bucket){.begin = begin, .end = count};
    return STATUS_OK;
}

static enum status open_events(struct reducer *r, struct bucket *b)
{
    enum status (*open)(struct device *, struct event **) = r->dev->backend->event_open;
    TRY(open(r->dev, &b->ready));
    for (int i = 0; i < REDUCER_STEPS; i++) {
        TRY(open(r->dev, &b->began[i]));
        TRY(open(r->dev, &b->over[i]));
    }
    b->op.after = b->ready;
    return STATUS_OK;
}

static void close_events(struct reducer *r, struct bucket *b)
{
    struct event *event[1 + 2 * REDUCER_STEPS] = {b->ready};
    memcpy(event + 1, b->began, sizeof b->began);
    memcpy(event + 1 + REDUCER_STEPS, b->over, sizeof b->over);
    for (size_t i = 0; i < sizeof event / sizeof *event; i++)
        r->dev->backend->event_close(event[i]);
}

static enum status open_bucket(struct reducer *r, struct bucket *b)
{
    int64_t count = b->end - b->begin;
    if (!r->config.rounded)
        TRY(network_plan_rounding(r->config.net, b->begin, b->end, &b->rounding));
    if (r->config.accumulate)
        TRY(flat_sum_open(r->dev, count, &b->add));
    b->op = (struct comm_op){.kind = COMM_ALLREDUCE,
                             .reduction = COMM_SUM,
                             .type = DTYPE_F32,
                             .send = r->gradients + b->begin,
                             .recv = r->gradients + b->begin,
                             .count = count};
    if (is_asynchronous(r))
        TRY(open_events(r, b));
    if (!compressed(r))
        return STATUS_OK;
    TRY(grad_compress_open(r->dev, r->config.compress, count, comm_size(r->config.comm),
                           &b->compress));
    grad_compress_describe(&b->compress, &b->op);
    return STATUS_OK;
}

static enum status check_comm(const struct reducer *r)
{
    if (is_asynchronous(r) && comm_device(r->config.comm) != r->dev)
        return status_fail(
            STATUS_INVALID,
            "gradients are on a device, but the communicator '%s' cannot read device memory",
            comm_name(r->config.comm));
    return STATUS_OK;
}

enum status reducer_open(const struct reducer_config *config, struct reducer **out)
{
    enum status st;
    size_t bytes;
    void *mem;
    struct reducer *r;
    *out = NULL;
    TRY(array_new(&r, 1));
    r->config = *config;
    r->stream = network_stream(config->net);
    r->dev = r->stream->device;
    r->gradients = network_flat(config->net, VALUE_GRADIENT, &bytes);
    CHECK(check_comm(r));
    CHECK(cut(r, network_program(config->net, 0), (int64_t)(bytes / sizeof(float))));
    for (int i = 0; i < r->n; i++)
        CHECK(open_bucket(r, &r->bucket[i]));
    if (is_asynchronous(r) && !compressed(r))
        CHECK(comm_reuse(config->comm, r->gradients, bytes));
    if (config->accumulate) {
        CHECK(r->dev->backend->alloc(r->dev, bytes, &mem));
        r->accumulated = mem;
    }
    *out = r;
    r = NULL;
done:
    reducer_close(r);
    return st;
}

void reducer_close(struct reducer *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++) {
        rounding_free(r->bucket[i].rounding);
        flat_op_close(&r->bucket[i].add);
        grad_compress_close(&r->bucket[i].compress);
        close_events(r, &r->bucket[i]);
    }
    r->dev->backend->free(r->dev, r->accumulated);
    free(r->bucket);
    free(r);
}

void reducer_begin(struct reducer *r, bool first, bool last, bool blank, bool poison)
{
    r->blank = blank;
    r->poison = poison;
    r->first = first;
    r->last = last;
    r->step += first;
    r->next = 0;
}

/* Adds the bucket's gradients to those of the step's earlier micro-batches. The sum is stored in
 * the gradient buffer if the micro-batch is the step's last, otherwise in `accumulated`. */
static enum status accumulate(struct reducer *r, struct bucket *b)
{
    float *gradients = r->gradients + b->begin;
    float *earlier = r->accumulated + b->begin;
    if (r->first && r->last)
        return STATUS_OK;
    if (r->first)
        return r->dev->backend->copy(r->stream, earlier, gradients,
                                     (size_t)(b->end - b->begin) * sizeof(float));
    return flat_sum_run(&b->add, r->stream, gradients, earlier, r->last ? gradients : earlier);
}

/* Passes the bucket to the communicator, which begins to reduce it when the network's stream has
 * done all work put on it so far. */
static enum status start_bucket(struct reducer *r, struct bucket *b)
{
    if (compressed(r))
        TRY(grad_compress_encode(&b->compress, r->stream, r->gradients + b->begin));
    if (is_asynchronous(r)) {
        TRY(r->dev->backend->event_record(b->ready, r->stream));
        b->op.began = b->began[r->step % REDUCER_STEPS];
        b->op.over = b->over[r->step % REDUCER_STEPS];
    }
    return comm_start(r->config.comm, &b->op);
}

static enum status complete_bucket(struct reducer *r, struct bucket *b)
{
    if (r->blank)
        TRY(r->dev->backend->zero(r->stream, r->gradients + b->begin,
                                  (size_t)(b->end - b->begin) * sizeof(float)));
    if (b->rounding)
        TRY(rounding_execute(b->rounding));
    if (r->poison && b->begin == 0)
        TRY(program_poison(network_program(r->config.net, 0)));
    if (r->config.accumulate)
        TRY(accumulate(r, b));
    return r->last && shared(r) ? start_bucket(r, b) : STATUS_OK;
}

enum status reducer_complete(void *context, int64_t begin, int64_t end)
{
    struct reducer *r = context;
    (void)begin;
    while (r->next < r->n && r->bucket[r->next].end <= end)
        TRY(complete_bucket(r, &r->bucket[r->next++]));
    return STATUS_OK;
}

enum status reducer_finish(struct reducer *r)
{
    if (!shared(r))
        return STATUS_OK;
    for (int i = 0; i < r->n; i++) {
        struct bucket *b = &r->bucket[i];
        TRY(comm_wait_on(r->config.comm, &b->op, r->stream));
        if (compressed(r))
            TRY(grad_compress_decode(&b->compress, r->stream, r->gradients + b->begin));
    }
    return STATUS_OK;
}

double reducer_divisor(const struct reducer *r)
{
    return shared(r) && !compressed(r) ? comm_size(r->config.comm) : 1;
}

int reducer_buckets(const struct reducer *r)
{
    return r->n;
}

int64_t reducer_bucket_end(const struct reducer *r, int i)
{
    return r->bucket[i].end;
}

struct span {
    int64_t from, to; /* ns */
};

/* Returns the times at which the reduction of bucket `i` began and ended in the step that is `ago`
 * steps before the last one. */
static struct span span_of(const struct reducer *r, int i, int ago)
{
    const struct bucket *b = &r->bucket[i];
    if (!is_asynchronous(r))
        return (struct span){b->op.begun_ns, b->op.ended_ns};
    double (*seconds)(const struct event *, const struct event *) = r->dev->backend->event_seconds;
    int64_t k = (r->step - ago) % REDUCER_STEPS;
    const struct event *origin = r->bucket[0].began[k];
    return (struct span){(int64_t)(seconds(origin, b->began[k]) * 1e9),
                         (int64_t)(seconds(origin, b->over[k]) * 1e9)};
}

/* Returns for how many seconds after the time `covered` (ns) at least one bucket was being reduced.
 * Reductions begin in the order of the buckets. */
static double busy_after(const struct reducer *r, int ago, int64_t covered)
{
    int64_t busy = 0;
    for (int i = 0; i < r->n && shared(r); i++) {
        struct span s = span_of(r, i, ago);
        int64_t from = s.from > covered ? s.from : covered;
        if (s.to <= from)
            continue;
        busy += s.to - from;
        covered = s.to;
    }
    return (double)busy * 1e-9;
}

double reducer_busy_s(const struct reducer *r, int ago)
{
    if (is_asynchronous(r) && (ago >= REDUCER_STEPS || r->step <= ago))
        return 0;
    return busy_after(r, ago, 0);
}

double reducer_busy_after_s(const struct reducer *r, int64_t ns)
{
    return is_asynchronous(r) ? 0 : busy_after(r, 0, ns);
}
