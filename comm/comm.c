/* What all kinds of communicator have in common: arguments are checked, operations numbered. */
#include "comm/comm.h"

#include "comm/internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_name[COMM_KIND_COUNT] = {
    [COMM_ALLREDUCE] = "allreduce",
    [COMM_BROADCAST] = "broadcast",
    [COMM_REDUCE] = "reduce",
    [COMM_ALLGATHER] = "allgather",
    [COMM_REDUCE_SCATTER] = "reduce-scatter",
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
    if (op->kind == COMM_BROADCAST || op->kind == COMM_BARRIER)
        return 0;
    int64_t parts = op->kind == COMM_REDUCE_SCATTER ? c->size : 1;
    return (size_t)(op->count * parts) * dtype_size(op->type);
}

size_t comm_recv_bytes(const struct comm *c, const struct comm_op *op)
{
    if (op->kind == COMM_BARRIER || (op->kind == COMM_REDUCE && op->root != c->rank))
        return 0;
    int64_t parts = op->kind == COMM_ALLGATHER ? c->size : 1;
    return (size_t)(op->count * parts) * dtype_size(op->type);
}

const char *comm_op_text(const struct comm_op *op, char *out)
{
    snprintf(out, COMM_TEXT_MAX, "operation %lld (%s)", (long long)op->handle,
             comm_kind_str(op->kind));
    return out;
}

enum status comm_thread_start(pthread_t *thread, void *(*serve)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, serve, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return status_fail(STATUS_IO, "cannot start the communication thread: %s", strerror(error));
    return STATUS_OK;
}

void comm_copy_alone(const struct comm *c, const struct comm_op *op)
{
    size_t bytes = comm_send_bytes(c, op);
    if (bytes > 0 && op->recv != op->send)
        memcpy(op->recv, op->send, bytes);
}

static bool reduces(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE || kind == COMM_REDUCE_SCATTER;
}

/* send and recv may be the same memory where they are as long as each other, and an allgather's
 * send may be this rank's part of recv. Other overlaps would be read after they were written. */
static bool overlap_is_fine(const struct comm *c, const struct comm_op *op)
{
    size_t sent = comm_send_bytes(c, op), received = comm_recv_bytes(c, op);
    uintptr_t from = (uintptr_t)op->send, into = (uintptr_t)op->recv;
    if (sent == 0 || received == 0 || from + sent <= into || into + received <= from)
        return true;
    if (op->kind == COMM_ALLGATHER)
        return from == into + (size_t)c->rank * sent;
    return sent == received && from == into;
}

static enum status check_buffers(const struct comm *c, const struct comm_op *op, const char *name)
{
    size_t element = dtype_size(op->type);
    if (op->count < 0 || (uint64_t)op->count > (uint64_t)INT64_MAX / element / (unsigned)c->size)
        return status_fail(STATUS_INVALID, "%s: a count of %lld", name, (long long)op->count);
    if ((comm_send_bytes(c, op) > 0 && !op->send) || (comm_recv_bytes(c, op) > 0 && !op->recv))
        return status_fail(STATUS_INVALID, "%s: %lld elements, and no memory for them", name,
                           (long long)op->count);
    if (!overlap_is_fine(c, op))
        return status_fail(STATUS_INVALID, "%s: send and recv overlap", name);
    return STATUS_OK;
}

