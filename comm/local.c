/* The communicator between threads of one process. Each rank knows the addresses of all ranks'
 * buffers, and reads and writes them directly. Every operation has two internal barriers, called
 * meetings. Before the first meeting, each rank publishes the addresses of its buffers. Between the
 * meetings, each rank computes one slice of the result and writes it to all ranks that receive it.
 * After the second meeting all slices are complete. `send` may equal `recv`, because only one rank
 * reads and writes a given slice. The ranks' values of each element are combined in rank order. One
 * lock guards the group. If one rank fails or is late, the meeting fails on all ranks. */
#include "comm/exchange.h"
#include "comm/internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 16384
}; /* number of bytes that are reduced at a time; they fit into the L1
    * cache */

struct group {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int size;
    atomic_int open; /* number of communicators that are not yet closed */
    double timeout_s;
    int64_t meeting; /* number of completed meetings */
    int present;     /* number of ranks that have reached the next meeting */
    bool *came;      /* (size) which ranks have reached the next meeting */
    struct first_failure failure;
    struct local *member; /* (size) */
};

struct local {
    struct comm base;
    struct group *group;
    struct comm_op op; /* this rank's current operation; other ranks read it between the two
                        * meetings of the operation */
};

/* --- meetings; the caller of a function named ..._locked holds the lock --- */

static void group_fail(struct group *g, enum status st, const char *message)
{
    pthread_mutex_lock(&g->lock);
    comm_failure_keep(&g->failure, st, "%s", message);
    pthread_cond_broadcast(&g->change);
    pthread_mutex_unlock(&g->lock);
}

static void fail_absent_locked(struct group *g, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX];
    int absent = 0;
    while (g->came[absent])
        absent++;
    comm_failure_keep(&g->failure, STATUS_LOST_RANK, "rank %d did not reach %s within %g s", absent,
                      comm_op_text(op, text), g->timeout_s);
    pthread_cond_broadcast(&g->change);
}

static void wait_for_others_locked(struct group *g, const struct comm_op *op)
{
    int64_t meeting = g->meeting, deadline = comm_deadline(g->timeout_s);
    bool late = false;
    while (g->meeting == meeting && g->failure.status == STATUS_OK) {
        if (late)
            fail_absent_locked(g, op);
        else
            late = !comm_condition_wait(&g->change, &g->lock, deadline);
    }
}

static enum status group_status(struct group *g)
{
    pthread_mutex_lock(&g->lock);
    enum status st = first_failure_return(&g->failure);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* A barrier: returns when every rank has called this function. */
static enum status meet(struct local *l, const struct comm_op *op)
{
    struct group *g = l->group;
    pthread_mutex_lock(&g->lock);
    g->came[l->base.rank] = true;
    if (++g->present == g->size && g->failure.status == STATUS_OK) {
        memset(g->came, 0, (size_t)g->size * sizeof *g->came);
        g->present = 0;
        g->meeting++;
        pthread_cond_broadcast(&g->change);
    } else {
        wait_for_others_locked(g, op);
    }
    enum status st = first_failure_return(&g->failure);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* --- the work between the two meetings --- */

/* Combines all ranks' values of elements [from, from + n) of `send` in rank order, and writes the
 * results to `out`. */
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

/* Reduces elements [from, to) of `send`. Writes the result, from element `at` on, to the `recv` of
 * the rank with the number `only`, or of all ranks if `only` is negative. */
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

/* Copies to this rank's `recv` all parts that it receives from other ranks. */
static void exchange_parts(const struct group *g, const struct comm *c, const struct comm_op *op)
{
    exchange_copy_own(op, g->size, c->rank);
    for (int r = 0; r < g->size && op->count > 0; r++)
        if (r != c->rank && exchange_sends(op, g->size, r, c->rank))
            memcpy(exchange_received(op, r), exchange_sent(&g->member[r].op, c->rank),
                   exchange_bytes(op));
}

static void make_slice(struct local *l, const struct comm_op *op)
{
    const struct group *g = l->group;
    int rank = l->base.rank;
    int64_t begin = comm_part_begin(op->count, g->size, rank);
    int64_t end = comm_part_begin(op->count, g->size, rank + 1);
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
    case COMM_BARRIER:
        break;
    default:
        exchange_parts(g, &l->base, op);
        break;
    }
}

/* Compares the operations of all ranks with rank 0's. Every rank does so, and therefore every rank
 * detects a difference. */
static enum status check_agreement(const struct group *g)
{
    struct comm_intent first = comm_intent_of(&g->member[0].op);
    for (int r = 1; r < g->size; r++) {
        struct comm_intent theirs = comm_intent_of(&g->member[r].op);
        TRY(comm_intent_check(r, &theirs, &first));
    }
    return STATUS_OK;
}

/* --- the functions in struct comm_calls --- */

static enum status local_run(struct comm *c, const struct comm_op *op)
{
    struct local *l = (struct local *)c;
    /* After a failure, l->op must stay unchanged, because slower ranks may still read it. */
    TRY(group_status(l->group));
    l->op = *op;
    TRY(meet(l, op));
    enum status st = check_agreement(l->group);
    if (st != STATUS_OK) {
        group_fail(l->group, st, status_message());
        return st;
    }
    make_slice(l, op);
    return meet(l, op);
}

static void local_fail(struct comm *c, enum status st, const char *message)
{
    char text[STATUS_MESSAGE_MAX];
    snprintf(text, sizeof text, "rank %d: %s", c->rank, message);
    group_fail(((struct local *)c)->group, st, text);
}

static void group_free(struct group *g)
{
    pthread_cond_destroy(&g->change);
    pthread_mutex_destroy(&g->lock);
    free(g->came);
    free(g->member);
    free(g);
}

/* The last rank that closes frees the memory of all ranks, because after a failure a rank may still
 * read the memory of another rank. */
static void local_close(struct comm *c)
{
    struct group *g = ((struct local *)c)->group;
    if (atomic_fetch_sub(&g->open, 1) == 1)
        group_free(g);
}

static enum status group_new(int size, double timeout_s, struct group **out)
{
    enum status st;
    struct group *g;
    TRY(array_new(&g, 1));
    comm_condition_init(&g->change);
    pthread_mutex_init(&g->lock, NULL);
    g->size = size;
    atomic_init(&g->open, size);
    g->timeout_s = timeout_s;
    CHECK(array_new(&g->came, size));
    CHECK(array_new(&g->member, size));
    *out = g;
    return STATUS_OK;
done:
    group_free(g);
    return st;
}

enum status comm_open_local(int size, double timeout_s, struct comm **c)
{
    static const struct comm_calls calls = {
        .name = "local", .run = local_run, .fail = local_fail, .close = local_close};
    struct group *g;
    if (size < 1)
        return status_fail(STATUS_INVALID, "a group cannot have %d ranks", size);
    TRY(group_new(size, timeout_s, &g));
    for (int r = 0; r < size; r++) {
        struct local *l = &g->member[r];
        l->base.calls = &calls;
        l->base.rank = r;
        l->base.size = size;
        l->group = g;
        c[r] = &l->base;
    }
    return STATUS_OK;
}
