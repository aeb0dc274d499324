/* Defines the functions that all kinds of communicator share, and the communicator of one rank. */
#include "comm/exchange.h"
#include "comm/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_name[COMM_KIND_COUNT] = {
    [COMM_ALLREDUCE] = "allreduce",
    [COMM_BROADCAST] = "broadcast",
    [COMM_REDUCE] = "reduce",
    [COMM_ALLGATHER] = "allgather",
    [COMM_REDUCE_SCATTER] = "reduce-scatter",
    [COMM_ALLTOALL] = "alltoall",
    [COMM_GATHER] = "gather",
    [COMM_SCATTER] = "scatter",
    [COMM_SENDRECV] = "sendrecv",
    [COMM_BARRIER] = "barrier",
};

const char *comm_kind_str(enum comm_kind kind)
{
    return (unsigned)kind < COMM_KIND_COUNT ? kind_name[kind] : "unknown";
}

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

size_t comm_send_bytes(const struct comm *c, const struct comm_op *op)
{
    bool none = op->kind == COMM_BROADCAST || op->kind == COMM_BARRIER;
    if (none || (op->kind == COMM_SCATTER && op->root != c->rank))
        return 0;
    bool parts_each = op->kind == COMM_REDUCE_SCATTER || op->kind == COMM_ALLTOALL;
    int64_t parts = parts_each || op->kind == COMM_SCATTER ? c->size : 1;
    return (size_t)(op->count * parts) * dtype_size(op->type);
}

size_t comm_recv_bytes(const struct comm *c, const struct comm_op *op)
{
    bool to_root = op->kind == COMM_REDUCE || op->kind == COMM_GATHER;
    if (op->kind == COMM_BARRIER || (to_root && op->root != c->rank))
        return 0;
    bool parts_each = op->kind == COMM_ALLGATHER || op->kind == COMM_ALLTOALL;
    int64_t parts = parts_each || op->kind == COMM_GATHER ? c->size : 1;
    return (size_t)(op->count * parts) * dtype_size(op->type);
}

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

void comm_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool comm_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns)
{
    struct timespec t = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    if (until_ns == INT64_MAX)
        return pthread_cond_wait(condition, lock) == 0;
    return pthread_cond_timedwait(condition, lock, &t) != ETIMEDOUT;
}

int64_t comm_deadline(double timeout_s)
{
    return timeout_s > 0 ? comm_now() + (int64_t)(timeout_s * 1e9) : INT64_MAX;
}

int64_t comm_part_begin(int64_t count, int64_t parts, int64_t part)
{
    return count / parts * part + (count % parts < part ? count % parts : part);
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

void comm_copy_alone(const struct comm *c, const struct comm_op *op)
{
    size_t bytes = comm_send_bytes(c, op);
    if (bytes > 0 && op->recv != op->send)
        memcpy(op->recv, op->send, bytes);
}

bool comm_has_root(enum comm_kind kind)
{
    return kind == COMM_BROADCAST || kind == COMM_REDUCE || kind == COMM_GATHER ||
           kind == COMM_SCATTER;
}

bool comm_reduces(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE || kind == COMM_REDUCE_SCATTER;
}

/* `send` and `recv` may be the same memory if they have the same length and the operation reduces
 * values. In an allgather, a gather and a scatter, the shorter buffer may be this rank's part of
 * the longer buffer. With any other overlap, data would be overwritten before it is read. */
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
    return !exchange_is(op->kind) && sent == received && from == into;
}

static enum status check_buffers(const struct comm *c, const struct comm_op *op, const char *name)
{
    size_t element = dtype_size(op->type);
    if (op->count < 0 || (uint64_t)op->count > (uint64_t)INT64_MAX / element / (unsigned)c->size)
        return status_fail(STATUS_INVALID, "%s: the count %lld is out of range", name,
                           (long long)op->count);
    if ((comm_send_bytes(c, op) > 0 && !op->send) || (comm_recv_bytes(c, op) > 0 && !op->recv))
        return status_fail(STATUS_INVALID, "%s: send or recv is NULL for %lld elements", name,
                           (long long)op->count);
    if (!overlap_is_fine(c, op))
        return status_fail(STATUS_INVALID, "%s: send and recv overlap", name);
    return STATUS_OK;
}

static enum status check_op(const struct comm *c, const struct comm_op *op)
{
    const char *name = comm_kind_str(op->kind);
    if ((unsigned)op->kind >= COMM_KIND_COUNT)
        return status_fail(STATUS_INVALID, "unknown kind of operation %d", (int)op->kind);
    if (op->handle != 0)
        return status_fail(STATUS_INVALID, "%s: started again before the caller waited for it",
                           name);
    if (op->kind == COMM_BARRIER)
        return STATUS_OK;
    if ((unsigned)op->type >= DTYPE_COUNT || op->type == DTYPE_TF32)
        return status_fail(STATUS_INVALID, "%s: elements in memory cannot have type %d", name,
                           (int)op->type);
    if (comm_reduces(op->kind) && op->type == DTYPE_U8)
        return status_fail(STATUS_INVALID, "%s: u8 cannot be reduced", name);
    if (comm_reduces(op->kind) && (unsigned)op->reduction > COMM_AVG)
        return status_fail(STATUS_INVALID, "%s: unknown reduction %d", name, (int)op->reduction);
    if (comm_has_root(op->kind) && (op->root < 0 || op->root >= c->size))
        return status_fail(STATUS_INVALID, "%s: root %d is not one of the %d ranks", name, op->root,
                           c->size);
    return check_buffers(c, op, name);
}

