/* The TCP communicator, which connects processes without MPI: every rank has a connection to rank
 * 0, through which all data passes. It is meant for few ranks and little data. Otherwise use
 * MPI, Gloo or NCCL.
 *
 * Before an operation each rank sends rank 0 its intent, which describes the operation, and rank 0
 * answers with a verdict. If intents differ or a rank has failed, the operation therefore fails on
 * all ranks with the same message. */
#include "comm/tcp.h"
#include "comm/exchange.h"
#include "comm/internal.h"
#include "comm/rendezvous.h"
#include "comm/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 << 10 };

struct tcp {
    struct comm base;
    double timeout_s;
    int *peer;           /* (size) sockets; see rendezvous_meet */
    char *sum, *scratch; /* PIECE_BYTES each */
    struct first_failure failure;
};

/* --- failures --- */

/* Stores `st` if it is the first failure; returns the first failure. */
static enum status fail_kept(struct tcp *t, enum status st)
{
    first_failure_keep(&t->failure, st);
    return first_failure_return(&t->failure);
}

enum status tcp_message_status(const struct tcp_message *m)
{
    bool known = m->st > STATUS_OK && m->st <= STATUS_LOST_RANK;
    return known ? (enum status)m->st : STATUS_LIBRARY;
}

static void keep_verdict(struct tcp *t, const struct tcp_message *v)
{
    if (v->st != STATUS_OK)
        comm_failure_keep(&t->failure, tcp_message_status(v), "%.*s", TCP_TEXT_MAX - 1, v->message);
}

static void set_verdict(struct tcp_message *v, enum status st, const char *message)
{
    v->st = (int32_t)st;
    snprintf(v->message, sizeof v->message, "%.*s", TCP_TEXT_MAX - 1, message);
}

/* `st` is the result of a transfer between this rank and `rank`. A failure in `st` fails `op`. */
static enum status check_moved(struct tcp *t, int rank, const struct comm_op *op, enum status st)
{
    char text[COMM_TEXT_MAX];
    if (st == STATUS_OK)
        return STATUS_OK;
    return fail_kept(t, status_context(STATUS_LOST_RANK, "the connection to rank %d was lost in %s",
                                       rank, comm_op_text(op, text)));
}

static enum status put(struct tcp *t, int rank, const struct comm_op *op, const void *data,
                       size_t bytes)
{
    return check_moved(t, rank, op, socket_put(t->peer[rank], data, bytes, t->timeout_s));
}

static enum status get(struct tcp *t, int rank, const struct comm_op *op, void *data, size_t bytes)
{
    return check_moved(t, rank, op, socket_get(t->peer[rank], data, bytes, t->timeout_s));
}

/* --- intents and verdicts --- */

/* On rank 0: checks rank r's intent `theirs`. Stores the first failure in the verdict, and ignores
 * later failures. */
static void add_intent(int r, const struct tcp_message *theirs, struct tcp_message *verdict)
{
    if (verdict->st != STATUS_OK)
        return;
    if (theirs->intent.kind == TCP_FAILED)
        *verdict = *theirs;
    else if (comm_intent_check(r, &theirs->intent, &verdict->intent) != STATUS_OK)
        set_verdict(verdict, STATUS_INVALID, status_message());
}

/* On rank 0: reads the intents of all ranks and sends all ranks the verdict. If a rank is lost,
 * continues with the next rank, because the other ranks must still receive the verdict. */
static void agree_as_first(struct tcp *t, const struct comm_op *op, struct tcp_message *verdict)
{
    struct tcp_message theirs;
    for (int r = 1; r < t->base.size; r++) {
        if (get(t, r, op, &theirs, sizeof theirs) == STATUS_OK)
            add_intent(r, &theirs, verdict);
        else if (verdict->st == STATUS_OK)
            set_verdict(verdict, t->failure.status, t->failure.message);
    }
    keep_verdict(t, verdict);
    for (int r = 1; r < t->base.size; r++)
        (void)(put(t, r, op, verdict, sizeof *verdict) ==
               STATUS_OK); /* the failure has been stored */
}

static enum status agree(struct tcp *t, const struct comm_op *op)
{
    struct tcp_message v = {.intent = comm_intent_of(op)};
    if (t->base.rank == 0) {
        agree_as_first(t, op, &v);
    } else {
        TRY(put(t, 0, op, &v, sizeof v));
        TRY(get(t, 0, op, &v, sizeof v));
        keep_verdict(t, &v);
    }
    return first_failure_return(&t->failure);
}

/* --- data --- */

/* Reduces elements [from, from + count) of `send` in rank order. Writes the result to `into` on the
 * rank with the number `only`, or on all ranks if `only` is negative. */
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

