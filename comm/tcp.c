/* Processes as ranks without MPI: every rank has a connection to rank 0, through which all data
 * passes. Good for what ranks have to agree on, and for a few of them; a real network of many is
 * MPI's and NCCL's.
 *
 * An operation begins with what each rank is about to do and rank 0's verdict on it, so that ranks
 * that disagree, or one that has failed, end it for all with one message. Data moves in comm_wait
 * alone. */
#include "comm/internal.h"
#include "comm/reduce.h"
#include "comm/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 << 10, VERDICT_MAX = 256, KIND_FAILED = -1 };

struct tcp {
    struct comm base;
    double timeout_s;
    int *peer;           /* (size) sockets; see rendezvous_meet */
    char *sum, *scratch; /* PIECE_BYTES each */
    int64_t carried_out;
    enum status broken; /* no operation can succeed any more; why: */
    char message[VERDICT_MAX];
};

/* What a rank is about to do, and what rank 0 says to it. All ranks are of one build and one kind
 * of machine (run them together, and their settings are compared as well). */
struct intent {
    int64_t number, count;
    int32_t kind, type, reduction, root;
    int32_t st; /* STATUS_OK, or of a failure: */
    char message[VERDICT_MAX];
};

/* --- failures --- */

static enum status broken(struct tcp *t, enum status st, const char *message)
{
    if (t->broken == STATUS_OK) {
        t->broken = st;
        snprintf(t->message, sizeof t->message, "%s", message);
    }
    return status_fail(t->broken, "%s", t->message);
}

/* The socket of `rank` failed us; the message is the thread's. */
static enum status lost(struct tcp *t, int rank, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX], message[VERDICT_MAX];
    snprintf(message, sizeof message, "rank %d was lost in %s: %.150s", rank,
             comm_op_text(op, text), status_message());
    return broken(t, STATUS_LIBRARY, message);
}

static enum status put(struct tcp *t, int rank, const struct comm_op *op, const void *data,
                       size_t bytes)
{
    if (socket_put(t->peer[rank], data, bytes, t->timeout_s) == STATUS_OK)
        return STATUS_OK;
    return lost(t, rank, op);
}

static enum status get(struct tcp *t, int rank, const struct comm_op *op, void *data, size_t bytes)
{
    if (socket_get(t->peer[rank], data, bytes, t->timeout_s) == STATUS_OK)
        return STATUS_OK;
    return lost(t, rank, op);
}

/* --- what all are about to do --- */

static struct intent intent_of(const struct comm_op *op)
{
    struct intent i;
    memset(&i, 0, sizeof i); /* padding too: all of it is sent */
    i.number = op->handle;
    i.count = op->count;
    i.kind = (int32_t)op->kind;
    i.type = (int32_t)op->type;
    i.reduction = (int32_t)op->reduction;
    i.root = op->root;
    return i;
}

/* Rank 0's view of what rank `r` wants. */
static void judge(int r, struct intent *theirs, const struct intent *own, struct intent *verdict)
{
    theirs->message[sizeof theirs->message - 1] = '\0';
    if (verdict->st != STATUS_OK)
        return;
    if (theirs->kind == KIND_FAILED) {
        bool known = theirs->st > STATUS_OK && theirs->st <= STATUS_MISMATCH;
        verdict->st = known ? theirs->st : (int32_t)STATUS_LIBRARY;
        snprintf(verdict->message, sizeof verdict->message, "%s", theirs->message);
    } else if (memcmp(theirs, own, offsetof(struct intent, st)) != 0) {
        verdict->st = (int32_t)STATUS_INVALID;
        snprintf(verdict->message, sizeof verdict->message,
                 "rank %d's operation %lld (%s) of %lld elements is not rank 0's operation %lld "
                 "(%s) of %lld elements",
                 r, (long long)theirs->number, comm_kind_str((enum comm_kind)theirs->kind),
                 (long long)theirs->count, (long long)own->number,
                 comm_kind_str((enum comm_kind)own->kind), (long long)own->count);
    }
}

