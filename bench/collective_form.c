/* Times and checks collectives of one size on a communicator. */
#include "bench/collective.h"

#include "base/array.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- values --- */

/* bfloat16 has eight significant bits, so whole numbers up to SUM_MAX are exact in every type. */
enum { SUM_MAX = 255, VALUE_MAX = 127 };

/* Returns a hash of index, rank and round, so that the check detects misplaced elements and
 * elements of an earlier round. */
static uint32_t mixed(int64_t i, int rank, int round)
{
    uint32_t x =
        (uint32_t)i * 2654435761u + (uint32_t)rank * 2246822519u + (uint32_t)round * 40503u;
    x ^= x >> 15;
    x *= 2246822507u;
    return x ^ x >> 13;
}

double collective_value(int64_t i, int rank, int ranks, int round)
{
    int most = SUM_MAX / ranks;
    if (most > VALUE_MAX)
        most = VALUE_MAX;
    if (most < 1) /* with 256 ranks, the value is 0 on rank 0 and 1 on the other ranks, so that the
                   * sum is 255 */
        return rank > 0;
    return mixed(i, rank, round) % (uint32_t)(most + 1);
}

void collective_fill(enum dtype type, void *mem, int64_t n, int rank, int ranks, int round)
{
    for (int64_t i = 0; i < n; i++)
        dtype_store(type, mem, i, collective_value(i, rank, ranks, round));
}

static double combined(enum comm_reduction reduction, int64_t i, int ranks, int round)
{
    double result = collective_value(i, 0, ranks, round);
    for (int rank = 1; rank < ranks; rank++) {
        double x = collective_value(i, rank, ranks, round);
        if (reduction == COMM_SUM || reduction == COMM_AVG)
            result += x;
        else if (reduction == COMM_MAX ? x > result : x < result)
            result = x;
    }
    return reduction == COMM_AVG ? result / ranks : result;
}

/* Returns the expected value of element i in the result of `rank`. */
static double expected(const struct collective_config *c, int64_t i, int64_t count, int rank,
                       int ranks, int round)
{
    switch (c->kind) {
    case COMM_BROADCAST:
        return collective_value(i, c->root, ranks, round);
    case COMM_ALLGATHER:
    case COMM_GATHER:
        return collective_value(i % count, (int)(i / count), ranks, round);
    case COMM_ALLTOALL:
        return collective_value(rank * count + i % count, (int)(i / count), ranks, round);
    case COMM_SCATTER:
        return collective_value(rank * count + i, c->root, ranks, round);
    case COMM_SENDRECV:
        return collective_value(i, (rank + ranks - 1) % ranks, ranks, round);
    case COMM_REDUCE_SCATTER:
        return combined(c->reduction, rank * count + i, ranks, round);
    default:
        return combined(c->reduction, i, ranks, round);
    }
}

/* Returns the number of elements of the result of `rank`, or 0 if the rank has no result. */
static int64_t result_count(const struct collective_config *c, int64_t count, int rank, int ranks)
{
    bool to_root = c->kind == COMM_REDUCE || c->kind == COMM_GATHER;
    bool parts = c->kind == COMM_ALLGATHER || c->kind == COMM_ALLTOALL || c->kind == COMM_GATHER;
    return to_root && rank != c->root ? 0 : parts ? count * ranks : count;
}

/* Returns the largest allowed error of an average, relative to the average. NCCL multiplies each
 * value by 1/ranks before it adds. The factor, each product and each sum are then rounded by at
 * most half a unit in the last place. All other results are exact. */
static double tolerance(const struct collective_config *c, int ranks)
{
    double unit = c->type == DTYPE_BF16  ? 0x1p-8
                  : c->type == DTYPE_F16 ? 0x1p-11
                  : c->type == DTYPE_F32 ? 0x1p-24
                                         : 0x1p-53;
    bool rounds = c->reduction == COMM_AVG && comm_reduces(c->kind) && c->type != DTYPE_I32;
    return rounds ? 1.01 * (ranks + 1) * unit : 0;
}

int64_t collective_wrong(const struct collective_config *c, const void *mem, int64_t count,
                         int rank, int ranks, int round)
{
    int64_t wrong = 0, n = result_count(c, count, rank, ranks);
    double most = tolerance(c, ranks);
    for (int64_t i = 0; i < n; i++) {
        double want = expected(c, i, count, rank, ranks, round);
        if (c->type == DTYPE_I32)
            want = trunc(want);
        wrong += !(fabs(dtype_load(c->type, mem, i) - want) <= most * want);
    }
    return wrong;
}

/* --- operations and their memory --- */

enum { ALIGNMENT = 4096 };

/* One of the operations that start together, out of place or in place. If communicators lack the
 * out-of-place form or the in-place form of an operation, the turn emulates it with a copy before
 * or after the operation. */
