/* Defines the functions that all kinds of communicator share, and the communicator of one rank. */
#include "comm/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- kinds of operations --- */

/* How many parts of op.count elements a buffer has: EACH has one for each rank, and the last two
 * are used only on root. */
enum parts { NONE, ONE, EACH, ONE_ON_ROOT, EACH_ON_ROOT };

static const struct {
    const char *name;
    enum parts send, recv;
    bool root, reduces;
} kinds[COMM_KIND_COUNT] = {
    [COMM_ALLREDUCE] = {"allreduce", ONE, ONE, .reduces = true},
    [COMM_BROADCAST] = {"broadcast", NONE, ONE, .root = true},
    [COMM_REDUCE] = {"reduce", ONE, ONE_ON_ROOT, .root = true, .reduces = true},
    [COMM_ALLGATHER] = {"allgather", ONE, EACH},
    [COMM_REDUCE_SCATTER] = {"reduce-scatter", EACH, ONE, .reduces = true},
    [COMM_ALLTOALL] = {"alltoall", EACH, EACH},
    [COMM_GATHER] = {"gather", ONE, EACH_ON_ROOT, .root = true},
    [COMM_SCATTER] = {"scatter", EACH_ON_ROOT, ONE, .root = true},
    [COMM_SENDRECV] = {"sendrecv", ONE, ONE},
    [COMM_BARRIER] = {"barrier", NONE, NONE},
};

const char *comm_kind_str(enum comm_kind kind)
{
    return (unsigned)kind < COMM_KIND_COUNT ? kinds[kind].name : "unknown";
}

bool comm_has_root(enum comm_kind kind)
{
    return kinds[kind].root;
}

bool comm_reduces(enum comm_kind kind)
{
    return kinds[kind].reduces;
}

static size_t bytes_of(const struct comm *c, const struct comm_op *op, enum parts parts)
{
    if (parts == NONE || (parts >= ONE_ON_ROOT && op->root != c->rank))
        return 0;
    int64_t n = parts == EACH || parts == EACH_ON_ROOT ? c->size : 1;
    return (size_t)(op->count * n) * dtype_size(op->type);
}

size_t comm_send_bytes(const struct comm *c, const struct comm_op *op)
{
    return bytes_of(c, op, kinds[op->kind].send);
}

size_t comm_recv_bytes(const struct comm *c, const struct comm_op *op)
{
    return bytes_of(c, op, kinds[op->kind].recv);
}

/* --- helpers --- */

const char *comm_op_text(const struct comm_op *op, char *out)
{
    snprintf(out, COMM_TEXT_MAX, "operation %lld (%s)", (long long)op->handle,
             comm_kind_str(op->kind));
    return out;
}

void comm_failure_keep(struct first_failure *f, enum status st, const char *fmt, ...)
{
    va_list ap;
    if (f->status != STATUS_OK)
        return;
    f->status = st;
    va_start(ap, fmt);
    vsnprintf(f->message, sizeof f->message, fmt, ap);
    va_end(ap);
}

void comm_sleep(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

bool comm_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns)
{
    struct timespec t = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT;
}

int64_t comm_deadline(double timeout_s)
{
    return timeout_s > 0 ? comm_now() + (int64_t)(timeout_s * 1e9) : INT64_MAX;
}

struct comm_intent comm_intent_of(const struct comm_op *op)
{
    return (struct comm_intent){
        op->handle, op->count, (int32_t)op->kind, (int32_t)op->type, (int32_t)op->reduction,
        op->root};
}

enum status comm_intent_check(int rank, const struct comm_intent *theirs,
                              const struct comm_intent *first)
{
    if (memcmp(theirs, first, sizeof *first) == 0) /* no padding */
        return STATUS_OK;
    return status_fail(STATUS_INVALID,
                       "rank %d started operation %lld (%s) of %lld elements where rank 0 started "
                       "operation %lld (%s) of %lld elements",
                       rank, (long long)theirs->number, comm_kind_str((enum comm_kind)theirs->kind),
                       (long long)theirs->count, (long long)first->number,
                       comm_kind_str((enum comm_kind)first->kind), (long long)first->count);
}

/* --- checks --- */

