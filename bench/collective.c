/* Times and checks collectives of one size on a communicator. */
#include "bench/collective.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct collective_config collective_config_default(void)
{
    return (struct collective_config){
        .kind = COMM_ALLREDUCE,
        .reduction = COMM_SUM,
        .type = DTYPE_F32,
        .first = 1 << 10,
        .last = 64 << 20,
        .factor = 2,
        .checks = 1,
        .options = {.timing = {.warmup = 5, .most = 20, .within = 0.02, .seconds = 2},
                    .out = stdout},
    };
}

bool collective_reduces(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE || kind == COMM_REDUCE_SCATTER;
}

/* Whether each rank sends or receives its own part of the data. */
static bool has_parts(enum comm_kind kind)
{
    return kind == COMM_ALLGATHER || kind == COMM_REDUCE_SCATTER;
}

int64_t collective_count(enum comm_kind kind, enum dtype type, int64_t bytes, int ranks)
{
    int64_t element = (int64_t)dtype_size(type), count = bytes / element;
    if (!has_parts(kind))
        return count;
    int64_t line = 16 / element;
    return count / ranks / line * line;
}

void collective_bandwidth(enum comm_kind kind, int ranks, int64_t bytes, struct collective_time *t)
{
    double others = (double)(ranks - 1) / ranks;
    double factor = kind == COMM_ALLREDUCE ? 2 * others : has_parts(kind) ? others : 1;
    t->algbw = t->time.median > 0 ? (double)bytes * 1e-9 / t->time.median : 0;
    t->busbw = factor * t->algbw;
}

static enum status open_on_host(struct collective_buffers *b)
{
    enum { ALIGNMENT = 4096 };
    b->bytes = (b->bytes / ALIGNMENT + 1) * ALIGNMENT;
    b->send = aligned_alloc(ALIGNMENT, b->bytes);
    b->recv = aligned_alloc(ALIGNMENT, b->bytes);
    if (!b->send || !b->recv)
        return status_fail(STATUS_OOM, "no memory for two buffers of %zu bytes; give a smaller -e",
                           b->bytes);
    memset(b->send, 0, b->bytes);
    memset(b->recv, 0, b->bytes);
    return STATUS_OK;
}

static enum status open_on_device(struct collective_buffers *b)
{
    const struct backend *be = b->device->backend;
    struct event **const events[] = {&b->from, &b->ready, &b->over, &b->to};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        TRY(be->event_open(b->device, events[i]));
    TRY(be->stream_open(b->device, &b->stream));
    TRY(be->alloc_host(b->device, b->bytes, &b->host));
    TRY(be->alloc(b->device, b->bytes, &b->send));
    return be->alloc(b->device, b->bytes, &b->recv);
}

enum status collective_buffers_open(struct comm *comm, struct comm *words, int64_t bytes,
                                    struct collective_buffers *b)
{
    *b = (struct collective_buffers){
        .bytes = (size_t)bytes, .words = words, .device = comm_device(comm)};
    TRY(b->device ? open_on_device(b) : open_on_host(b));
    TRY(comm_reuse(comm, b->send, b->bytes));
    return comm_reuse(comm, b->recv, b->bytes);
}

void collective_buffers_close(struct collective_buffers *b)
{
    if (b->device) {
        const struct backend *be = b->device->backend;
        struct event *const events[] = {b->from, b->ready, b->over, b->to};
        be->free(b->device, b->send);
        be->free(b->device, b->recv);
        be->free_host(b->device, b->host);
        for (size_t i = 0; i < sizeof events / sizeof *events; i++)
            be->event_close(events[i]);
        be->stream_close(b->stream);
    } else {
        free(b->send);
        free(b->recv);
    }
    *b = (struct collective_buffers){0};
}

/* Host memory in which the data at `mem` is made or checked. On a device, put() copies from it to
 * `mem`, and fetch() from `mem` to it. */
static void *desk(const struct collective_buffers *b, void *mem)
{
    return b->device ? b->host : mem;
}

static enum status put(const struct collective_buffers *b, void *mem, size_t bytes)
{
    if (!b->device)
        return STATUS_OK;
    TRY(b->device->backend->upload(b->stream, mem, b->host, bytes));
    return b->device->backend->stream_sync(b->stream);
}

static enum status fetch(const struct collective_buffers *b, const void *mem, size_t bytes)
{
    if (!b->device)
        return STATUS_OK;
    TRY(b->device->backend->download(b->stream, b->host, mem, bytes));
    return b->device->backend->stream_sync(b->stream);
}

/* An operation out of place or in place, with the copies for forms that communicators lack. */
struct form {
    struct comm *comm;
    struct collective_buffers *buffers;
    struct comm_op op;
    void *input; /* this rank's input values; NULL: it has none */
    int64_t input_count;
    void *result; /* location of the result */
    void *before_to, *after_to;
    const void *before_from, *after_from;
    size_t copied; /* bytes of the copy before or after the operation */
};