enum status comm_start(struct comm *c, struct comm_op *op)
{
    TRY(check_op(c, op));
    int64_t number = c->started + 1;
    struct comm_slot *slot = comm_slot_of(c, number);
    if (slot->op.handle != 0)
        return status_fail(STATUS_INVALID,
                           "wait for operation %lld before starting %d more operations",
                           (long long)slot->op.handle, COMM_MAX_STARTED);
    c->started = number;
    op->handle = number;
    op->begun_ns = comm_now();
    op->ended_ns = 0;
    *slot = (struct comm_slot){.op = *op};
    enum status st = c->calls->start ? c->calls->start(c, slot) : STATUS_OK;
    if (st != STATUS_OK) {
        op->handle = slot->op.handle = 0;
        c->started--;
    }
    c->in_progress += st == STATUS_OK;
    return st;
}

static enum status find_slot(struct comm *c, const struct comm_op *op, struct comm_slot **slot)
{
    *slot = comm_slot_of(c, op->handle > 0 ? op->handle : 0);
    if (op->handle > 0 && (*slot)->op.handle == op->handle)
        return STATUS_OK;
    return status_fail(STATUS_INVALID, "%s: the caller waited for it before starting it",
                       comm_kind_str(op->kind));
}

static void free_slot(struct comm *c, struct comm_slot *slot, struct comm_op *op)
{
    op->ended_ns = slot->op.ended_ns;
    op->handle = 0;
    slot->op.handle = 0;
    c->in_progress--;
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

/* A device communicator computes averages itself. A host communicator computes only the sum, which
 * is divided here. */
static void finish_average(const struct comm *c, const struct comm_op *op)
{
    if (op->reduction == COMM_AVG && comm_reduces(op->kind) && !c->device)
        comm_divide_by(op->type, op->recv, (int64_t)(comm_recv_bytes(c, op) / dtype_size(op->type)),
                       c->size);
}

enum status comm_wait(struct comm *c, struct comm_op *op)
{
    struct comm_slot *slot;
    TRY(find_slot(c, op, &slot));
    enum status st = c->calls->wait ? c->calls->wait(c, slot) : run_until(c, op->handle);
    free_slot(c, slot, op);
    if (st == STATUS_OK)
        finish_average(c, op);
    return st;
}

enum status comm_wait_on(struct comm *c, struct comm_op *op, struct stream *s)
{
    struct comm_slot *slot;
    if (!c->calls->wait_on || op->on_host)
        return comm_wait(c, op);
    if (!op->over)
        return status_fail(STATUS_INVALID,
                           "%s: a stream can wait only for an operation whose event 'over' is set",
                           comm_kind_str(op->kind));
    TRY(find_slot(c, op, &slot));
    enum status st = c->calls->wait_on(c, slot, s);
    free_slot(c, slot, op);
    return st;
}

enum status comm_run(struct comm *c, struct comm_op *op)
{
    if (!c->calls->run || c->in_progress > 0) {
        TRY(comm_start(c, op));
        return comm_wait(c, op);
    }
    TRY(check_op(c, op));
    op->handle = ++c->started;
    op->begun_ns = comm_now();
    enum status st = c->calls->run(c, op);
    op->ended_ns = comm_now();
    c->carried_out = c->started;
    op->handle = 0;
    if (st == STATUS_OK)
        finish_average(c, op);
    return st;
}

enum status comm_sum(struct comm *c, double *values, int64_t n)
{
    struct comm_op op = {.kind = COMM_ALLREDUCE,
                         .reduction = COMM_SUM,
                         .type = DTYPE_F64,
                         .send = values,
                         .recv = values,
                         .count = n,
                         .on_host = true};
    return comm_run(c, &op);
}

enum status comm_gather(struct comm *c, const void *own, void *all, int64_t bytes)
{
    struct comm_op op = {
        .kind = COMM_ALLGATHER, .type = DTYPE_U8, .send = own, .recv = all, .count = bytes};
    return comm_run(c, &op);
}

enum status comm_divide(struct comm *c, int group)
{
    if (!c->calls->divide)
        return status_fail(STATUS_UNSUPPORTED,
                           "the communicator '%s' cannot be split into groups; use MPI",
                           comm_name(c));
    for (int i = 0; i < COMM_MAX_STARTED; i++)
        if (c->slot[i].op.handle != 0)
            return status_fail(
                STATUS_INVALID,
                "cannot split the ranks into groups: operation %lld was not waited for",
                (long long)c->slot[i].op.handle);
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

void comm_close(struct comm *c)
{
    if (c)
        c->calls->close(c);
}

/* --- the communicator of one rank --- */

static enum status solo_run(struct comm *c, const struct comm_op *op)
{
    comm_copy_alone(c, op);
    return STATUS_OK;
}

static void solo_close(struct comm *c)
{
    free(c);
}

enum status comm_open_solo(struct comm **c)
{
    static const struct comm_calls calls = {.name = "solo", .run = solo_run, .close = solo_close};
    TRY(array_new(c, 1));
    (*c)->calls = &calls;
    (*c)->size = 1;
    return STATUS_OK;
}
