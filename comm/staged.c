/* A device communicator that stages data through host memory and uses a host communicator.
 *
 * For each operation, a thread waits for the operation's event, and then moves the data in pieces
 * through two pinned buffers: while one piece moves between the ranks, the previous one is uploaded
 * and the next one downloaded. op.over is recorded after the uploads. A stream cannot wait for an
 * event that has not been recorded, so comm_wait_on blocks the host until the thread has done so.
 */
#include "base/half_array.h"
#include "comm/internal.h"
#include "kernels/backend.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PIECE_BYTES = 4 << 20, /* bytes of a pinned buffer */
    SCALE_STEP = 1024,     /* elements that are multiplied at a time */
    NAME_MAX_LEN = 80
};

/* The communicators of this process, called members. After a failure a slower rank may still read
 * the memory of a failed rank, so the last member that closes frees the memory of all members. */
struct stage {
    int size;        /* number of members */
    atomic_int open; /* members not yet closed */
    struct staged *member;
};

struct staged {
    struct comm_queue queue;
    struct stage *stage;
    struct comm *host;
    char name[NAME_MAX_LEN];
    struct stream *stream;
    void *buffer[2]; /* pinned, PIECE_BYTES each */
};

/* --- pieces --- */

/* How an operation's arrays are cut into pieces. An array consists of parts of op.count elements. A
 * piece takes one range of indices from every part, and stores these ranges in the order of the
 * parts: first those that are sent; then the result, unless it replaces them. */
struct cut {
    int64_t down, up; /* number of parts that this rank downloads and uploads */
    int64_t result;   /* index, within a piece, of the first part of the result */
    int64_t longest;  /* largest number of elements of each part in a piece, equal on all ranks */
};

static struct cut cut_of(const struct comm *c, const struct comm_op *op)
{
    size_t element = dtype_size(op->type), part = (size_t)op->count * element;
    struct cut cut = {.down = (int64_t)(comm_send_bytes(c, op) / part),
                      .up = (int64_t)(comm_recv_bytes(c, op) / part)};
    int64_t parts = c->size + 1;
    if (op->kind == COMM_BROADCAST) {
        cut.down = c->rank == op->root;
        cut.up = !cut.down;
    }
    if (op->kind == COMM_BROADCAST || op->kind == COMM_ALLREDUCE || op->kind == COMM_REDUCE)
        parts = 1;
    else if (op->kind == COMM_ALLTOALL || op->kind == COMM_SENDRECV)
        parts = 2 * cut.down;
    cut.result = parts == 1 ? 0 : cut.down;
    cut.longest = PIECE_BYTES / (int64_t)element / parts;
    return cut;
}

/* See comm_op.factor. */
static void scale(enum dtype type, float factor, void *data, int64_t count)
{
    float wide[SCALE_STEP];
    for (int64_t i = 0; i < count; i += SCALE_STEP) {
        int64_t n = count - i < SCALE_STEP ? count - i : SCALE_STEP;
        uint16_t *half = (uint16_t *)data + i;
        if (type == DTYPE_F16) {
            f16_to_floats(half, wide, n);
            f16_from_floats(wide, factor, half, n);
        } else if (type == DTYPE_BF16) {
            bf16_to_floats(half, wide, n);
            bf16_from_floats(wide, factor, half, n);
        }
        for (int64_t k = i; k < i + n && type == DTYPE_F32; k++)
            ((float *)data)[k] *= factor;
        for (int64_t k = i; k < i + n && type == DTYPE_F64; k++)
            ((double *)data)[k] *= (double)factor;
    }
}

/* Downloads piece k, and starts the host communicator's operation on it, `own`. */
static enum status send_piece(struct staged *s, const struct comm_op *op, const struct cut *cut,
                              int64_t k, struct comm_op *own)
{
    const struct backend *b = s->queue.base.device->backend;
    int64_t first = k * cut->longest, left = op->count - first;
    int64_t n = left < cut->longest ? left : cut->longest;
    size_t element = dtype_size(op->type), bytes = (size_t)n * element;
    char *buffer = s->buffer[k % 2];
    const char *from = op->kind == COMM_BROADCAST ? op->recv : op->send;
    TRY(b->stream_sync(s->stream)); /* waits for the last upload from the buffer */
    for (int64_t i = 0; i < cut->down; i++)
        TRY(b->download(s->stream, buffer + (size_t)i * bytes,
                        from + (size_t)(i * op->count + first) * element, bytes));
    TRY(b->stream_sync(s->stream));
    if (op->factor != 0)
        scale(op->type, op->factor, buffer, cut->down * n);
    *own = (struct comm_op){.kind = op->kind,
                            .reduction = op->reduction,
                            .type = op->type,
                            .root = op->root,
                            .send = buffer,
                            .recv = buffer + (size_t)cut->result * bytes,
                            .count = n};
    return comm_start(s->host, own);
}

/* Waits for the operation on piece k and uploads the result. */
static enum status receive_piece(struct staged *s, const struct comm_op *op, const struct cut *cut,
                                 int64_t k, struct comm_op *own)
{
    size_t element = dtype_size(op->type), bytes = (size_t)own->count * element;
    char *to = (char *)op->recv + (size_t)(k * cut->longest) * element;
    TRY(comm_wait(s->host, own));
    for (int64_t i = 0; i < cut->up; i++)
        TRY(s->queue.base.device->backend->upload(s->stream, to + (size_t)(i * op->count) * element,
                                                  (char *)own->recv + (size_t)i * bytes, bytes));
    return STATUS_OK;
}