static struct form form_make(const struct collective_config *c, struct comm *comm,
                             struct collective_buffers *b, int64_t count,
                             enum collective_place place)
{
    bool in = place == COLLECTIVE_IN;
    int rank = comm_rank(comm), ranks = comm_size(comm);
    size_t part = (size_t)count * dtype_size(c->type);
    char *own = (char *)b->recv + (has_parts(c->kind) ? (size_t)rank * part : 0);
    struct form f = {.comm = comm,
                     .buffers = b,
                     .op = {.kind = c->kind,
                            .reduction = c->reduction,
                            .type = c->type,
                            .send = in ? own : b->send,
                            .recv = b->recv,
                            .count = count},
                     .result = b->recv,
                     .input_count = count,
                     .copied = part};
    f.input = in ? own : b->send;
    if (c->kind == COMM_REDUCE_SCATTER) {
        f.input_count = count * ranks;
        f.input = in ? b->recv : b->send;
        f.op.send = f.input;
        if (in) {
            f.op.recv = b->send;
            f.after_to = f.result = own;
            f.after_from = b->send;
        }
    } else if (c->kind == COMM_BROADCAST && rank != 0) {
        f.input = NULL;
    } else if (c->kind == COMM_BROADCAST && !in) {
        f.before_to = b->recv;
        f.before_from = b->send;
    }
    return f;
}

static enum status run_on_host(struct form *f, double *seconds)
{
    uint64_t begun = clock_ns();
    if (f->before_to)
        memcpy(f->before_to, f->before_from, f->copied);
    TRY(comm_run(f->comm, &f->op));
    if (f->after_to)
        memcpy(f->after_to, f->after_from, f->copied);
    *seconds = (double)(clock_ns() - begun) * 1e-9;
    return STATUS_OK;
}

/* As in training, the stream waits for the result; the host waits at the end of the sample. */
static enum status run_on_device(struct form *f, double *seconds)
{
    const struct collective_buffers *b = f->buffers;
    const struct backend *be = b->device->backend;
    TRY(be->event_record(b->from, b->stream));
    if (f->before_to)
        TRY(be->copy(b->stream, f->before_to, f->before_from, f->copied));
    TRY(be->event_record(b->ready, b->stream));
    f->op.after = b->ready;
    f->op.over = b->over;
    TRY(comm_start(f->comm, &f->op));
    TRY(comm_wait_on(f->comm, &f->op, b->stream));
    if (f->after_to)
        TRY(be->copy(b->stream, f->after_to, f->after_from, f->copied));
    TRY(be->event_record(b->to, b->stream));
    TRY(be->stream_sync(b->stream));
    *seconds = be->event_seconds(b->from, b->to);
    return STATUS_OK;
}

static enum status form_run(struct form *f, double *seconds)
{
    return f->buffers->device ? run_on_device(f, seconds) : run_on_host(f, seconds);
}

/* Takes a sample, the time of the slowest rank, which an all-reduce finds. The all-reduce gives all
 * ranks the same sample, so all stop after the same one, and synchronises them. */
static enum status form_sample(void *context, double *seconds)
{
    struct form *f = context;
    struct collective_buffers *b = f->buffers;
    struct comm_op slowest = {.kind = COMM_ALLREDUCE,
                              .reduction = COMM_MAX,
                              .type = DTYPE_F64,
                              .send = &b->word,
                              .recv = &b->word,
                              .count = 1,
                              .on_host = true};
    TRY(form_run(f, &b->word));
    TRY(comm_run(b->words, &slowest));
    *seconds = b->word;
    return STATUS_OK;
}

static enum status form_fill(const struct collective_config *c, const struct form *f, int round)
{
    size_t bytes = (size_t)f->input_count * dtype_size(c->type);
    if (!f->input)
        return STATUS_OK;
    collective_fill(c->type, desk(f->buffers, f->input), f->input_count, comm_rank(f->comm),
                    comm_size(f->comm), round);
    return put(f->buffers, f->input, bytes);
}

static enum status poison(const struct collective_config *c, const struct collective_buffers *b,
                          void *mem)
{
    collective_poison(c->type, desk(b, mem), (int64_t)(b->bytes / dtype_size(c->type)));
    return put(b, mem, b->bytes);
}

/* Runs once on known values and adds the wrong elements of all ranks to *wrong. */
static enum status form_check(const struct collective_config *c, struct form *f, int round,
                              int64_t *wrong)
{
    int rank = comm_rank(f->comm), ranks = comm_size(f->comm);
    struct collective_buffers *b = f->buffers;
    double ignored;
    TRY(poison(c, b, b->send));
    TRY(poison(c, b, b->recv));
    TRY(form_fill(c, f, round));
    TRY(form_run(f, &ignored));
    size_t bytes = (size_t)f->op.count * dtype_size(c->type);
    TRY(fetch(b, f->result, c->kind == COMM_ALLGATHER ? bytes * (size_t)ranks : bytes));
    b->word = (double)collective_wrong(c, desk(b, f->result), f->op.count, rank, ranks, round);
    TRY(comm_sum(b->words, &b->word, 1));
    *wrong += (int64_t)b->word;
    return STATUS_OK;
}

enum status collective_measure(const struct collective_config *c, struct comm *comm,
                               struct collective_buffers *b, int64_t bytes,
                               struct collective_row *row)
{
    int ranks = comm_size(comm);
    int64_t count = collective_count(c->kind, c->type, bytes, ranks);
    *row = (struct collective_row){.count = count};
    row->bytes = count * (int64_t)dtype_size(c->type) * (has_parts(c->kind) ? ranks : 1);
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        struct collective_time *t = &row->place[p];
        struct form f = form_make(c, comm, b, count, (enum collective_place)p);
        TRY(form_fill(c, &f, 0));
        TRY(harness_run(&c->options.timing, form_sample, &f, &t->time));
        collective_bandwidth(c->kind, ranks, row->bytes, t);
        t->wrong = c->checks > 0 ? 0 : -1;
        for (int round = 1; round <= c->checks; round++)
            TRY(form_check(c, &f, round, &t->wrong));
    }
    return STATUS_OK;
}
