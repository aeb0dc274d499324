/* Gradient buckets. */
#include "runners/reducer.h"

#include "model/exchange.h"
#include "runners/flat_op.h"
#include "runners/grad_compress.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
    int64_t begin, end;            /* elements of the flat buffer */
    struct rounding *rounding;     /* NULL: nothing to round */
    struct flat_op add;            /* to the earlier micro-batches, where there are any */
    struct grad_compress compress; /* where compressed */
    struct comm_op op;
    /* On a device beside the host: when it is complete, and for the last steps when its sum began
     * and was there. */
    struct event *ready, *began[REDUCER_STEPS], *over[REDUCER_STEPS];
};

struct reducer {
    struct reducer_config config;
    struct device *dev;
    struct stream *stream;
    float *gradients;   /* the network's */
    float *accumulated; /* of earlier micro-batches; NULL without them */
    bool first, last;   /* micro-batch of its step */
    int64_t step;       /* of this reducer, from 1 */
    bool poison;
    int n, next; /* buckets; the one to be completed next */
    struct bucket *bucket;
};

static bool shared(const struct reducer *r)
{
    return r->config.comm && comm_size(r->config.comm) > 1;
}

/* Do streams go on beside the host? */
static bool beside_host(const struct reducer *r)
{
    return shared(r) && r->dev->backend->asynchronous;
}

static bool compressed(const struct reducer *r)
{
    return shared(r) && r->config.compress != DTYPE_F32;
}

/* The backward pass completes gradients layer by layer; a bucket ends where a layer does. */
static enum status cut(struct reducer *r, struct program *p, int64_t count)
{
    size_t want = r->config.first_bytes;
    int64_t begin = 0;
    r->bucket = calloc((size_t)program_steps(p) + 1, sizeof *r->bucket);
    if (!r->bucket)
        return status_fail(STATUS_OOM, "no memory for gradient buckets");
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
        if (event[i])
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
    if (beside_host(r))
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
    if (beside_host(r) && comm_device(r->config.comm) != r->dev)
        return status_fail(STATUS_INVALID, "gradients on a device, and '%s' is not for its memory",
                           comm_name(r->config.comm));
    return STATUS_OK;
}

enum status reducer_open(const struct reducer_config *config, struct reducer **out)
{
    enum status st;
    size_t bytes;
    void *mem;
    struct reducer *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return status_fail(STATUS_OOM, "no memory for gradient buckets");
    r->config = *config;
    r->stream = network_stream(config->net);
    r->dev = r->stream->device;
    r->gradients = network_flat(config->net, VALUE_GRADIENT, &bytes);
    CHECK(check_comm(r));
    CHECK(cut(r, network_program(config->net, 0), (int64_t)(bytes / sizeof(float))));
    for (int i = 0; i < r->n; i++)
        CHECK(open_bucket(r, &r->bucket[i]));
    if (beside_host(r) && !compressed(r))
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
    if (r->accumulated)
        r->dev->backend->free(r->dev, r->accumulated);
    free(r->bucket);
    free(r);
}

void reducer_begin(struct reducer *r, bool first, bool last, bool poison)
{
    r->poison = poison;
    r->first = first;
    r->last = last;
    r->step += first;
    r->next = 0;
}

/* The micro-batches so far, left where the next one finds them: in the gradients themselves after
 * the last, else in `accumulated`. */
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

/* Hands the bucket to the communicator, to be taken up when the stream has come here. */
static enum status start_bucket(struct reducer *r, struct bucket *b)
{
    if (compressed(r))
        TRY(grad_compress_encode(&b->compress, r->stream, r->gradients + b->begin));
    if (beside_host(r)) {
        TRY(r->dev->backend->event_record(b->ready, r->stream));
        b->op.began = b->began[r->step % REDUCER_STEPS];
        b->op.over = b->over[r->step % REDUCER_STEPS];
    }
    return comm_start(r->config.comm, &b->op);
}

static enum status complete_bucket(struct reducer *r, struct bucket *b)
{
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

/* When bucket `i` of the step `ago` steps before the last was under way. */
static struct span span_of(const struct reducer *r, int i, int ago)
{
    const struct bucket *b = &r->bucket[i];
    if (!beside_host(r))
        return (struct span){b->op.begun_ns, b->op.ended_ns};
    double (*seconds)(const struct event *, const struct event *) = r->dev->backend->event_seconds;
    int64_t k = (r->step - ago) % REDUCER_STEPS;
    const struct event *origin = r->bucket[0].began[k];
    return (struct span){(int64_t)(seconds(origin, b->began[k]) * 1e9),
                         (int64_t)(seconds(origin, b->over[k]) * 1e9)};
}

/* Buckets begin in order, so that one pass finds the length of their union. */
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
    if (beside_host(r) && (ago >= REDUCER_STEPS || r->step <= ago))
        return 0;
    return busy_after(r, ago, 0);
}

double reducer_busy_after_s(const struct reducer *r, int64_t ns)
{
    return beside_host(r) ? 0 : busy_after(r, 0, ns);
}
