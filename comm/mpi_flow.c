/* Moves the data of one operation.
 *
 * A small operation is one MPI call that only moves bytes: for a reduction, the call gathers the
 * ranks' values, and this file combines them in rank order. A large operation is a flow of items
 * around the ring of ranks: each rank receives items from the previous rank and sends items to the
 * next rank, with up to FLOW_WINDOW messages posted ahead.
 *
 *   allreduce       the vector is cut into as many parts as there are ranks. In size - 1 steps each
 *                   part is reduced along the ring; size - 1 further steps distribute the results
 *                   (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters
 *                   of workstations", JPDC 69, 2009). Each rank sends and receives
 *                   2 (size - 1) / size of the vector, which is the minimum.
 *   reduce-scatter  the first half of an allreduce
 *   allgather       the second half of an allreduce
 *   reduce          items move along the chain of ranks that ends at root
 *   broadcast       items move along the chain of ranks that begins at root
 *   exchanges       in step k a rank sends a part to the k-th rank after it and receives a part
 *                   from the k-th rank before it
 *
 * A part is sent in segments; an item is one segment in one step. MPI's own reductions are not
 * used: their recursive doubling adds in another order on each rank, so that NaNs differ between
 * ranks, and their algorithm depends on the library's version. Here each element is reduced once,
 * in an order that depends only on size and count, and the result is then copied. */
#include "comm/exchange.h"
#include "comm/mpi_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEGMENT_BYTES = 256 << 10, /* a multiple of every element's size */
    /* number of segments of a part that a reduce-scatter moves at a time */
    PART_SEGMENTS = 8,
    SCRATCH_SEGMENTS = PART_SEGMENTS + FLOW_WINDOW,
    SMALL_BYTES = 64 << 10, /* one MPI call moves at most this many bytes, over all ranks
                             * together */
    TAGS = 16384, /* number of tags for operations; every MPI library allows twice as many */
};
static const int64_t UNLIMITED = INT64_MAX / 2; /* value of `lag` or `hold` that means no limit */

enum status flow_open(struct flow *f)
{
    return array_new(&f->scratch, SCRATCH_SEGMENTS * SEGMENT_BYTES);
}

void flow_close(struct flow *f)
{
    free(f->scratch);
}

/* --- operations in one MPI call --- */

/* Whether one MPI call moves the whole operation. All ranks reach the same decision. */
static bool is_small(const struct mpi *m, const struct comm_op *op)
{
    if (exchange_is(op->kind))
        return false;
    int64_t parts = op->kind == COMM_BROADCAST ? 1 : m->base.size;
    return op->count <= SMALL_BYTES / (int64_t)dtype_size(op->type) / parts;
}

static enum status begin_single(struct mpi *m, struct flow *f)
{
    const struct comm_op *op = &f->slot->op;
    int bytes = (int)op->count * (int)dtype_size(op->type);
    switch (op->kind) {
    case COMM_ALLREDUCE:
        return MPI_CALL(MPI_Iallgather, op->send, bytes, MPI_BYTE, f->scratch, bytes, MPI_BYTE,
                        m->data, &f->request);
    case COMM_REDUCE:
        return MPI_CALL(MPI_Igather, op->send, bytes, MPI_BYTE, f->scratch, bytes, MPI_BYTE,
                        op->root, m->data, &f->request);
    case COMM_REDUCE_SCATTER:
        return MPI_CALL(MPI_Ialltoall, op->send, bytes, MPI_BYTE, f->scratch, bytes, MPI_BYTE,
                        m->data, &f->request);
    case COMM_ALLGATHER: {
        /* MPI requires MPI_IN_PLACE where send is a part of recv. */
        bool own = op->send == (char *)op->recv + (size_t)m->base.rank * (size_t)bytes;
        return MPI_CALL(MPI_Iallgather, own ? MPI_IN_PLACE : op->send, bytes, MPI_BYTE, op->recv,
                        bytes, MPI_BYTE, m->data, &f->request);
    }
    case COMM_BROADCAST:
        return MPI_CALL(MPI_Ibcast, op->recv, bytes, MPI_BYTE, op->root, m->data, &f->request);
    default:
        return MPI_CALL(MPI_Ibarrier, m->data, &f->request);
    }
}