/* On rank 0: receives `bytes` bytes from one rank and sends them to another rank. */
static enum status relay(struct tcp *t, const struct comm_op *op, int from, int to, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        size_t n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        TRY(get(t, from, op, t->scratch, n));
        TRY(put(t, to, op, t->scratch, n));
    }
    return STATUS_OK;
}

/* Moves the part that rank `from` sends to rank `to`. */
static enum status move_part(struct tcp *t, const struct comm_op *op, int from, int to)
{
    size_t bytes = exchange_bytes(op);
    int rank = t->base.rank;
    if (rank == from)
        return put(t, rank == 0 ? to : 0, op, exchange_sent(op, to), bytes);
    if (rank == to)
        return get(t, rank == 0 ? from : 0, op, exchange_received(op, from), bytes);
    return rank == 0 ? relay(t, op, from, to, bytes) : STATUS_OK;
}

/* Moves all parts. Every rank handles the parts in the same order, which prevents a deadlock: no
 * rank waits for a part while the sender of that part waits for a later part. */
static enum status exchange_parts(struct tcp *t, const struct comm_op *op)
{
    int size = t->base.size;
    exchange_copy_own(op, size, t->base.rank);
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++)
            if (from != to && exchange_sends(op, size, from, to))
                TRY(move_part(t, op, from, to));
    return STATUS_OK;
}

/* --- the functions in struct comm_calls --- */

static enum status tcp_run(struct comm *c, const struct comm_op *op)
{
    struct tcp *t = (struct tcp *)c;
    TRY(first_failure_return(&t->failure));
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
    case COMM_BARRIER: /* the barrier is over, because all ranks have sent their intents */
        return STATUS_OK;
    default:
        return exchange_parts(t, op);
    }
}

/* --- messages outside of operations --- */

int tcp_socket(const struct comm *c, int rank)
{
    return ((const struct tcp *)c)->peer[rank];
}

enum status tcp_put(struct comm *c, int rank, const struct tcp_message *m)
{
    const struct tcp *t = (const struct tcp *)c;
    return socket_put(t->peer[rank], m, sizeof *m, t->timeout_s);
}

enum status tcp_get(struct comm *c, int rank, struct tcp_message *m)
{
    const struct tcp *t = (const struct tcp *)c;
    TRY(socket_get(t->peer[rank], m, sizeof *m, t->timeout_s));
    m->message[TCP_TEXT_MAX - 1] = '\0';
    return STATUS_OK;
}

void tcp_put_failure(struct comm *c, enum status st, const char *message)
{
    struct tcp_message failed = {.intent.kind = TCP_FAILED};
    set_verdict(&failed, st, message);
    /* A failure to send is ignored: a rank that cannot be reached detects the lost connection
     * itself. */
    for (int r = 0; r < c->size; r++)
        if (tcp_socket(c, r) >= 0)
            (void)(tcp_put(c, r, &failed) == STATUS_OK);
}

/* Sends the failure to rank 0 in place of this rank's next intent. Rank 0 sends it to the other
 * ranks. */
static void tcp_fail(struct comm *c, enum status st, const char *message)
{
    struct tcp *t = (struct tcp *)c;
    if (t->failure.status != STATUS_OK)
        return;
    comm_failure_keep(&t->failure, st, "rank %d: %s", c->rank, message);
    tcp_put_failure(c, st, t->failure.message);
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

static enum status connect_ranks(const struct comm_tcp_config *config, int *peer)
{
    struct secret secret;
    enum status st;
    for (int r = 0; r < config->size; r++)
        peer[r] = -1;
    CHECK(secret_read(config->secret_file, &secret));
    const struct rendezvous_config c = {.address = config->address,
                                        .rank = config->rank,
                                        .size = config->size,
                                        .timeout_s = config->timeout_s,
                                        .job = config->job ? config->job : "",
                                        .secret = &secret,
                                        .insecure = config->insecure};
    CHECK(rendezvous_meet(&c, peer));
done:
    secret_clear(&secret);
    return st;
}

enum status comm_open_tcp(const struct comm_tcp_config *config, struct comm **c)
{
    static const struct comm_calls calls = {
        .name = "tcp", .run = tcp_run, .fail = tcp_fail, .close = tcp_close};
    enum status st;
    struct tcp *t;
    *c = NULL;
    TRY(array_new(&t, 1));
    t->base.calls = &calls;
    t->base.rank = config->rank;
    t->base.size = config->size;
    t->timeout_s = config->timeout_s;
    CHECK(array_new(&t->sum, PIECE_BYTES));
    CHECK(array_new(&t->scratch, PIECE_BYTES));
    CHECK(array_new(&t->peer, config->size));
    CHECK(connect_ranks(config, t->peer));
    *c = &t->base;
    return STATUS_OK;
done:
    tcp_close(&t->base);
    return st;
}
