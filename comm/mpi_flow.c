/* How one operation moves.
 *
 * Small ones are a single call of the library's that only moves bytes; a reduction gathers the
 * ranks' values and combines them itself, in rank order. Large ones are flows of items around the
 * ring of ranks: each rank receives items from the rank before it and sends items to the rank after
 * it, FLOW_WINDOW of them posted ahead.
 *
 *   allreduce       the vector is cut in as many parts as there are ranks. Size - 1 steps reduce
 *                   each part along the ring, size - 1 more hand the results round (P. Patarasuk,
 *                   X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 *                   workstations", JPDC 69, 2009): 2 (size - 1) / size of the vector per rank and
 *                   direction, the least possible.
 *   reduce-scatter  the first half, allgather the second.
 *   reduce          along the chain that ends at root; broadcast: along the one that begins there.
 *
 * A part is sent in segments; an item is a segment in a step. The library's own reductions are not
 * used: recursive doubling adds in another order on each rank, which NaNs show, and what a library
 * chooses depends on its version. Here each element is reduced once, in an order that depends on
 * size and count alone, and then copied. */
#include "comm/mpi_internal.h"
#include "comm/reduce.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEGMENT_BYTES = 256 << 10, /* a multiple of every element's size */
    PART_SEGMENTS = 8,         /* of a part of a reduce-scatter in motion */
    SCRATCH_SEGMENTS = PART_SEGMENTS + FLOW_WINDOW,
    SMALL_BYTES = 64 << 10, /* of all ranks together: what the library's call moves */
    TAGS = 16384,           /* operations that messages can tell apart; every MPI allows twice it */
};
static const int64_t NEVER_MATTERS = INT64_MAX / 2; /* as a lag or a hold */

enum status flow_open(struct flow *f)
{
    f->scratch = malloc((size_t)SCRATCH_SEGMENTS * SEGMENT_BYTES);
    return f->scratch ? STATUS_OK : status_fail(STATUS_OOM, "out of memory");
}

void flow_close(struct flow *f)
{
    free(f->scratch);
}

/* --- one call --- */

/* The same on every rank. */
static bool is_small(const struct mpi *m, const struct comm_op *op)
{
    int64_t parts = op->kind == COMM_BROADCAST ? 1 : m->base.size;
    return op->count <= SMALL_BYTES / (int64_t)dtype_size(op->type) / parts;
}

static enum status begin_single(struct mpi *m, struct flow *f)
{
    const struct comm_op *op = &f->slot->op;
    int bytes = (int)op->count * (int)dtype_size(op->type);
    switch (op->kind) {
    case COMM_ALLREDUCE:
        return mpi_status(MPI_Iallgather(op->send, bytes, MPI_BYTE, f->scratch, bytes, MPI_BYTE,
                                         m->data, &f->request),
                          "MPI_Iallgather");
    case COMM_REDUCE:
        return mpi_status(MPI_Igather(op->send, bytes, MPI_BYTE, f->scratch, bytes, MPI_BYTE,
                                      op->root, m->data, &f->request),
                          "MPI_Igather");
    case COMM_REDUCE_SCATTER:
        return mpi_status(MPI_Ialltoall(op->send, bytes, MPI_BYTE, f->scratch, bytes, MPI_BYTE,
                                        m->data, &f->request),
                          "MPI_Ialltoall");
    case COMM_ALLGATHER: {
        /* The library wants to be told when send is a part of recv. */
        bool own = op->send == (char *)op->recv + (size_t)m->base.rank * (size_t)bytes;
        return mpi_status(MPI_Iallgather(own ? MPI_IN_PLACE : op->send, bytes, MPI_BYTE, op->recv,
                                         bytes, MPI_BYTE, m->data, &f->request),
                          "MPI_Iallgather");
    }
    case COMM_BROADCAST:
        return mpi_status(MPI_Ibcast(op->recv, bytes, MPI_BYTE, op->root, m->data, &f->request),
                          "MPI_Ibcast");
    default:
        return mpi_status(MPI_Ibarrier(m->data, &f->request), "MPI_Ibarrier");
    }
}

/* What has been gathered in scratch is reduced into recv. */
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
    TRY(mpi_status(MPI_Test(&f->request, &flag, MPI_STATUS_IGNORE), "MPI_Test"));
    if (!flag)
        return STATUS_OK;
    finish_single(m, f);
    *moved = *over = true;
    return f->slot->op.handle == m->divide ? mpi_regroup(m) : STATUS_OK;
}

/* --- flows --- */

/* Elements [from, from + count) of a vector of send's or recv's. */
struct range {
    int64_t from, count;
};

static bool is_ring(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE_SCATTER || kind == COMM_ALLGATHER;
}

static int64_t segment_elements(const struct comm_op *op)
{
    return SEGMENT_BYTES / (int64_t)dtype_size(op->type);
}

/* Where part `part` of an allreduce's vector begins. */
static int64_t part_begin(int64_t count, int64_t parts, int64_t part)
{
    return count / parts * part + (count % parts < part ? count % parts : part);
}

/* Segment `segment` of part `part`; parts differ by an element at most, so that the last segment
 * may be empty in some. */
static struct range segment_of(const struct mpi *m, const struct flow *f, int64_t part,
                               int64_t segment)
{
    const struct comm_op *op = &f->slot->op;
    int64_t step = segment_elements(op), begin, end;
    if (op->kind == COMM_ALLREDUCE) {
        begin = part_begin(op->count, m->base.size, part);
        end = part_begin(op->count, m->base.size, part + 1);
    } else {
        begin = part * op->count + f->begin;
        end = begin + f->length;
    }
    struct range r = {begin + segment * step, end - begin - segment * step};
    if (r.count > step)
        r.count = step;
    return r;
}