/* Reduces the values gathered in scratch into `recv`. */
static void finish_single(struct mpi *m, struct flow *f)
{
    const struct comm_op *op = &f->slot->op;
    bool reduces = op->kind == COMM_ALLREDUCE || op->kind == COMM_REDUCE_SCATTER ||
                   (op->kind == COMM_REDUCE && op->root == m->base.rank);
    size_t bytes = (size_t)op->count * dtype_size(op->type);
    for (int r = 1; reduces && r < m->base.size; r++)
        comm_reduce(op->type, op->reduction, op->recv, r == 1 ? f->scratch : op->recv,
                    f->scratch + (size_t)r * bytes, op->count);
}

static enum status move_single(struct mpi *m, struct flow *f, bool *moved, bool *over)
{
    int flag = 0;
    TRY(MPI_CALL(MPI_Test, &f->request, &flag, MPI_STATUS_IGNORE));
    if (!flag)
        return STATUS_OK;
    finish_single(m, f);
    *moved = *over = true;
    return f->slot->op.handle == m->divide ? mpi_regroup(m) : STATUS_OK;
}

/* --- operations as flows of items --- */

/* Elements [from, from + count) of `send` or `recv`. */
struct range {
    int64_t from, count;
};

static bool is_ring(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE_SCATTER || kind == COMM_ALLGATHER;
}

/* Counts the steps of an exchange in which this rank sends a part (receives a part if `back` is 1),
 * and sets *first to the first of these steps. The steps are consecutive. */
static int64_t exchange_steps(const struct mpi *m, const struct comm_op *op, int back,
                              int64_t *first)
{
    int size = m->base.size, rank = m->base.rank;
    int64_t steps = 0;
    for (int k = size - 1; k > 0; k--)
        if (back ? exchange_sends(op, size, (rank + size - k) % size, rank)
                 : exchange_sends(op, size, rank, (rank + k) % size)) {
            *first = k;
            steps++;
        }
    return steps;
}

/* Returns the rank to which item t is sent or, if `back` is 1, from which it is received. */
static int peer_of(const struct mpi *m, const struct flow *f, int64_t t, int back)
{
    int size = m->base.size, step = 1;
    if (exchange_is(f->slot->op.kind))
        step = (int)(f->first_step[back] + t / f->segments);
    return (m->base.rank + (back ? size - step : step)) % size;
}

static int64_t segment_elements(const struct comm_op *op)
{
    return SEGMENT_BYTES / (int64_t)dtype_size(op->type);
}

/* Returns the elements of segment `segment` of part `part`. The parts of an allreduce differ in
 * length by at most one element, so the last segment of a part may be empty. */
static struct range segment_of(const struct mpi *m, const struct flow *f, int64_t part,
                               int64_t segment)
{
    const struct comm_op *op = &f->slot->op;
    int64_t step = segment_elements(op), begin, end;
    if (op->kind == COMM_ALLREDUCE) {
        begin = comm_part_begin(op->count, m->base.size, part);
        end = comm_part_begin(op->count, m->base.size, part + 1);
    } else {
        begin = part * op->count + f->begin;
        end = begin + f->length;
    }
    struct range r = {begin + segment * step, end - begin - segment * step};
    if (r.count > step)
        r.count = step;
    return r;
}

/* Returns the elements that this rank sends as item t (`back` is 0) or receives as item t (`back`
 * is 1). In each step a rank sends the part that it received in the previous step. A reduce-scatter
 * begins one part earlier: the last part that a rank receives is then its own part. */
static struct range range_of(const struct mpi *m, const struct flow *f, int64_t t, int back)
{
    const struct comm_op *op = &f->slot->op;
    if (!is_ring(op->kind)) /* in an exchange, each part has its own segments */
        return segment_of(m, f, 0, exchange_is(op->kind) ? t % f->segments : t);
    int64_t shift = op->kind == COMM_REDUCE_SCATTER ? 1 : 0;
    int64_t part = (m->base.rank - t / f->segments - shift - back) % m->base.size;
    return segment_of(m, f, part < 0 ? part + m->base.size : part, t % f->segments);
}

/* Whether this rank combines the received item t with its own values. If not, it receives the item
 * directly into `recv`. */
static bool is_added(const struct mpi *m, const struct flow *f, int64_t t)
{
    switch (f->slot->op.kind) {
    case COMM_ALLREDUCE:
        return t < (m->base.size - 1) * f->segments;
    case COMM_REDUCE:
    case COMM_REDUCE_SCATTER:
        return true;
    default:
        return false;
    }
}