static enum status check_op(const struct comm *c, const struct comm_op *op)
{
    const char *name = comm_kind_str(op->kind);
    if ((unsigned)op->kind >= COMM_KIND_COUNT)
        return status_fail(STATUS_INVALID, "no operation has the kind %d", (int)op->kind);
    if (op->handle != 0)
        return status_fail(STATUS_INVALID, "%s: started again before it was waited for", name);
    if (op->kind == COMM_BARRIER)
        return STATUS_OK;
    if ((unsigned)op->type >= DTYPE_COUNT || op->type == DTYPE_TF32)
        return status_fail(STATUS_INVALID, "%s: type %d has no place in memory", name,
                           (int)op->type);
    if (reduces(op->kind) && op->type == DTYPE_U8)
        return status_fail(STATUS_INVALID, "%s: u8 is only to be moved", name);
    if (reduces(op->kind) && (unsigned)op->reduction > COMM_MIN)
        return status_fail(STATUS_INVALID, "%s: no reduction %d", name, (int)op->reduction);
    if ((op->kind == COMM_BROADCAST || op->kind == COMM_REDUCE) &&
        (op->root < 0 || op->root >= c->size))
        return status_fail(STATUS_INVALID, "%s: no rank %d among %d", name, op->root, c->size);
    return check_buffers(c, op, name);
}

enum status comm_start(struct comm *c, struct comm_op *op)
{
    TRY(check_op(c, op));
    int64_t number = c->started + 1;
    struct comm_slot *slot = comm_slot_of(c, number);
    if (slot->op.handle != 0)
        return status_fail(STATUS_INVALID,
                           "operation %lld is still to be waited for, %d operations later",
                           (long long)slot->op.handle, COMM_MAX_STARTED);
    c->started = number;
    op->handle = number;
    op->begun_ns = comm_now();
    op->ended_ns = 0;
    *slot = (struct comm_slot){.op = *op};
    enum status st = c->calls->start(c, slot);
    if (st != STATUS_OK)
        op->handle = slot->op.handle = 0;
    return st;
}

static enum status find_slot(struct comm *c, const struct comm_op *op, struct comm_slot **slot)
{
    *slot = comm_slot_of(c, op->handle > 0 ? op->handle : 0);
    if (op->handle > 0 && (*slot)->op.handle == op->handle)
        return STATUS_OK;
    return status_fail(STATUS_INVALID, "%s: waited for before it was started",
                       comm_kind_str(op->kind));
}

static void free_slot(struct comm_slot *slot, struct comm_op *op)
{
    op->ended_ns = slot->op.ended_ns;
    op->handle = 0;
    slot->op.handle = 0;
}

enum status comm_wait(struct comm *c, struct comm_op *op)
{
    struct comm_slot *slot;
    TRY(find_slot(c, op, &slot));
    enum status st = c->calls->wait(c, slot);
    free_slot(slot, op);
    return st;
}

enum status comm_wait_on(struct comm *c, struct comm_op *op, struct stream *s)
{
    struct comm_slot *slot;
    if (!c->calls->wait_on || op->on_host)
        return comm_wait(c, op);
    if (!op->over)
        return status_fail(STATUS_INVALID, "%s: a stream cannot wait for it without its event",
                           comm_kind_str(op->kind));
    TRY(find_slot(c, op, &slot));
    enum status st = c->calls->wait_on(c, slot, s);
    free_slot(slot, op);
    return st;
}

enum status comm_run(struct comm *c, struct comm_op *op)
{
    TRY(comm_start(c, op));
    return comm_wait(c, op);
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

enum status comm_divide(struct comm *c, int group)
{
    if (!c->calls->divide)
        return status_fail(STATUS_UNSUPPORTED, "the ranks of '%s' cannot be parted; use MPI",
                           comm_name(c));
    for (int i = 0; i < COMM_MAX_STARTED; i++)
        if (c->slot[i].op.handle != 0)
            return status_fail(STATUS_INVALID, "ranks parted while operation %lld is under way",
                               (long long)c->slot[i].op.handle);
    return c->calls->divide(c, group);
}

enum status comm_reuse(struct comm *c, void *mem, size_t bytes)
{
    return c->calls->reuse ? c->calls->reuse(c, mem, bytes) : STATUS_OK;
}

void comm_fail(struct comm *c, enum status st, const char *message)
{
    c->calls->fail(c, st, message);
}

void comm_close(struct comm *c)
{
    if (c)
        c->calls->close(c);
}