/* What item t sends, or receives if `back` is 1: in each step a rank passes on the part that it
 * received in the step before. A reduce-scatter begins one part earlier, so that this rank's part
 * is the last. */
static struct range range_of(const struct mpi *m, const struct flow *f, int64_t t, int back)
{
    const struct comm_op *op = &f->slot->op;
    if (!is_ring(op->kind))
        return segment_of(m, f, 0, t);
    int64_t shift = op->kind == COMM_REDUCE_SCATTER ? 1 : 0;
    int64_t part = (m->base.rank - t / f->segments - shift - back) % m->base.size;
    return segment_of(m, f, part < 0 ? part + m->base.size : part, t % f->segments);
}

/* Does item t come to be added to what is here, rather than to be kept as it is? */
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
    bool own = f->lag == NEVER_MATTERS || (is_ring(op->kind) && t < f->segments);
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
    return (char *)op->recv + (size_t)range_of(m, f, t, 1).from * dtype_size(op->type);
}

/* Where the sum of item t and what is here is to be: in recv when it is final or has room there,
 * else where the item lies. */
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
    const char *here = (const char *)op->send + (size_t)r.from * dtype_size(op->type);
    comm_reduce(op->type, op->reduction, added_into(m, f, t, r), scratch_of(f, t), here, r.count);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The items of elements [begin, begin + length) of each part. */
static void set_items(struct mpi *m, struct flow *f, int64_t begin, int64_t length)
{
    const struct comm_op *op = &f->slot->op;
    int64_t size = m->base.size, step = segment_elements(op);
    int64_t part = op->kind == COMM_ALLREDUCE ? (op->count + size - 1) / size : length;
    f->begin = begin;
    f->length = length;
    f->segments = (part + step - 1) / step;
    f->sent = f->received = f->send_posted = f->receive_posted = 0;
    f->hold = NEVER_MATTERS;
    if (is_ring(op->kind)) {
        f->send_items = (op->kind == COMM_ALLREDUCE ? 2 : 1) * (size - 1) * f->segments;
        f->receive_items = f->send_items;
        f->lag = f->segments;
        if (op->kind == COMM_ALLREDUCE) /* a result comes to where a part was sent from */
            f->hold = (size - 1) * f->segments;
        else if (op->kind == COMM_REDUCE_SCATTER) /* an item stays in scratch until it is sent */
            f->hold = SCRATCH_SEGMENTS - f->segments;
        return;
    }
    int64_t first = op->kind == COMM_BROADCAST ? op->root : (op->root + 1) % size;
    int64_t place = (m->base.rank - first + size) % size;
    f->receive_items = place == 0 ? 0 : f->segments;
    f->send_items = place == size - 1 ? 0 : f->segments;
    f->lag = place == 0 ? NEVER_MATTERS : 0;
    if (op->kind == COMM_REDUCE && f->send_items > 0)
        f->hold = SCRATCH_SEGMENTS;
}

static void begin_flow(struct mpi *m, struct flow *f)
{
    const struct comm_op *op = &f->slot->op;
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

/* Notes the items at the front that have gone or come. */
static enum status end_items(struct mpi *m, struct flow *f, bool *moved)
{
    int flag = 1;
    while (f->received < f->receive_posted) {
        TRY(mpi_status(MPI_Test(&f->receive[f->received % FLOW_WINDOW], &flag, MPI_STATUS_IGNORE),
                       "MPI_Test"));
        if (!flag)
            break;
        add_item(m, f, f->received++);
        *moved = true;
    }
    while (f->sent < f->send_posted) {
        TRY(mpi_status(MPI_Test(&f->send[f->sent % FLOW_WINDOW], &flag, MPI_STATUS_IGNORE),
                       "MPI_Test"));
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
    int size = m->base.size, tag = (int)(f->slot->op.handle % TAGS);
    int next = (m->base.rank + 1) % size, previous = (m->base.rank + size - 1) % size;
    while (f->receive_posted < f->receive_items && f->receive_posted < f->received + FLOW_WINDOW &&
           f->receive_posted - f->hold < f->sent) {
        int64_t t = f->receive_posted++;
        TRY(mpi_status(MPI_Irecv(received_into(m, f, t), message_bytes(f, range_of(m, f, t, 1)),
                                 MPI_BYTE, previous, tag, m->data, &f->receive[t % FLOW_WINDOW]),
                       "MPI_Irecv"));
    }
    while (f->send_posted < f->send_items && f->send_posted < f->sent + FLOW_WINDOW &&
           f->send_posted - f->lag < f->received) {
        int64_t t = f->send_posted++;
        TRY(mpi_status(MPI_Isend(sent_from(m, f, t), message_bytes(f, range_of(m, f, t, 0)),
                                 MPI_BYTE, next, tag, m->data, &f->send[t % FLOW_WINDOW]),
                       "MPI_Isend"));
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

/* --- either --- */

enum status flow_begin(struct mpi *m, struct flow *f, struct comm_slot *slot)
{
    f->slot = slot;
    f->request = MPI_REQUEST_NULL;
    if (slot->op.handle == m->divide) {
        f->single = true;
        return mpi_status(MPI_Ibarrier(m->whole, &f->request), "MPI_Ibarrier");
    }
    f->single = m->base.size == 1 || slot->op.kind == COMM_BARRIER || is_small(m, &slot->op);
    if (m->base.size == 1)
        comm_copy_alone(&m->base, &slot->op); /* and the request is over already */
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