static char *scratch_of(const struct flow *f, int64_t t)
{
    return f->scratch + t % SCRATCH_SEGMENTS * SEGMENT_BYTES;
}

static const void *sent_from(const struct mpi *m, const struct flow *f, int64_t t)
{
    const struct comm_op *op = &f->slot->op;
    size_t offset = (size_t)range_of(m, f, t, 0).from * dtype_size(op->type);
    if (exchange_is(op->kind))
        return exchange_sent(op, peer_of(m, f, t, 0)) + offset;
    bool own = f->lag == UNLIMITED || (is_ring(op->kind) && t < f->segments);
    if (own && is_added(m, f, t))
        return (const char *)op->send + offset;
    if (op->kind == COMM_REDUCE || op->kind == COMM_REDUCE_SCATTER)
        return scratch_of(f, t - f->lag);
    return (const char *)op->recv + offset;
}

static void *received_into(const struct mpi *m, const struct flow *f, int64_t t)
{
    const struct comm_op *op = &f->slot->op;
    if (is_added(m, f, t))
        return scratch_of(f, t);
    char *recv = exchange_is(op->kind) ? exchange_received(op, peer_of(m, f, t, 1)) : op->recv;
    return recv + (size_t)range_of(m, f, t, 1).from * dtype_size(op->type);
}

/* Returns where the reduction of item t with this rank's values is written: `recv` in an allreduce
 * and for a final result, else scratch, where the result overwrites the received item. */
static void *added_into(const struct mpi *m, const struct flow *f, int64_t t, struct range r)
{
    const struct comm_op *op = &f->slot->op;
    bool final = op->kind == COMM_ALLREDUCE || (op->kind == COMM_REDUCE && f->send_items == 0);
    size_t element = dtype_size(op->type);
    if (final)
        return (char *)op->recv + (size_t)r.from * element;
    if (op->kind == COMM_REDUCE_SCATTER && t >= (m->base.size - 2) * f->segments)
        return (char *)op->recv + (size_t)(r.from - m->base.rank * op->count) * element;
    return scratch_of(f, t);
}