/* Rank 0 hears all of them even when one is gone, so that the others get to know. */
static enum status agree_as_first(struct tcp *t, const struct comm_op *op)
{
    struct intent own = intent_of(op), verdict = own, theirs;
    for (int r = 1; r < t->base.size; r++) {
        if (get(t, r, op, &theirs, sizeof theirs) == STATUS_OK) {
            judge(r, &theirs, &own, &verdict);
        } else if (verdict.st == STATUS_OK) {
            verdict.st = (int32_t)t->broken;
            snprintf(verdict.message, sizeof verdict.message, "%s", t->message);
        }
    }
    for (int r = 1; r < t->base.size; r++)
        if (put(t, r, op, &verdict, sizeof verdict) != STATUS_OK && verdict.st == STATUS_OK)
            return broken(t, STATUS_LIBRARY, status_message());
    return verdict.st == STATUS_OK ? STATUS_OK
                                   : broken(t, (enum status)verdict.st, verdict.message);
}

static enum status agree(struct tcp *t, const struct comm_op *op)
{
    struct intent own = intent_of(op), verdict;
    if (t->base.rank == 0)
        return agree_as_first(t, op);
    TRY(put(t, 0, op, &own, sizeof own));
    TRY(get(t, 0, op, &verdict, sizeof verdict));
    verdict.message[sizeof verdict.message - 1] = '\0';
    if (verdict.st == STATUS_OK)
        return STATUS_OK;
    bool known = verdict.st > STATUS_OK && verdict.st <= STATUS_MISMATCH;
    return broken(t, known ? (enum status)verdict.st : STATUS_LIBRARY, verdict.message);
}

/* --- data --- */

/* Reduces elements [from, from + count) of send, in rank order, into `into` of rank `only`, or of
 * all where it is negative. */
static enum status reduce_range(struct tcp *t, const struct comm_op *op, int64_t from,
                                int64_t count, void *into, int only)
{
    size_t element = dtype_size(op->type);
    int64_t step = PIECE_BYTES / (int64_t)element;
    int rank = t->base.rank;
    for (int64_t i = 0; i < count; i += step) {
        int64_t n = count - i < step ? count - i : step;
        size_t bytes = (size_t)n * element;
        const char *own = (const char *)op->send + (size_t)(from + i) * element;
        char *result = (char *)into + (size_t)i * element;
        bool wanted = only < 0 || only == rank;
        if (rank > 0) {
            TRY(put(t, 0, op, own, bytes));
            if (wanted)
                TRY(get(t, 0, op, result, bytes));
            continue;
        }
        memcpy(t->sum, own, bytes);
        for (int r = 1; r < t->base.size; r++) {
            TRY(get(t, r, op, t->scratch, bytes));
            comm_reduce(op->type, op->reduction, t->sum, t->sum, t->scratch, n);
        }
        for (int r = 1; r < t->base.size; r++)
            if (only < 0 || only == r)
                TRY(put(t, r, op, t->sum, bytes));
        if (wanted)
            memcpy(result, t->sum, bytes);
    }
    return STATUS_OK;
}

static enum status reduce_scatter(struct tcp *t, const struct comm_op *op)
{
    for (int r = 0; r < t->base.size; r++)
        TRY(reduce_range(t, op, r * op->count, op->count, op->recv, r));
    return STATUS_OK;
}

static enum status broadcast(struct tcp *t, const struct comm_op *op)
{
    size_t bytes = comm_recv_bytes(&t->base, op);
    int rank = t->base.rank;
    if (rank > 0)
        return rank == op->root ? put(t, 0, op, op->recv, bytes) : get(t, 0, op, op->recv, bytes);
    if (op->root != 0)
        TRY(get(t, op->root, op, op->recv, bytes));
    for (int r = 1; r < t->base.size; r++)
        if (r != op->root)
            TRY(put(t, r, op, op->recv, bytes));
    return STATUS_OK;
}

static enum status gather_parts(struct tcp *t, const struct comm_op *op)
{
    size_t part = comm_send_bytes(&t->base, op), all = comm_recv_bytes(&t->base, op);
    char *recv = op->recv;
    if (t->base.rank > 0) {
        TRY(put(t, 0, op, op->send, part));
        return get(t, 0, op, recv, all);
    }
    if (recv != op->send && part > 0)
        memcpy(recv, op->send, part);
    for (int r = 1; r < t->base.size; r++)
        TRY(get(t, r, op, recv + (size_t)r * part, part));
    for (int r = 1; r < t->base.size; r++)
        TRY(put(t, r, op, recv, all));
    return STATUS_OK;
}

