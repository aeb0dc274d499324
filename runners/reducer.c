/* Gradient buckets. */
#include "runners/reducer.h"

#include "base/half_array.h"
#include "model/exchange.h"
#include "runners/flat_sum.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
    int64_t begin, end;        /* elements of the flat buffer */
    struct rounding *rounding; /* NULL: nothing to round */
    struct flat_sum add;       /* to the earlier micro-batches, where there are any */
    uint16_t *narrow;          /* (end - begin) what is sent when compressed */
    struct comm_op op;
};

struct reducer {
    struct reducer_config config;
    struct device *dev;
    struct stream *stream;
    float *gradients;   /* the network's */
    float *accumulated; /* of earlier micro-batches; NULL without them */
    bool first, last;   /* micro-batch of its step */
    bool poison;
    int n, next; /* buckets; the one to be completed next */
    struct bucket *bucket;
};

static bool shared(const struct reducer *r)
{
    return r->config.comm && comm_size(r->config.comm) > 1;
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
    if (!compressed(r))
        return STATUS_OK;
    b->narrow = malloc((size_t)count * sizeof *b->narrow);
    if (!b->narrow)
        return status_fail(STATUS_OOM, "no memory for compressed gradients");
    b->op.type = r->config.compress;
    b->op.send = b->op.recv = b->narrow;
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
    CHECK(cut(r, network_program(config->net, 0), (int64_t)(bytes / sizeof(float))));
    for (int i = 0; i < r->n; i++)
        CHECK(open_bucket(r, &r->bucket[i]));
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
        flat_sum_close(&r->bucket[i].add);
        free(r->bucket[i].narrow);
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

/* What is sent: shares of the mean, which cannot overflow where the gradients themselves do not. */
static void narrow(const struct reducer *r, struct bucket *b)
{
    const float share = 1 / (float)comm_size(r->config.comm);
    const float *from = r->gradients + b->begin;
    if (r->config.compress == DTYPE_F16)
        f16_from_floats(from, share, b->narrow, b->end - b->begin);
    else
        bf16_from_floats(from, share, b->narrow, b->end - b->begin);
}

static void widen(const struct reducer *r, struct bucket *b)
{
    float *to = r->gradients + b->begin;
    if (r->config.compress == DTYPE_F16)
        f16_to_floats(b->narrow, to, b->end - b->begin);
    else
        bf16_to_floats(b->narrow, to, b->end - b->begin);
}

static enum status complete_bucket(struct reducer *r, struct bucket *b)
{
    if (b->rounding)
        TRY(rounding_execute(b->rounding));
    if (r->poison && b->begin == 0)
        TRY(program_poison(network_program(r->config.net, 0)));
    if (r->config.accumulate)
        TRY(accumulate(r, b));
    if (!r->last || !shared(r))
        return STATUS_OK;
    if (compressed(r))
        narrow(r, b);
    return comm_start(r->config.comm, &b->op);
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
        TRY(comm_wait(r->config.comm, &b->op));
        if (compressed(r))
            widen(r, b);
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

/* Buckets begin in order, so that one pass finds the length of their union. */
double reducer_busy_after_s(const struct reducer *r, int64_t ns)
{
    int64_t busy = 0, covered = ns;
    for (int i = 0; i < r->n && shared(r); i++) {
        const struct comm_op *op = &r->bucket[i].op;
        int64_t from = op->begun_ns > covered ? op->begun_ns : covered;
        if (op->ended_ns <= from)
            continue;
        busy += op->ended_ns - from;
        covered = op->ended_ns;
    }
    return (double)busy * 1e-9;
}

double reducer_busy_s(const struct reducer *r)
{
    return reducer_busy_after_s(r, 0);
}