/* With any other overlap of `send` and `recv`, data would be overwritten before it is read. */
static bool overlap_is_fine(const struct comm *c, const struct comm_op *op)
{
    size_t sent = comm_send_bytes(c, op), received = comm_recv_bytes(c, op);
    uintptr_t from = (uintptr_t)op->send, into = (uintptr_t)op->recv;
    if (sent == 0 || received == 0 || from + sent <= into || into + received <= from)
        return true;
    if (op->kind == COMM_ALLGATHER || op->kind == COMM_GATHER)
        return from == into + (size_t)c->rank * sent;
    if (op->kind == COMM_SCATTER)
        return into == from + (size_t)c->rank * received;
    return comm_reduces(op->kind) && sent == received && from == into;
}

static enum status check_op(const struct comm *c, const struct comm_op *op)
{
    if (op->handle != 0)
        return status_fail(STATUS_INVALID, "started again before the caller waited for it");
    if (op->kind == COMM_BARRIER)
        return STATUS_OK;
    if ((unsigned)op->type >= DTYPE_COUNT || op->type == DTYPE_TF32)
        return status_fail(STATUS_INVALID, "elements in memory cannot have type %d", (int)op->type);
    if (comm_reduces(op->kind) && op->type == DTYPE_U8)
        return status_fail(STATUS_INVALID, "u8 cannot be reduced");
    if (comm_reduces(op->kind) && (unsigned)op->reduction > COMM_AVG)
        return status_fail(STATUS_INVALID, "unknown reduction %d", (int)op->reduction);
    if (comm_has_root(op->kind) && (op->root < 0 || op->root >= c->size))
        return status_fail(STATUS_INVALID, "root %d is not one of the %d ranks", op->root, c->size);
    uint64_t most = (uint64_t)INT64_MAX / dtype_size(op->type) / (unsigned)c->size;
    if (op->count < 0 || (uint64_t)op->count > most)
        return status_fail(STATUS_INVALID, "the count %lld is out of range", (long long)op->count);
    if ((comm_send_bytes(c, op) > 0 && !op->send) || (comm_recv_bytes(c, op) > 0 && !op->recv))
        return status_fail(STATUS_INVALID, "send or recv is NULL for %lld elements",
                           (long long)op->count);
    return overlap_is_fine(c, op) ? STATUS_OK
                                  : status_fail(STATUS_INVALID, "send and recv overlap");
}

/* --- operations --- */

enum status comm_copy_alone(struct comm *c, const struct comm_op *op)
{
    size_t bytes = comm_send_bytes(c, op);
    if (bytes > 0 && op->recv != op->send)
        memcpy(op->recv, op->send, bytes);
    return STATUS_OK;
}

/* Checks and numbers an operation. */
static enum status begin(struct comm *c, struct comm_op *op)
{
    const struct comm_slot *slot = comm_slot_of(c, c->started + 1);
    if ((unsigned)op->kind >= COMM_KIND_COUNT)
        return status_fail(STATUS_INVALID, "unknown kind of operation %d", (int)op->kind);
    enum status st = check_op(c, op);
    if (st != STATUS_OK)
        return status_context(st, "%s", comm_kind_str(op->kind));
    if (slot->op.handle != 0)
        return status_fail(STATUS_INVALID,
                           "wait for operation %lld before starting %d more operations",
                           (long long)slot->op.handle, COMM_MAX_STARTED);
    op->handle = ++c->started;
    op->begun_ns = comm_now();
    op->ended_ns = 0;
    return STATUS_OK;
}

/* Ends an operation whose status is `st`. Averages: a device communicator computes them itself; a
 * host communicator computes only the sum, which is divided here. */
static enum status end(const struct comm *c, struct comm_op *op, int64_t ended_ns, enum status st)
{
    op->handle = 0;
    op->ended_ns = ended_ns;
    if (st == STATUS_OK && op->reduction == COMM_AVG && comm_reduces(op->kind) && !c->device)
        comm_divide_by(op->type, op->recv, (int64_t)(comm_recv_bytes(c, op) / dtype_size(op->type)),
                       c->size);
    return st;
}