static void add_item(const struct mpi *m, const struct flow *f, int64_t t)
{
    const struct comm_op *op = &f->slot->op;
    struct range r = range_of(m, f, t, 1);
    if (!is_added(m, f, t) || r.count <= 0)
        return;
    const char *own = (const char *)op->send + (size_t)r.from * dtype_size(op->type);
    comm_reduce(op->type, op->reduction, added_into(m, f, t, r), scratch_of(f, t), own, r.count);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Prepares `f` to move the elements [begin, begin + length) of each part, divided into items. */
static void set_items(struct mpi *m, struct flow *f, int64_t begin, int64_t length)
{
    const struct comm_op *op = &f->slot->op;
    int64_t size = m->base.size, step = segment_elements(op);
    int64_t part = op->kind == COMM_ALLREDUCE ? (op->count + size - 1) / size : length;
    f->begin = begin;
    f->length = length;
    f->segments = (part + step - 1) / step;
    f->sent = f->received = f->send_posted = f->receive_posted = 0;
    f->hold = UNLIMITED;
    if (is_ring(op->kind)) {
        f->send_items = (op->kind == COMM_ALLREDUCE ? 2 : 1) * (size - 1) * f->segments;
        f->receive_items = f->send_items;
        f->lag = f->segments;
        if (op->kind == COMM_ALLREDUCE) /* A received result overwrites a part of `recv`. That part
                                           must have been sent before. */
            f->hold = (size - 1) * f->segments;
        else if (op->kind == COMM_REDUCE_SCATTER) /* an item is in scratch until it is sent */
            f->hold = SCRATCH_SEGMENTS - f->segments;
        return;
    }
    if (exchange_is(op->kind)) { /* items of an exchange do not depend on each other */
        f->lag = UNLIMITED;
        f->send_items = exchange_steps(m, op, 0, &f->first_step[0]) * f->segments;
        f->receive_items = exchange_steps(m, op, 1, &f->first_step[1]) * f->segments;
        return;
    }
    int64_t first = op->kind == COMM_BROADCAST ? op->root : (op->root + 1) % size;
    int64_t place = (m->base.rank - first + size) % size;
    f->receive_items = place == 0 ? 0 : f->segments;
    f->send_items = place == size - 1 ? 0 : f->segments;
    f->lag = place == 0 ? UNLIMITED : 0;
    if (op->kind == COMM_REDUCE && f->send_items > 0)
        f->hold = SCRATCH_SEGMENTS;
}

static void begin_flow(struct mpi *m, struct flow *f)
{
    const struct comm_op *op = &f->slot->op;
    if (exchange_is(op->kind))
        exchange_copy_own(op, m->base.size, m->base.rank);
    if (op->kind == COMM_ALLGATHER) {
        size_t bytes = comm_send_bytes(&m->base, op);
        char *own = (char *)op->recv + (size_t)m->base.rank * bytes;
        if (own != op->send)
            memcpy(own, op->send, bytes);
    }
    int64_t all = op->kind == COMM_REDUCE_SCATTER
                      ? least(op->count, PART_SEGMENTS * segment_elements(op))
                      : op->count;
    set_items(m, f, 0, all);
}

/* Counts the items that have been received and sent, in their order. Reduces each received item
 * that needs a reduction. */
static enum status end_items(struct mpi *m, struct flow *f, bool *moved)
{
    int flag = 1;
    while (f->received < f->receive_posted) {
        TRY(MPI_CALL(MPI_Test, &f->receive[f->received % FLOW_WINDOW], &flag, MPI_STATUS_IGNORE));
        if (!flag)
            break;
        add_item(m, f, f->received++);
        *moved = true;
    }
    while (f->sent < f->send_posted) {
        TRY(MPI_CALL(MPI_Test, &f->send[f->sent % FLOW_WINDOW], &flag, MPI_STATUS_IGNORE));
        if (!flag)
            break;
        f->sent++;
        *moved = true;
    }
    return STATUS_OK;
}

static int message_bytes(const struct flow *f, struct range r)
{
    return r.count > 0 ? (int)r.count * (int)dtype_size(f->slot->op.type) : 0;
}

static enum status post_items(struct mpi *m, struct flow *f)
{
    int tag = (int)(f->slot->op.handle % TAGS);
    while (f->receive_posted < f->receive_items && f->receive_posted < f->received + FLOW_WINDOW &&
           f->receive_posted - f->hold < f->sent) {
        int64_t t = f->receive_posted++;
        TRY(MPI_CALL(MPI_Irecv, received_into(m, f, t), message_bytes(f, range_of(m, f, t, 1)),
                     MPI_BYTE, peer_of(m, f, t, 1), tag, m->data, &f->receive[t % FLOW_WINDOW]));
    }
    while (f->send_posted < f->send_items && f->send_posted < f->sent + FLOW_WINDOW &&
           f->send_posted - f->lag < f->received) {
        int64_t t = f->send_posted++;
        TRY(MPI_CALL(MPI_Isend, sent_from(m, f, t), message_bytes(f, range_of(m, f, t, 0)),
                     MPI_BYTE, peer_of(m, f, t, 0), tag, m->data, &f->send[t % FLOW_WINDOW]));
    }
    return STATUS_OK;
}

static enum status move_flow(struct mpi *m, struct flow *f, bool *moved, bool *over)
{
    TRY(end_items(m, f, moved));
    if (f->sent == f->send_items && f->received == f->receive_items) {
        int64_t begin = f->begin + f->length, left = f->slot->op.count - begin;
        *over = left == 0;
        if (!*over)
            set_items(m, f, begin, least(left, f->length));
    }
    return *over ? STATUS_OK : post_items(m, f);
}

/* --- all operations --- */

enum status flow_begin(struct mpi *m, struct flow *f, struct comm_slot *slot)
{
    f->slot = slot;
    f->request = MPI_REQUEST_NULL;
    if (slot->op.handle == m->divide) {
        f->single = true;
        return MPI_CALL(MPI_Ibarrier, m->whole, &f->request);
    }
    f->single = m->base.size == 1 || slot->op.kind == COMM_BARRIER || is_small(m, &slot->op);
    if (m->base.size == 1)
        comm_copy_alone(&m->base, &slot->op); /* the request stays MPI_REQUEST_NULL, which MPI_Test
                                               * reports as complete */
    else if (f->single)
        return begin_single(m, f);
    else
        begin_flow(m, f);
    return STATUS_OK;
}

enum status flow_move(struct mpi *m, struct flow *f, bool *moved, bool *over)
{
    *over = false;
    return f->single ? move_single(m, f, moved, over) : move_flow(m, f, moved, over);
}
