/* Device memory by way of the host: a device communicator made of a communicator of the host.
 *
 * A thread carries operations out in the order of their start. It waits for the operation's event,
 * and moves the data in pieces through two pinned buffers: while one piece travels between the
 * ranks the next comes down from the device and the one before goes up.
 *
 *     piece k      down, start
 *     piece k - 1            wait, up
 *     piece k + 1                     down, start
 *
 * Results go up in the order of a stream of its own, and the operation's last event follows them
 * there. An event that has not been recorded cannot be waited for, so that comm_wait_on holds the
 * host until the thread has come that far. */
#include "base/half_array.h"
#include "comm/internal.h"
#include "kernels/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 4 << 20, /* of a pinned buffer */
    SCALE_STEP = 1024,     /* elements that are multiplied at a time */
    NAME_MAX_LEN = 80
};

/* What the members of this process share. A slower rank may read the memory of one that has failed,
 * so that it is freed by the last to close. */
struct stage {
    pthread_mutex_t lock;
    int size, open; /* members; those not yet closed */
    struct staged *member;
};

struct staged {
    struct comm base;
    struct stage *stage;
    struct comm *host;
    char name[NAME_MAX_LEN];
    struct stream *stream;
    void *buffer[2]; /* pinned, PIECE_BYTES each */
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* guards what follows, and `done` and `st` of slots */
    pthread_cond_t change;
    int64_t wanted; /* operations to be carried out, by number */
    bool closing;
    enum status broken; /* no operation can succeed any more; why: */
    char message[COMM_MESSAGE_MAX];
};

/* --- pieces --- */

/* How an operation's arrays are cut: each has so many parts of op.count elements, and a piece is
 * the same range of every part, one behind the other. */
struct cut {
    int64_t down, up; /* parts that this rank sends and receives; 0: none */
    int64_t first;    /* the part of a piece that comes down first */
    int64_t result;   /* and the one where the result begins */
    int64_t longest;  /* elements of a part in one piece */
    size_t element;
};

static struct cut cut_of(const struct comm *c, const struct comm_op *op)
{
    int64_t parts = 1;
    struct cut cut = {.down = 1, .up = 1, .element = dtype_size(op->type)};
    switch (op->kind) {
    case COMM_BROADCAST:
        cut.down = c->rank == op->root;
        cut.up = !cut.down;
        break;
    case COMM_REDUCE:
        cut.up = c->rank == op->root;
        break;
    case COMM_ALLGATHER: /* what this rank sends lies where it belongs among what all sent */
        cut.up = parts = c->size;
        cut.first = c->rank;
        break;
    case COMM_REDUCE_SCATTER: /* the result lies behind what is sent */
        cut.down = cut.result = c->size;
        parts = c->size + 1;
        break;
    default:
        break;
    }
    cut.longest = PIECE_BYTES / (int64_t)cut.element / parts;
    return cut;
}

/* Elements [from, from + n) of every part. */
struct piece {
    int64_t from, n;
    char *buffer;
    struct comm_op op; /* on the host */
};

static void scale_f16(uint16_t *x, float factor, int64_t n)
{
    float wide[SCALE_STEP];
    for (int64_t i = 0; i < n; i += SCALE_STEP) {
        int64_t m = n - i < SCALE_STEP ? n - i : SCALE_STEP;
        f16_to_floats(x + i, wide, m);
        f16_from_floats(wide, factor, x + i, m);
    }
}

static void scale_bf16(uint16_t *x, float factor, int64_t n)
{
    float wide[SCALE_STEP];
    for (int64_t i = 0; i < n; i += SCALE_STEP) {
        int64_t m = n - i < SCALE_STEP ? n - i : SCALE_STEP;
        bf16_to_floats(x + i, wide, m);
        bf16_from_floats(wide, factor, x + i, m);
    }
}

/* See comm_op.factor. */
static void scale(enum dtype type, float factor, void *data, int64_t n)
{
    float *f32 = data;
    double *f64 = data;
    if (type == DTYPE_F16)
        scale_f16(data, factor, n);
    if (type == DTYPE_BF16)
        scale_bf16(data, factor, n);
    for (int64_t i = 0; i < n && type == DTYPE_F32; i++)
        f32[i] *= factor;
    for (int64_t i = 0; i < n && type == DTYPE_F64; i++)
        f64[i] *= (double)factor;
}