static enum status move_pieces(struct staged *s, const struct comm_op *op)
{
    if (op->count == 0)
        return STATUS_OK;
    const struct cut cut = cut_of(&s->queue.base, op);
    int64_t pieces = (op->count - 1) / cut.longest + 1;
    struct comm_op own[2];
    for (int64_t k = 0; k <= pieces; k++) {
        if (k < pieces)
            TRY(send_piece(s, op, &cut, k, &own[k % 2]));
        if (k > 0)
            TRY(receive_piece(s, op, &cut, k - 1, &own[(k - 1) % 2]));
    }
    return STATUS_OK;
}

static enum status run_on_host(struct staged *s, const struct comm_op *op)
{
    struct comm_op own = *op;
    own.handle = 0;
    return comm_run(s->host, &own);
}

static enum status carry_out(struct comm_queue *q, const struct comm_op *op)
{
    struct staged *s = (struct staged *)q;
    const struct backend *b = q->base.device->backend;
    if (op->on_host)
        return run_on_host(s, op);
    if (op->after)
        TRY(b->event_wait(op->after));
    if (op->began)
        TRY(b->event_record(op->began, s->stream));
    TRY(op->kind == COMM_BARRIER ? run_on_host(s, op) : move_pieces(s, op));
    return op->over ? b->event_record(op->over, s->stream) : STATUS_OK;
}

/* --- the functions in struct comm_calls --- */

static enum status staged_wait(struct comm *c, struct comm_slot *slot)
{
    struct staged *s = (struct staged *)c;
    TRY(comm_queue_wait(c, slot));
    if (slot->op.on_host)
        return STATUS_OK;
    TRY(c->device->backend->stream_sync(s->stream));
    slot->op.ended_ns = comm_now();
    return STATUS_OK;
}

static enum status staged_wait_on(struct comm *c, struct comm_slot *slot, struct stream *stream)
{
    TRY(comm_queue_wait(c, slot));
    slot->op.ended_ns = 0; /* unknown, because the upload may still be in progress */
    return c->device->backend->stream_wait(stream, slot->op.over);
}

static void staged_fail(struct comm *c, enum status st, const char *message)
{
    comm_fail(((struct staged *)c)->host, st, message);
}

/* Ends the thread and waits for uploads, because they read the buffers. */
static void stop_thread(struct staged *s)
{
    if (!s->queue.running)
        return;
    comm_queue_stop(&s->queue);
    (void)!s->queue.base.device->backend->stream_sync(s->stream); /* nobody needs the results */
}

static void stage_free(struct stage *stage)
{
    for (int i = 0; i < stage->size; i++) {
        struct staged *s = &stage->member[i];
        struct device *dev = s->queue.base.device;
        stop_thread(s);
        dev->backend->stream_close(s->stream);
        for (int k = 0; k < 2; k++)
            dev->backend->free_host(dev, s->buffer[k]);
        comm_queue_free(&s->queue);
    }
    free(stage->member);
    free(stage);
}

static void staged_close(struct comm *c)
{
    struct staged *s = (struct staged *)c;
    struct stage *stage = s->stage;
    stop_thread(s);
    if (atomic_fetch_sub(&stage->open, 1) == 1)
        stage_free(stage);
}

static enum status open_member(struct staged *s, struct stage *stage, struct comm *host,
                               struct device *device)
{
    static const struct comm_calls calls = {
        .name = "staged",
        .start = comm_queue_start,
        .wait = staged_wait,
        .wait_on = staged_wait_on,
        .fail = staged_fail,
        .close = staged_close,
    };
    const int most = PIECE_BYTES / (int)sizeof(double) / 2; /* of an alltoall's parts for a rank */
    bool late;
    comm_queue_init(&s->queue, &calls, comm_rank(host), comm_size(host));
    s->queue.carry_out = carry_out;
    s->queue.base.name = s->name;
    s->queue.base.device = device;
    s->stage = stage;
    s->host = host;
    snprintf(s->name, sizeof s->name, "%s, staged through host memory", comm_name(host));
    stage->size++;
    if (comm_size(host) > most)
        return status_fail(STATUS_UNSUPPORTED,
                           "cannot stage the data of %d ranks through host memory: at most %d",
                           comm_size(host), most);
    for (int k = 0; k < 2; k++)
        TRY(device->backend->alloc_host(device, PIECE_BYTES, &s->buffer[k]));
    TRY(device->backend->stream_open(device, &s->stream));
    return comm_queue_open(&s->queue, 0, &late);
}

enum status comm_open_staged(int size, struct comm *const *host, struct device *const *device,
                             struct comm **c)
{
    enum status st;
    struct stage *stage;
    TRY(array_new(&stage, 1));
    CHECK(array_new(&stage->member, size));
    atomic_init(&stage->open, size);
    for (int i = 0; i < size; i++)
        CHECK(open_member(&stage->member[i], stage, host[i], device[i]));
    for (int i = 0; i < size; i++)
        c[i] = &stage->member[i].queue.base;
    return STATUS_OK;
done:
    stage_free(stage);
    return st;
}