struct collective_turn {
    struct comm_op op;
    void *input; /* this rank's input values; NULL: the rank has no input */
    int64_t input_count;
    void *result; /* memory in which the result is checked */
    void *before_to, *after_to;
    const void *before_from, *after_from;
    size_t copied; /* bytes of the copy before or after the operation */
};

static enum status open_on_host(struct collective_buffers *b)
{
    size_t all = b->bytes * (size_t)b->turns;
    bool fits = b->bytes <= SIZE_MAX / (size_t)b->turns;
    b->send = fits ? aligned_alloc(ALIGNMENT, all) : NULL;
    b->recv = fits ? aligned_alloc(ALIGNMENT, all) : NULL;
    if (!b->send || !b->recv)
        return status_fail(STATUS_OOM,
                           "no memory for two buffers of %d times %zu bytes; give a "
                           "smaller -e or -m",
                           b->turns, b->bytes);
    memset(b->send, 0, all);
    memset(b->recv, 0, all);
    return STATUS_OK;
}

static enum status open_on_device(struct collective_buffers *b)
{
    const struct backend *be = b->device->backend;
    struct event **const events[] = {&b->from, &b->ready, &b->to};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        TRY(be->event_open(b->device, events[i]));
    for (int i = 0; i < b->turns; i++)
        TRY(be->event_open(b->device, &b->over[i]));
    TRY(be->stream_open(b->device, &b->stream));
    TRY(be->alloc_host(b->device, b->bytes, &b->host));
    TRY(be->alloc(b->device, b->bytes * (size_t)b->turns, &b->send));
    return be->alloc(b->device, b->bytes * (size_t)b->turns, &b->recv);
}

enum status collective_buffers_open(struct comm *comm, struct comm *words, int64_t bytes, int turns,
                                    struct collective_buffers *b)
{
    *b = (struct collective_buffers){.bytes = ((size_t)bytes / ALIGNMENT + 1) * ALIGNMENT,
                                     .turns = turns,
                                     .words = words,
                                     .device = comm_device(comm)};
    TRY(array_new(&b->turn, turns));
    TRY(b->device ? open_on_device(b) : open_on_host(b));
    TRY(comm_reuse(comm, b->send, b->bytes * (size_t)turns));
    return comm_reuse(comm, b->recv, b->bytes * (size_t)turns);
}

void collective_buffers_close(struct collective_buffers *b)
{
    if (b->device) {
        const struct backend *be = b->device->backend;
        struct event *const events[] = {b->from, b->ready, b->to};
        be->free(b->device, b->send);
        be->free(b->device, b->recv);
        be->free_host(b->device, b->host);
        for (size_t i = 0; i < sizeof events / sizeof *events; i++)
            be->event_close(events[i]);
        for (int i = 0; i < b->turns; i++)
            be->event_close(b->over[i]);
        be->stream_close(b->stream);
    } else {
        free(b->send);
        free(b->recv);
    }
    free(b->turn);
    *b = (struct collective_buffers){0};
}

/* Returns the host memory in which the data of `mem` is generated or checked. If `mem` is on a
 * device, this is a separate buffer on the host: put() copies the buffer to `mem`, and fetch()
 * copies `mem` to the buffer. */
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

/* --- forms --- */

/* The operations of one size, out of place or in place. */
struct form {
    const struct collective_config *config;
    struct comm *comm;
    struct collective_buffers *buffers;
    int64_t result_count; /* number of elements of this rank's result */
    int left;             /* calls that have not been made, of those that harness_run may take */
    int shared, used;     /* samples in buffers->seconds; those that harness_run has taken */
};

/* Emulates an in-place form that communicators lack. The input is in `recv`, and the operation
 * writes its result to `send`. Afterwards the result is copied to `to`, a part of `recv`. */
static void turn_copy_back(struct collective_turn *t, char *send, char *recv, char *to)
{
    t->op.send = t->input = recv;
    t->op.recv = send;
    t->after_to = t->result = to;
    t->after_from = send;
}

static void turn_place_in(const struct collective_config *c, int rank, char *send, char *recv,
                          char *own, struct collective_turn *t)
{
    switch (c->kind) {
    case COMM_REDUCE_SCATTER:
        turn_copy_back(t, send, recv, own);
        break;
    case COMM_ALLTOALL:
    case COMM_SENDRECV:
        turn_copy_back(t, send, recv, recv);
        break;
    case COMM_SCATTER:
        t->op.send = recv;
        t->input = rank == c->root ? recv : NULL;
        t->op.recv = t->result = own;
        break;
    default:
        t->op.send = t->input = own;
        break;
    }
}