/* Brings a piece down and starts it. */
static enum status send_piece(struct staged *s, const struct comm_op *op, const struct cut *cut,
                              struct piece *p)
{
    const struct backend *b = s->base.device->backend;
    size_t bytes = (size_t)p->n * cut->element;
    char *sent = p->buffer + (size_t)cut->first * bytes;
    const char *from = op->kind == COMM_BROADCAST ? op->recv : op->send;
    TRY(b->stream_sync(s->stream)); /* what went up from the buffer has left it */
    for (int64_t i = 0; i < cut->down; i++)
        TRY(b->download(s->stream, sent + (size_t)i * bytes,
                        from + (size_t)(i * op->count + p->from) * cut->element, bytes));
    TRY(b->stream_sync(s->stream));
    if (op->factor != 0)
        scale(op->type, op->factor, sent, cut->down * p->n);
    p->op = (struct comm_op){.kind = op->kind,
                             .reduction = op->reduction,
                             .type = op->type,
                             .root = op->root,
                             .send = sent,
                             .recv = p->buffer + (size_t)cut->result * bytes,
                             .count = p->n};
    return comm_start(s->host, &p->op);
}

/* Waits for a piece and brings it up. */
static enum status receive_piece(struct staged *s, const struct comm_op *op, const struct cut *cut,
                                 struct piece *p)
{
    const struct backend *b = s->base.device->backend;
    size_t bytes = (size_t)p->n * cut->element;
    char *to = op->recv;
    TRY(comm_wait(s->host, &p->op));
    for (int64_t i = 0; i < cut->up; i++)
        TRY(b->upload(s->stream, to + (size_t)(i * op->count + p->from) * cut->element,
                      (char *)p->op.recv + (size_t)i * bytes, bytes));
    return STATUS_OK;
}

static enum status move_pieces(struct staged *s, const struct comm_op *op)
{
    struct cut cut = cut_of(&s->base, op);
    struct piece piece[2] = {{0}};
    int64_t pieces = (op->count + cut.longest - 1) / cut.longest;
    for (int64_t k = 0; k <= pieces; k++) {
        struct piece *next = &piece[k % 2], *last = &piece[(k + 1) % 2];
        if (k < pieces) {
            next->from = k * cut.longest;
            next->n = op->count - next->from < cut.longest ? op->count - next->from : cut.longest;
            next->buffer = s->buffer[k % 2];
            TRY(send_piece(s, op, &cut, next));
        }
        if (k > 0)
            TRY(receive_piece(s, op, &cut, last));
    }
    return STATUS_OK;
}

/* --- the thread --- */

static enum status run_on_host(struct staged *s, const struct comm_op *op)
{
    struct comm_op own = *op;
    own.handle = 0;
    return comm_run(s->host, &own);
}

static enum status carry_out(struct staged *s, const struct comm_op *op)
{
    const struct backend *b = s->base.device->backend;
    if (op->on_host)
        return run_on_host(s, op);
    if (op->after)
        TRY(b->event_wait(op->after));
    if (op->began)
        TRY(b->event_record(op->began, s->stream));
    TRY(op->kind == COMM_BARRIER ? run_on_host(s, op) : move_pieces(s, op));
    return op->over ? b->event_record(op->over, s->stream) : STATUS_OK;
}

