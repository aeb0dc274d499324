/* The communicators between threads: of one process (local), and of several processes (joint).
 *
 * The ranks of a local group read and write each other's buffers directly. Every operation has two
 * internal barriers, called meetings. Before the first, each rank publishes its buffers. Between
 * them, each rank computes one slice of the result, which no other rank uses, and writes it to all
 * ranks that receive it. If one rank fails or is late, the meeting fails on all ranks. */
#include "comm/exchange.h"
#include "comm/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 }; /* that are reduced at a time; they fit into the L1 cache */

struct group {
    pthread_mutex_t lock; /* guards the group, except `member` */
    pthread_cond_t change;
    int size;
    atomic_int open; /* number of communicators that are not yet closed */
    double timeout_s;
    int64_t meeting; /* number of completed meetings */
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

/* --- meetings --- */

static void group_fail(struct group *g, enum status st, const char *message)
{
    pthread_mutex_lock(&g->lock);
    comm_failure_keep(&g->failure, st, "%s", message);
    pthread_cond_broadcast(&g->change);
    pthread_mutex_unlock(&g->lock);
}

/* A barrier: returns when every rank has called this function. */
static enum status meet(struct group *g, int rank, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX];
    bool late = false;
    pthread_mutex_lock(&g->lock);
    int64_t meeting = g->meeting, deadline = comm_deadline(g->timeout_s);
    g->came[rank] = true;
    if (!memchr(g->came, false, (size_t)g->size) && g->failure.status == STATUS_OK) {
        memset(g->came, false, (size_t)g->size);
        g->meeting++;
        pthread_cond_broadcast(&g->change);
    }
    while (g->meeting == meeting && g->failure.status == STATUS_OK) {
        const bool *absent = memchr(g->came, false, (size_t)g->size);
        if (late) {
            comm_failure_keep(&g->failure, STATUS_LOST_RANK, "rank %d did not reach %s within %g s",
                              (int)(absent - g->came), comm_op_text(op, text), g->timeout_s);
            pthread_cond_broadcast(&g->change);
        }
        late = !late && !comm_condition_wait(&g->change, &g->lock, deadline);
    }
    enum status st = first_failure_return(&g->failure);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* --- the work between the two meetings --- */

/* Reduces elements [from, to) of all ranks' `send` in rank order. Writes the result, from element
 * `at` on, to the `recv` of rank `only`, or of all ranks if `only` is negative. */
static void reduce_range(const struct group *g, const struct comm_op *op, int64_t from, int64_t to,
                         int64_t at, int only)
{
    _Alignas(64) char block[BLOCK_BYTES];
    size_t element = dtype_size(op->type);
    int64_t step = BLOCK_BYTES / (int64_t)element;
    for (int64_t i = from; i < to; i += step) {
        int64_t n = to - i < step ? to - i : step;
        const char *first = (const char *)g->member[0].op.send + (size_t)i * element;
        for (int r = 1; r < g->size; r++)
            comm_reduce(op->type, op->reduction, block, r == 1 ? first : block,
                        (const char *)g->member[r].op.send + (size_t)i * element, n);
        for (int r = 0; r < g->size; r++)
            if (only < 0 || r == only)
                memcpy((char *)g->member[r].op.recv + (size_t)(at + i - from) * element, block,
                       (size_t)n * element);
    }
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memcpy(to, from, bytes);
}

static void make_slice(const struct group *g, const struct comm *c, const struct comm_op *op)
{
    int64_t n = op->count, begin = n * c->rank / g->size, end = n * (c->rank + 1) / g->size;
    if (op->kind == COMM_REDUCE_SCATTER)
        reduce_range(g, op, c->rank * n, (c->rank + 1) * n, 0, c->rank);
    else if (comm_reduces(op->kind))
        reduce_range(g, op, begin, end, begin, op->kind == COMM_REDUCE ? op->root : -1);
    else if (op->kind == COMM_BROADCAST)
        copy(op->recv, g->member[op->root].op.recv, comm_recv_bytes(c, op));
    else
        for (int r = 0; r < g->size && op->kind != COMM_BARRIER; r++)
            if (exchange_sends(op, g->size, r, c->rank))
                copy(exchange_received(op, r), exchange_sent(&g->member[r].op, c->rank),
                     exchange_bytes(op));
}

/* --- the functions in struct comm_calls --- */

static enum status local_run(struct comm *c, const struct comm_op *op)
{
    struct local *l = (struct local *)c;
    struct group *g = l->group;
    /* After a failure, l->op must stay unchanged, because slower ranks may still read it. */
    pthread_mutex_lock(&g->lock);
    enum status st = first_failure_return(&g->failure);
    pthread_mutex_unlock(&g->lock);
    if (st != STATUS_OK || g->size == 1)
        return st == STATUS_OK ? comm_copy_alone(c, op) : st;
    l->op = *op;
    TRY(meet(g, c->rank, op));
    /* Every rank compares all operations with rank 0's, so that every rank detects a difference. */
    struct comm_intent first = comm_intent_of(&g->member[0].op);
    for (int r = 1; r < g->size && st == STATUS_OK; r++) {
        struct comm_intent theirs = comm_intent_of(&g->member[r].op);
        st = comm_intent_check(r, &theirs, &first);
    }
    if (st != STATUS_OK) {
        group_fail(g, st, status_message());
        return st;
    }
    make_slice(g, c, op);
    return meet(g, c->rank, op);
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

enum status comm_open_local(int size, double timeout_s, struct comm **c)
{
    static const struct comm_calls calls = {
        .name = "local", .run = local_run, .fail = local_fail, .close = local_close};
    enum status st;
    struct group *g;
    if (size < 1)
        return status_fail(STATUS_INVALID, "a group cannot have %d ranks", size);
    TRY(array_new(&g, 1));
    pthread_cond_init(&g->change, NULL);
    pthread_mutex_init(&g->lock, NULL);
    g->size = size;
    atomic_init(&g->open, size);
    g->timeout_s = timeout_s;
    CHECK(array_new(&g->came, size));
    CHECK(array_new(&g->member, size));
    for (int r = 0; r < size; r++) {
        g->member[r].group = g;
        c[r] = &g->member[r].base;
        c[r]->calls = &calls;
        c[r]->rank = r;
        c[r]->size = size;
    }
    return STATUS_OK;
done:
    group_free(g);
    return st;
}

/* --- threads of several processes --- */

struct joint {
    struct comm base;
    struct comm *within, *between; /* see comm_open_joint */
};

/* Carries out a step of `whole` on `c`: a barrier if `whole` is one, else one of kind `kind`. */
static enum status run_step(struct comm *c, const struct comm_op *whole, enum comm_kind kind)
{
    struct comm_op op = *whole;
    op.handle = 0;
    op.root = 0;
    op.kind = whole->kind == COMM_BARRIER ? COMM_BARRIER : kind;
    return comm_run(c, &op);
}

/* Each process reduces the values of its threads to its first thread, the first threads add these
 * results, and each broadcasts the sum within its process. */
static enum status joint_run(struct comm *c, const struct comm_op *op)
{
    struct joint *j = (struct joint *)c;
    struct comm_op sum = *op;
    if (op->kind != COMM_ALLREDUCE && op->kind != COMM_BARRIER)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: not available when threads of several processes are the ranks",
                           comm_kind_str(op->kind));
    if (sum.reduction == COMM_AVG) /* comm.c divides the sum */
        sum.reduction = COMM_SUM;
    TRY(run_step(j->within, &sum, COMM_REDUCE));
    sum.send = sum.recv;
    if (comm_rank(j->within) == 0)
        TRY(run_step(j->between, &sum, COMM_ALLREDUCE));
    return run_step(j->within, &sum, COMM_BROADCAST);
}

static void joint_fail(struct comm *c, enum status st, const char *message)
{
    comm_fail(((struct joint *)c)->within, st, message);
}

enum status comm_open_joint(struct comm *within, struct comm *between, struct comm **c)
{
    static const struct comm_calls calls = {.name = "joint", .run = joint_run, .fail = joint_fail};
    struct joint *j;
    *c = NULL;
    TRY(array_new(&j, 1));
    j->base.calls = &calls;
    j->base.rank = comm_rank(between) * comm_size(within) + comm_rank(within);
    j->base.size = comm_size(between) * comm_size(within);
    j->within = within;
    j->between = between;
    *c = &j->base;
    return STATUS_OK;
}