static struct collective_turn turn_make(const struct form *f, int64_t count, int number,
                                        enum collective_place place)
{
    const struct collective_config *c = f->config;
    int rank = comm_rank(f->comm), ranks = comm_size(f->comm);
    size_t part = (size_t)count * dtype_size(c->type);
    size_t at = (size_t)number * f->buffers->bytes;
    char *send = (char *)f->buffers->send + at, *recv = (char *)f->buffers->recv + at;
    char *own = recv + (collective_has_parts(c->kind) ? (size_t)rank * part : 0);
    bool parts_in =
        c->kind == COMM_REDUCE_SCATTER || c->kind == COMM_ALLTOALL || c->kind == COMM_SCATTER;
    struct collective_turn t = {.op = {.kind = c->kind,
                                       .reduction = c->reduction,
                                       .type = c->type,
                                       .root = c->root,
                                       .send = send,
                                       .recv = recv,
                                       .count = count},
                                .input = send,
                                .input_count = parts_in ? count * ranks : count,
                                .result = recv,
                                .copied = c->kind == COMM_ALLTOALL ? part * (size_t)ranks : part};
    if (place == COLLECTIVE_IN)
        turn_place_in(c, rank, send, recv, own, &t);
    else if (c->kind == COMM_SCATTER && rank != c->root)
        t.input = NULL;
    if (c->kind == COMM_BROADCAST && rank != c->root) {
        t.input = NULL;
    } else if (c->kind == COMM_BROADCAST && place == COLLECTIVE_OUT) {
        t.before_to = recv;
        t.before_from = send;
    }
    return t;
}

/* --- a sample --- */

/* A single operation is a blocking call, and its time is the communicator's: around MPI's call
 * alone. A copy counts too, and so does the division of an average. */
static enum status run_on_host(struct form *f, double *seconds)
{
    int turns = f->buffers->turns;
    struct collective_turn *turn = f->buffers->turn;
    const struct comm_op *op = &turn->op;
    uint64_t copied = turn->before_to ? clock_ns() : 0;
    for (int i = 0; i < turns; i++) {
        if (turn[i].before_to)
            memcpy(turn[i].before_to, turn[i].before_from, turn[i].copied);
        TRY((turns > 1 ? comm_start : comm_run)(f->comm, &turn[i].op));
    }
    for (int i = 0; i < turns; i++) {
        if (turns > 1)
            TRY(comm_wait(f->comm, &turn[i].op));
        if (turn[i].after_to)
            memcpy(turn[i].after_to, turn[i].after_from, turn[i].copied);
    }
    bool more =
        turns > 1 || turn->after_to || (comm_reduces(op->kind) && op->reduction == COMM_AVG);
    uint64_t ended = more ? clock_ns() : (uint64_t)op->ended_ns;
    *seconds = (double)(ended - (copied ? copied : (uint64_t)op->begun_ns)) * 1e-9 / turns;
    return STATUS_OK;
}

/* As in training, the stream and not the host waits for the result. The host waits only at the end
 * of the sample. */
static enum status run_on_device(struct form *f, double *seconds)
{
    struct collective_buffers *b = f->buffers;
    const struct backend *be = b->device->backend;
    TRY(be->event_record(b->from, b->stream));
    for (int i = 0; i < b->turns; i++)
        if (b->turn[i].before_to)
            TRY(be->copy(b->stream, b->turn[i].before_to, b->turn[i].before_from,
                         b->turn[i].copied));
    TRY(be->event_record(b->ready, b->stream));
    for (int i = 0; i < b->turns; i++) {
        b->turn[i].op.after = b->ready;
        b->turn[i].op.over = b->over[i];
        TRY(comm_start(f->comm, &b->turn[i].op));
    }
    for (int i = 0; i < b->turns; i++) {
        TRY(comm_wait_on(f->comm, &b->turn[i].op, b->stream));
        if (b->turn[i].after_to)
            TRY(be->copy(b->stream, b->turn[i].after_to, b->turn[i].after_from, b->turn[i].copied));
    }
    TRY(be->event_record(b->to, b->stream));
    TRY(be->stream_sync(b->stream));
    *seconds = be->event_seconds(b->from, b->to) / b->turns;
    return STATUS_OK;
}

static enum status form_run(struct form *f, double *seconds)
{
    return f->buffers->device ? run_on_device(f, seconds) : run_on_host(f, seconds);
}

/* Makes calls, each after a barrier, and shares the time of each call's slowest rank by an
 * all-reduce, so all ranks have the same samples and stop after the same one. Brief calls share
 * their times after several calls, so that nothing but the barrier is between them. If the number
 * of calls is fixed, so is the number of all-reduces (comm_divide needs it). */