static enum status carry_out(struct tcp *t, const struct comm_op *op)
{
    if (t->broken != STATUS_OK)
        return status_fail(t->broken, "%s", t->message);
    TRY(agree(t, op));
    switch (op->kind) {
    case COMM_ALLREDUCE:
        return reduce_range(t, op, 0, op->count, op->recv, -1);
    case COMM_REDUCE:
        return reduce_range(t, op, 0, op->count, op->recv, op->root);
    case COMM_REDUCE_SCATTER:
        return reduce_scatter(t, op);
    case COMM_BROADCAST:
        return broadcast(t, op);
    case COMM_ALLGATHER:
        return gather_parts(t, op);
    default: /* a barrier is over when all have agreed to it */
        return STATUS_OK;
    }
}

/* --- the kind's calls --- */

static enum status tcp_start(struct comm *c, struct comm_slot *slot)
{
    (void)c, (void)slot; /* taken up by the wait for it or for a later one */
    return STATUS_OK;
}

static enum status tcp_wait(struct comm *c, struct comm_slot *slot)
{
    struct tcp *t = (struct tcp *)c;
    while (t->carried_out < slot->op.handle) {
        struct comm_slot *next = comm_slot_of(c, t->carried_out + 1);
        TRY(carry_out(t, &next->op));
        next->op.ended_ns = comm_now();
        t->carried_out++;
    }
    return STATUS_OK;
}

/* Rank 0 hears of it in place of the next operation, and tells the others. */
static void tcp_fail(struct comm *c, enum status st, const char *message)
{
    struct tcp *t = (struct tcp *)c;
    struct intent failed;
    if (t->broken != STATUS_OK)
        return;
    memset(&failed, 0, sizeof failed);
    failed.kind = KIND_FAILED;
    failed.st = (int32_t)st;
    snprintf(failed.message, sizeof failed.message, "rank %d: %s", c->rank, message);
    for (int r = 0; r < c->size; r++) /* one that cannot be told will miss us */
        if (t->peer[r] >= 0)
            (void)(socket_put(t->peer[r], &failed, sizeof failed, t->timeout_s) == STATUS_OK);
    t->broken = st;
    snprintf(t->message, sizeof t->message, "%s", failed.message);
}

static void tcp_close(struct comm *c)
{
    struct tcp *t = (struct tcp *)c;
    for (int r = 0; r < c->size && t->peer; r++)
        if (t->peer[r] >= 0)
            close(t->peer[r]);
    free(t->peer);
    free(t->sum);
    free(t->scratch);
    free(t);
}

static const struct comm_calls tcp_calls = {
    .name = "tcp",
    .start = tcp_start,
    .wait = tcp_wait,
    .fail = tcp_fail,
    .close = tcp_close,
};

static enum status open_parts(struct tcp *t)
{
    t->sum = malloc(PIECE_BYTES);
    t->scratch = malloc(PIECE_BYTES);
    t->peer = malloc((size_t)t->base.size * sizeof *t->peer);
    for (int r = 0; r < t->base.size && t->peer; r++)
        t->peer[r] = -1;
    if (t->sum && t->scratch && t->peer)
        return STATUS_OK;
    return status_fail(STATUS_OOM, "no memory for a communicator");
}

enum status comm_open_tcp(const struct comm_tcp_config *config, struct comm **c)
{
    struct tcp *t = calloc(1, sizeof *t);
    *c = NULL;
    if (!t)
        return status_fail(STATUS_OOM, "no memory for a communicator");
    t->base.calls = &tcp_calls;
    t->base.rank = config->place.rank;
    t->base.size = config->place.size;
    t->timeout_s = config->timeout_s;
    enum status st = open_parts(t);
    if (st == STATUS_OK)
        st = rendezvous_meet(config->address, t->base.rank, t->base.size, t->timeout_s, t->peer);
    if (st != STATUS_OK) {
        tcp_close(&t->base);
        return st;
    }
    *c = &t->base;
    return STATUS_OK;
}