enum status comm_start(struct comm *c, struct comm_op *op)
{
    TRY(begin(c, op));
    struct comm_slot *slot = comm_slot_of(c, op->handle);
    *slot = (struct comm_slot){.op = *op};
    enum status st = c->calls->start ? c->calls->start(c, slot) : STATUS_OK;
    c->in_progress += st == STATUS_OK;
    if (st != STATUS_OK)
        op->handle = slot->op.handle = 0;
    return st;
}

/* Carries out all operations up to `number`. Ranks may wait for operations in different orders, but
 * every rank carries them out in the order of their start. */
static enum status run_until(struct comm *c, int64_t number)
{
    while (c->carried_out < number) {
        struct comm_slot *next = comm_slot_of(c, c->carried_out + 1);
        TRY(c->calls->run(c, &next->op));
        next->op.ended_ns = comm_now();
        c->carried_out++;
    }
    return STATUS_OK;
}

enum status comm_wait_on(struct comm *c, struct comm_op *op, struct stream *s)
{
    struct comm_slot *slot = comm_slot_of(c, op->handle > 0 ? op->handle : 0);
    bool on_stream = s && c->calls->wait_on && !op->on_host;
    enum status st;
    if (on_stream && !op->over)
        return status_fail(STATUS_INVALID,
                           "%s: a stream can wait only for an operation whose event 'over' is set",
                           comm_kind_str(op->kind));
    if (op->handle <= 0 || slot->op.handle != op->handle)
        return status_fail(STATUS_INVALID, "%s: the caller waited for it before starting it",
                           comm_kind_str(op->kind));
    if (on_stream)
        st = c->calls->wait_on(c, slot, s);
    else
        st = c->calls->wait ? c->calls->wait(c, slot) : run_until(c, op->handle);
    slot->op.handle = 0;
    c->in_progress--;
    return end(c, op, slot->op.ended_ns, st);
}

enum status comm_wait(struct comm *c, struct comm_op *op)
{
    return comm_wait_on(c, op, NULL);
}

enum status comm_run(struct comm *c, struct comm_op *op)
{
    if (!c->calls->run || c->in_progress > 0) {
        TRY(comm_start(c, op));
        return comm_wait(c, op);
    }
    TRY(begin(c, op));
    enum status st = c->calls->run(c, op);
    c->carried_out = c->started;
    return end(c, op, comm_now(), st);
}

enum status comm_sum(struct comm *c, double *values, int64_t n)
{
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,   DTYPE_F64,      .send = values,
                         .recv = values, .count = n, .on_host = true};
    return comm_run(c, &op);
}

enum status comm_gather(struct comm *c, const void *own, void *all, int64_t bytes)
{
    struct comm_op op = {COMM_ALLGATHER, .type = DTYPE_U8, .send = own, .recv = all,
                         .count = bytes};
    return comm_run(c, &op);
}

/* --- the other functions --- */

int comm_rank(const struct comm *c)
{
    return c->rank;
}

int comm_size(const struct comm *c)
{
    return c->size;
}

const char *comm_name(const struct comm *c)
{
    return c->name ? c->name : c->calls->name;
}

struct device *comm_device(const struct comm *c)
{
    return c->device;
}

enum status comm_divide(struct comm *c, int group)
{
    if (!c->calls->divide)
        return status_fail(STATUS_UNSUPPORTED,
                           "the communicator '%s' cannot be split into groups; use MPI",
                           comm_name(c));
    if (c->in_progress > 0)
        return status_fail(STATUS_INVALID,
                           "cannot split the ranks into groups: wait for %d operations before",
                           c->in_progress);
    return c->calls->divide(c, group);
}

enum status comm_reuse(struct comm *c, void *mem, size_t bytes)
{
    return c->calls->reuse ? c->calls->reuse(c, mem, bytes) : STATUS_OK;
}

void comm_fail(struct comm *c, enum status st, const char *message)
{
    if (c->calls->fail)
        c->calls->fail(c, st, message);
}

bool comm_speaks(const struct comm *c)
{
    return c->rank == 0 || c->speaks;
}

void comm_close(struct comm *c)
{
    if (c && c->calls->close)
        c->calls->close(c);
    else
        free(c);
}

enum status comm_open_solo(struct comm **c)
{
    static const struct comm_calls calls = {.name = "solo", .run = comm_copy_alone};
    TRY(array_new(c, 1));
    (*c)->calls = &calls;
    (*c)->size = 1;
    return STATUS_OK;
}