static enum status form_calls(struct form *f)
{
    struct collective_buffers *b = f->buffers;
    const struct harness_config *timing = &f->config->options.timing;
    if (f->left == 0) /* the row is measured again */
        f->left = timing->warmup + timing->most;
    bool several = (timing->within <= 0 && timing->seconds <= 0) ||
                   (f->shared > 0 && b->seconds[f->shared - 1] < 1e-3);
    int n = !several ? 1 : f->left < COLLECTIVE_SHARED ? f->left : COLLECTIVE_SHARED;
    struct comm_op ready = {.kind = COMM_BARRIER, .on_host = true},
                   slowest = {.kind = COMM_ALLREDUCE,
                              .reduction = COMM_MAX,
                              .type = DTYPE_F64,
                              .send = b->seconds,
                              .recv = b->seconds,
                              .count = n,
                              .on_host = true};
    for (int i = 0; i < n; i++) {
        TRY(comm_run(b->words, &ready));
        TRY(form_run(f, &b->seconds[i]));
    }
    f->left -= n;
    f->shared = n;
    f->used = 0;
    return comm_run(b->words, &slowest);
}

static enum status form_sample(void *context, double *seconds)
{
    struct form *f = context;
    if (f->used == f->shared)
        TRY(form_calls(f));
    *seconds = f->buffers->seconds[f->used++];
    return STATUS_OK;
}

/* --- checks --- */

/* Each of the operations that start together has values of its own. */
static int values_of(const struct form *f, int round, int turn)
{
    return round * f->buffers->turns + turn;
}

static enum status form_fill(const struct form *f, int round)
{
    enum dtype type = f->config->type;
    for (int i = 0; i < f->buffers->turns; i++) {
        const struct collective_turn *t = &f->buffers->turn[i];
        if (!t->input)
            continue;
        collective_fill(type, desk(f->buffers, t->input), t->input_count, comm_rank(f->comm),
                        comm_size(f->comm), values_of(f, round, i));
        TRY(put(f->buffers, t->input, (size_t)t->input_count * dtype_size(type)));
    }
    return STATUS_OK;
}

static enum status poison(const struct form *f, void *all)
{
    const struct collective_buffers *b = f->buffers;
    for (int i = 0; i < b->turns; i++) {
        char *mem = (char *)all + (size_t)i * b->bytes;
        memset(desk(b, mem), 0xff, b->bytes); /* NaN, -1 or 255, depending on the type */
        TRY(put(b, mem, b->bytes));
    }
    return STATUS_OK;
}

/* Runs the operations once on known values. Adds the number of wrong elements of all ranks to
 * *wrong. */
static enum status form_check(struct form *f, int round, int64_t *wrong)
{
    const struct collective_config *c = f->config;
    int rank = comm_rank(f->comm), ranks = comm_size(f->comm);
    struct collective_buffers *b = f->buffers;
    double ignored, found = 0;
    TRY(poison(f, b->send));
    TRY(poison(f, b->recv));
    TRY(form_fill(f, round));
    TRY(form_run(f, &ignored));
    for (int i = 0; i < b->turns; i++) {
        const struct collective_turn *t = &b->turn[i];
        TRY(fetch(b, t->result, (size_t)f->result_count * dtype_size(c->type)));
        found += (double)collective_wrong(c, desk(b, t->result), t->op.count, rank, ranks,
                                          values_of(f, round, i));
    }
    b->seconds[0] = found;
    TRY(comm_sum(b->words, b->seconds, 1));
    *wrong += (int64_t)b->seconds[0];
    return STATUS_OK;
}

enum status collective_measure(const struct collective_config *c, struct comm *comm,
                               struct collective_buffers *b, int64_t bytes,
                               struct collective_row *row)
{
    int ranks = comm_size(comm), rank = comm_rank(comm);
    int64_t count = collective_count(c->kind, c->type, bytes, ranks);
    struct harness_config timing = c->options.timing;
    struct form f = {.config = c,
                     .comm = comm,
                     .buffers = b,
                     .result_count = result_count(c, count, rank, ranks)};
    if (b->job.process)
        timing.job = &b->job;
    timing.bar = NULL; /* the progress bar advances once per size, not once per harness_run */
    *row = (struct collective_row){.count = count};
    row->bytes = count * (int64_t)dtype_size(c->type) * (collective_has_parts(c->kind) ? ranks : 1);
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        struct collective_time *t = &row->place[p];
        for (int i = 0; i < b->turns; i++)
            b->turn[i] = turn_make(&f, count, i, (enum collective_place)p);
        f.left = timing.warmup + timing.most;
        f.shared = f.used = 0;
        TRY(form_fill(&f, 0));
        TRY(harness_run(&timing, form_sample, &f, &t->time));
        collective_bandwidth(c->kind, ranks, row->bytes, t);
        t->wrong = c->checks > 0 ? 0 : -1;
        for (int round = 1; round <= c->checks; round++)
            TRY(form_check(&f, round, &t->wrong));
    }
    return STATUS_OK;
}