static void end_operation(struct staged *s, struct comm_slot *slot, enum status st)
{
    pthread_mutex_lock(&s->lock);
    if (st != STATUS_OK && s->broken == STATUS_OK) {
        s->broken = st;
        snprintf(s->message, sizeof s->message, "%s", status_message());
    }
    slot->st = s->broken;
    slot->op.ended_ns = comm_now();
    slot->done = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

/* The slot of operation `number`, once it is wanted; NULL: there will be no more. */
static struct comm_slot *next_slot(struct staged *s, int64_t number, enum status *broken)
{
    pthread_mutex_lock(&s->lock);
    while (s->wanted < number && !s->closing)
        pthread_cond_wait(&s->change, &s->lock);
    bool more = s->wanted >= number;
    *broken = s->broken;
    pthread_mutex_unlock(&s->lock);
    return more ? comm_slot_of(&s->base, number) : NULL;
}

static void *serve(void *arg)
{
    struct staged *s = arg;
    struct comm_slot *slot;
    enum status broken;
    for (int64_t number = 1; (slot = next_slot(s, number, &broken)); number++)
        end_operation(s, slot, broken == STATUS_OK ? carry_out(s, &slot->op) : broken);
    return NULL;
}

/* --- the kind's calls --- */

static enum status staged_start(struct comm *c, struct comm_slot *slot)
{
    struct staged *s = (struct staged *)c;
    pthread_mutex_lock(&s->lock);
    s->wanted = slot->op.handle;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return STATUS_OK;
}

static enum status await(struct staged *s, const struct comm_slot *slot)
{
    pthread_mutex_lock(&s->lock);
    while (!slot->done)
        pthread_cond_wait(&s->change, &s->lock);
    enum status st = slot->st;
    if (st != STATUS_OK)
        st = status_fail(st, "%s", s->message);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static enum status staged_wait(struct comm *c, struct comm_slot *slot)
{
    struct staged *s = (struct staged *)c;
    TRY(await(s, slot));
    if (slot->op.on_host)
        return STATUS_OK;
    TRY(c->device->backend->stream_sync(s->stream));
    slot->op.ended_ns = comm_now();
    return STATUS_OK;
}

static enum status staged_wait_on(struct comm *c, struct comm_slot *slot, struct stream *stream)
{
    TRY(await((struct staged *)c, slot));
    slot->op.ended_ns = 0; /* only the event knows */
    return c->device->backend->stream_wait(stream, slot->op.over);
}

static void staged_fail(struct comm *c, enum status st, const char *message)
{
    comm_fail(((struct staged *)c)->host, st, message);
}

static void stop(struct staged *s)
{
    if (!s->running)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->running = false;
    /* What is on its way up still reads the buffers; a failure of it is nobody's any more. */
    (void)(s->base.device->backend->stream_sync(s->stream) == STATUS_OK);
}

static void stage_free(struct stage *stage)
{
    for (int i = 0; i < stage->size; i++) {
        struct staged *s = &stage->member[i];
        struct device *dev = s->base.device;
        if (s->stream)
            dev->backend->stream_close(s->stream);
        for (int k = 0; k < 2; k++)
            if (s->buffer[k])
                dev->backend->free_host(dev, s->buffer[k]);
        pthread_cond_destroy(&s->change);
        pthread_mutex_destroy(&s->lock);
    }
    pthread_mutex_destroy(&stage->lock);
    free(stage->member);
    free(stage);
}

static void staged_close(struct comm *c)
{
    struct staged *s = (struct staged *)c;
    struct stage *stage = s->stage;
    stop(s);
    pthread_mutex_lock(&stage->lock);
    bool last = --stage->open == 0;
    pthread_mutex_unlock(&stage->lock);
    if (last)
        stage_free(stage);
}

static const struct comm_calls staged_calls = {
    .name = "staged",
    .start = staged_start,
    .wait = staged_wait,
    .wait_on = staged_wait_on,
    .fail = staged_fail,
    .close = staged_close,
};

/* Everything of it that cannot fail. */
static void prepare(struct staged *s, struct stage *stage, struct comm *host, struct device *device)
{
    s->base.calls = &staged_calls;
    s->base.name = s->name;
    s->base.device = device;
    s->base.rank = comm_rank(host);
    s->base.size = comm_size(host);
    s->stage = stage;
    s->host = host;
    snprintf(s->name, sizeof s->name, "%s, staged through host memory", comm_name(host));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
}

static enum status open_member(struct staged *s)
{
    struct device *dev = s->base.device;
    int most = PIECE_BYTES / (int)sizeof(double) - 1;
    if (s->base.size > most)
        return status_fail(STATUS_UNSUPPORTED, "%d ranks; at most %d pass through host memory",
                           s->base.size, most);
    for (int k = 0; k < 2; k++)
        TRY(dev->backend->alloc_host(dev, PIECE_BYTES, &s->buffer[k]));
    TRY(dev->backend->stream_open(dev, &s->stream));
    TRY(comm_thread_start(&s->thread, serve, s));
    s->running = true;
    return STATUS_OK;
}

enum status comm_open_staged(int size, struct comm *const *host, struct device *const *device,
                             struct comm **c)
{
    enum status st = STATUS_OK;
    struct stage *stage = calloc(1, sizeof *stage);
    struct staged *member = calloc((size_t)size, sizeof *member);
    if (!stage || !member) {
        free(stage);
        free(member);
        return status_fail(STATUS_OOM, "no memory for communicators of %d devices", size);
    }
    *stage = (struct stage){.size = size, .open = size, .member = member};
    pthread_mutex_init(&stage->lock, NULL);
    for (int i = 0; i < size; i++)
        prepare(&member[i], stage, host[i], device[i]);
    for (int i = 0; i < size; i++)
        CHECK(open_member(&member[i]));
    for (int i = 0; i < size; i++)
        c[i] = &member[i].base;
    return STATUS_OK;
done:
    for (int i = 0; i < size; i++)
        stop(&member[i]);
    stage_free(stage);
    return st;
}
