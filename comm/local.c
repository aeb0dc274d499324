/* Threads of one process as ranks: they share their buffers' addresses and compute in place.
 *
 * An operation is two meetings of all ranks with work in between. At the first each has said where
 * its data lies; then every rank makes its own slice of the result, in everybody's memory where all
 * want it; at the second all slices are there. A slice is read and written by one rank alone, so
 * that send may be recv, and every element combines the ranks' values in rank order.
 *
 * One lock guards the group. A meeting fails for all when one rank fails or does not come. */
#include "comm/internal.h"
#include "comm/reduce.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 }; /* of a slice that is reduced at a time: stays in the first cache */

struct group {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int size, open; /* ranks; communicators not yet closed */
    double timeout_s;
    int64_t meeting; /* complete meetings */
    int present;     /* ranks that came to the next one */
    bool *came;      /* (size) who they are */
    enum status failure;
    char message[COMM_MESSAGE_MAX];
    struct local *member; /* (size) */
};

struct local {
    struct comm base;
    struct group *group;
    int64_t carried_out; /* the number of the last operation that was */
    struct comm_op op;   /* what this rank takes part in; others read it between two meetings */
};

/* --- meetings; the lock is held where a name ends in _locked --- */

static void fail_locked(struct group *g, enum status st, const char *message)
{
    if (g->failure == STATUS_OK) { /* the first reason is the one to tell */
        g->failure = st;
        snprintf(g->message, sizeof g->message, "%s", message);
    }
    pthread_cond_broadcast(&g->change);
}

static void group_fail(struct group *g, enum status st, const char *message)
{
    pthread_mutex_lock(&g->lock);
    fail_locked(g, st, message);
    pthread_mutex_unlock(&g->lock);
}

static void fail_absent_locked(struct group *g, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX], message[COMM_MESSAGE_MAX];
    int absent = 0;
    while (g->came[absent])
        absent++;
    snprintf(message, sizeof message, "rank %d did not reach %s within %g s", absent,
             comm_op_text(op, text), g->timeout_s);
    fail_locked(g, STATUS_LIBRARY, message);
}

