/* Timing and checking collectives of one size on a communicator. */
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
        .timing = {.warmup = 5, .most = 20, .within = 0.02, .seconds = 2},
        .out = stdout,
    };
}

bool collective_reduces(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE || kind == COMM_REDUCE_SCATTER;
}

/* Does every rank have a part of its own? */
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

enum status collective_buffers_open(struct comm *comm, int64_t bytes, struct collective_buffers *b)
{
    enum { ALIGNMENT = 4096 };
    *b = (struct collective_buffers){.bytes = (size_t)(bytes / ALIGNMENT + 1) * ALIGNMENT};
    b->send = aligned_alloc(ALIGNMENT, b->bytes);
    b->recv = aligned_alloc(ALIGNMENT, b->bytes);
    if (!b->send || !b->recv)
        return status_fail(STATUS_OOM, "no memory for two buffers of %lld bytes; give a smaller -e",
                           (long long)bytes);
    memset(b->send, 0, b->bytes);
    memset(b->recv, 0, b->bytes);
    TRY(comm_reuse(comm, b->send, b->bytes));
    return comm_reuse(comm, b->recv, b->bytes);
}

void collective_buffers_close(struct collective_buffers *b)
{
    free(b->send);
    free(b->recv);
    *b = (struct collective_buffers){0};
}

/* An operation in one of its places, with the copies that stand for what communicators lack. */
struct form {
    struct comm *comm;
    double *word; /* for what ranks tell each other */
    struct comm_op op;
    void *input; /* where this rank's values go before; NULL: it has none */
    int64_t input_count;
    void *result; /* and the result lies after */
    void *before_to, *after_to;
    const void *before_from, *after_from;
    size_t copied; /* bytes of either copy */
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
                     .word = &b->word,
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

static enum status form_run(struct form *f)
{
    if (f->before_to)
        memcpy(f->before_to, f->before_from, f->copied);
    TRY(comm_run(f->comm, &f->op));
    if (f->after_to)
        memcpy(f->after_to, f->after_from, f->copied);
    return STATUS_OK;
}

/* The slowest rank's time, which all ranks hear of: they meet by it, and stop together. */
static enum status form_sample(void *context, double *seconds)
{
    struct form *f = context;
    struct comm_op slowest = {.kind = COMM_ALLREDUCE,
                              .reduction = COMM_MAX,
                              .type = DTYPE_F64,
                              .send = f->word,
                              .recv = f->word,
                              .count = 1};
    uint64_t begun = clock_ns();
    TRY(form_run(f));
    *f->word = (double)(clock_ns() - begun) * 1e-9;
    TRY(comm_run(f->comm, &slowest));
    *seconds = *f->word;
    return STATUS_OK;
}

/* Runs once on known values and adds up the wrong elements of all ranks. */
static enum status form_check(const struct collective_config *c, struct form *f,
                              const struct collective_buffers *b, int round, int64_t *wrong)
{
    int rank = comm_rank(f->comm), ranks = comm_size(f->comm);
    int64_t all = (int64_t)(b->bytes / dtype_size(c->type));
    collective_poison(c->type, b->send, all);
    collective_poison(c->type, b->recv, all);
    if (f->input)
        collective_fill(c->type, f->input, f->input_count, rank, ranks, round);
    TRY(form_run(f));
    *f->word = (double)collective_wrong(c, f->result, f->op.count, rank, ranks, round);
    TRY(comm_sum(f->comm, f->word, 1));
    *wrong += (int64_t)*f->word;
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
        if (f.input)
            collective_fill(c->type, f.input, f.input_count, comm_rank(comm), ranks, 0);
        TRY(harness_run(&c->timing, form_sample, &f, &t->time));
        collective_bandwidth(c->kind, ranks, row->bytes, t);
        t->wrong = c->checks > 0 ? 0 : -1;
        for (int round = 1; round <= c->checks; round++)
            TRY(form_check(c, &f, b, round, &t->wrong));
    }
    return STATUS_OK;
}