static struct timespec deadline_of(double timeout_s)
{
    int64_t ns = comm_now() + (int64_t)(timeout_s * 1e9);
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static void gather_locked(struct group *g, const struct comm_op *op)
{
    int64_t meeting = g->meeting;
    struct timespec deadline = deadline_of(g->timeout_s);
    int error = 0;
    while (g->meeting == meeting && g->failure == STATUS_OK) {
        if (g->timeout_s <= 0)
            pthread_cond_wait(&g->change, &g->lock);
        else if (error == ETIMEDOUT)
            fail_absent_locked(g, op);
        else
            error = pthread_cond_timedwait(&g->change, &g->lock, &deadline);
    }
}

static enum status status_locked(const struct group *g)
{
    return g->failure == STATUS_OK ? STATUS_OK : status_fail(g->failure, "%s", g->message);
}

static enum status group_status(struct group *g)
{
    pthread_mutex_lock(&g->lock);
    enum status st = status_locked(g);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* Returns when every rank has called it. */
static enum status meet(struct local *l, const struct comm_op *op)
{
    struct group *g = l->group;
    pthread_mutex_lock(&g->lock);
    g->came[l->base.rank] = true;
    if (++g->present == g->size && g->failure == STATUS_OK) {
        memset(g->came, 0, (size_t)g->size * sizeof *g->came);
        g->present = 0;
        g->meeting++;
        pthread_cond_broadcast(&g->change);
    } else {
        gather_locked(g, op);
    }
    enum status st = status_locked(g);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* --- the work between --- */

/* The slice of `count` elements that rank `r` makes begins here. */
static int64_t slice_begin(const struct group *g, int64_t count, int r)
{
    return count / g->size * r + (count % g->size < r ? count % g->size : r);
}

/* out = the ranks' values of elements [from, from + n) of send, combined in rank order. */
static void combine(const struct group *g, const struct comm_op *op, int64_t from, int64_t n,
                    void *out)
{
    size_t offset = (size_t)from * dtype_size(op->type);
    const char *first = (const char *)g->member[0].op.send + offset;
    if (g->size == 1)
        memcpy(out, first, (size_t)n * dtype_size(op->type));
    for (int r = 1; r < g->size; r++)
        comm_reduce(op->type, op->reduction, out, r == 1 ? first : out,
                    (const char *)g->member[r].op.send + offset, n);
}

/* Reduces elements [from, to) of send and puts them at element `at` of recv, on rank `only` or, if
 * it is negative, on all. */
static void reduce_range(const struct group *g, const struct comm_op *op, int64_t from, int64_t to,
                         int64_t at, int only)
{
    _Alignas(64) char block[BLOCK_BYTES];
    size_t element = dtype_size(op->type);
    int64_t step = BLOCK_BYTES / (int64_t)element;
    for (int64_t i = from; i < to; i += step) {
        int64_t n = to - i < step ? to - i : step;
        combine(g, op, i, n, block);
        for (int r = 0; r < g->size; r++)
            if (only < 0 || r == only)
                memcpy((char *)g->member[r].op.recv + (size_t)(at + i - from) * element, block,
                       (size_t)n * element);
    }
}

static void gather_parts(const struct group *g, const struct comm *c, const struct comm_op *op)
{
    size_t part = comm_send_bytes(c, op);
    for (int r = 0; r < g->size && part > 0; r++) {
        char *into = (char *)op->recv + (size_t)r * part;
        if (into != g->member[r].op.send)
            memcpy(into, g->member[r].op.send, part);
    }
}

static void work(struct local *l, const struct comm_op *op)
{
    const struct group *g = l->group;
    int rank = l->base.rank;
    int64_t begin = slice_begin(g, op->count, rank), end = slice_begin(g, op->count, rank + 1);
    switch (op->kind) {
    case COMM_ALLREDUCE:
        reduce_range(g, op, begin, end, begin, -1);
        break;
    case COMM_REDUCE:
        reduce_range(g, op, begin, end, begin, op->root);
        break;
    case COMM_REDUCE_SCATTER:
        reduce_range(g, op, rank * op->count, (rank + 1) * op->count, 0, rank);
        break;
    case COMM_ALLGATHER:
        gather_parts(g, &l->base, op);
        break;
    case COMM_BROADCAST:
        if (rank != op->root && op->count > 0)
            memcpy(op->recv, g->member[op->root].op.recv, comm_recv_bytes(&l->base, op));
        break;
    default: /* a barrier has nothing to do */
        break;
    }
}

/* Every rank compares with rank 0, so that all find out where any does. */
static enum status check_agreement(const struct group *g)
{
    const struct comm_op *a = &g->member[0].op;
    for (int r = 1; r < g->size; r++) {
        const struct comm_op *b = &g->member[r].op;
        bool same = a->handle == b->handle && a->kind == b->kind && a->count == b->count &&
                    a->type == b->type && a->reduction == b->reduction && a->root == b->root;
        if (same)
            continue;
        char at[COMM_TEXT_MAX], other[COMM_TEXT_MAX];
        return status_fail(
            STATUS_INVALID, "rank %d's %s of %lld elements is not rank 0's %s of %lld elements", r,
            comm_op_text(b, other), (long long)b->count, comm_op_text(a, at), (long long)a->count);
    }
    return STATUS_OK;
}

static enum status carry_out(struct local *l, const struct comm_op *op)
{
    TRY(group_status(l->group)); /* after a failure slower ranks may still read what is here */
    l->op = *op;
    TRY(meet(l, op));
    enum status st = check_agreement(l->group);
    if (st != STATUS_OK) {
        group_fail(l->group, st, status_message());
        return st;
    }
    work(l, op);
    return meet(l, op);
}

/* --- the kind's calls --- */

static enum status local_start(struct comm *c, struct comm_slot *slot)
{
    (void)c, (void)slot; /* taken up by the wait for it or for a later one */
    return STATUS_OK;
}

/* Ranks may wait in different orders; all carry operations out in the order of their start. */
static enum status local_wait(struct comm *c, struct comm_slot *slot)
{
    struct local *l = (struct local *)c;
    while (l->carried_out < slot->op.handle) {
        struct comm_slot *next = comm_slot_of(c, l->carried_out + 1);
        TRY(carry_out(l, &next->op));
        next->op.ended_ns = comm_now();
        l->carried_out++;
    }
    return STATUS_OK;
}

static void local_fail(struct comm *c, enum status st, const char *message)
{
    struct local *l = (struct local *)c;
    char text[COMM_MESSAGE_MAX];
    snprintf(text, sizeof text, "rank %d: %s", c->rank, message);
    group_fail(l->group, st, text);
}

static void group_free(struct group *g)
{
    pthread_cond_destroy(&g->change);
    pthread_mutex_destroy(&g->lock);
    free(g->came);
    free(g->member);
    free(g);
}

/* The last to close frees all: after a failure a rank may still be reading another's. */
static void local_close(struct comm *c)
{
    struct group *g = ((struct local *)c)->group;
    pthread_mutex_lock(&g->lock);
    bool last = --g->open == 0;
    pthread_mutex_unlock(&g->lock);
    if (last)
        group_free(g);
}

static const struct comm_calls local_calls = {
    .name = "local",
    .start = local_start,
    .wait = local_wait,
    .fail = local_fail,
    .close = local_close,
};

static struct group *group_new(int size, double timeout_s)
{
    struct group *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&g->lock, NULL);
    g->size = g->open = size;
    g->timeout_s = timeout_s;
    g->came = calloc((size_t)size, sizeof *g->came);
    g->member = calloc((size_t)size, sizeof *g->member);
    if (g->came && g->member)
        return g;
    group_free(g);
    return NULL;
}

enum status comm_open_local(int size, double timeout_s, struct comm **c)
{
    if (size < 1)
        return status_fail(STATUS_INVALID, "a group of %d ranks", size);
    struct group *g = group_new(size, timeout_s);
    if (!g)
        return status_fail(STATUS_OOM, "out of memory");
    for (int r = 0; r < size; r++) {
        struct local *l = &g->member[r];
        l->base.calls = &local_calls;
        l->base.rank = r;
        l->base.size = size;
        l->group = g;
        c[r] = &l->base;
    }
    return STATUS_OK;
}
