/* GPUs as ranks: operations are put on a stream of the communicator's own, in front of other work,
 * and the library moves the data from there.
 *
 * A rank that is gone leaves the others' streams standing for ever, and whoever waits for such a
 * stream with them. So nobody does: a thread looks at the oldest operation's event and at the state
 * of the link now and then; when either says that there is no going on, it aborts the link, which
 * sets the streams free, and everything that is started or waited for from then on fails with its
 * one message. */
#include "comm/internal.h"
#include "comm/nccl_port.h"
#include "kernels/device_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    UNDER_WAY = 256,     /* operations on the stream; one more holds the host */
    LOOK_NS = 20000000,  /* between looks of the watching thread */
    NAP_FIRST_NS = 5000, /* of a host that waits, growing up to: */
    NAP_LONGEST_NS = 1000000
};

/* An operation on the stream. */
struct flight {
    struct comm_op op;
    int64_t since_ns;
    bool on_stream; /* its last event has been recorded */
    struct event *over;
};

struct nccl {
    struct comm base;
    const struct nccl_port *port;
    struct nccl_link *link;
    struct stream *stream;
    void *token; /* one number in device memory, which a barrier sums */
    double timeout_s;
    char name[COMM_TEXT_MAX];
    pthread_t watch;
    bool watching;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t change;
    struct flight flight[UNDER_WAY]; /* of operation n at n % UNDER_WAY */
    int64_t begun, passed;           /* the last operation that was begun, and that is over */
    int64_t moved_ns;                /* when the last became so */
    bool closing;
    enum status broken; /* no operation can succeed any more; why: */
    char message[2 * COMM_MESSAGE_MAX];
};

static struct flight *flight_of(struct nccl *n, int64_t number)
{
    return &n->flight[number % UNDER_WAY];
}

static void nap(int64_t ns)
{
    struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

/* --- failures --- */

/* The first reason is the one to tell. The lock is held. */
static void break_locked(struct nccl *n, enum status st, const char *message)
{
    if (n->broken != STATUS_OK)
        return;
    n->broken = st;
    snprintf(n->message, sizeof n->message, "rank %d: %s", n->base.rank, message);
    n->port->abort(n->link);
    pthread_cond_broadcast(&n->change);
}

static enum status status_locked(const struct nccl *n)
{
    return n->broken == STATUS_OK ? STATUS_OK : status_fail(n->broken, "%s", n->message);
}

static enum status nccl_status(struct nccl *n)
{
    pthread_mutex_lock(&n->lock);
    enum status st = status_locked(n);
    pthread_mutex_unlock(&n->lock);
    return st;
}

/* A failure of the caller's own call of the library: the message is the thread's. */
static enum status break_with_own(struct nccl *n, const struct comm_op *op, enum status st)
{
    char text[COMM_TEXT_MAX], message[COMM_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s: %s", comm_op_text(op, text), status_message());
    pthread_mutex_lock(&n->lock);
    break_locked(n, st, message);
    st = status_locked(n);
    pthread_mutex_unlock(&n->lock);
    return st;
}

/* --- the watching thread --- */

/* Takes note of operations that are over. */
static enum status pass_locked(struct nccl *n)
{
    while (n->passed < n->begun) {
        const struct flight *f = flight_of(n, n->passed + 1);
        bool passed = false;
        if (f->on_stream)
            TRY(n->port->event_passed(f->over, &passed));
        if (!passed)
            break;
        n->passed++;
        n->moved_ns = comm_now();
        pthread_cond_broadcast(&n->change);
    }
    return STATUS_OK;
}

static void check_time_locked(struct nccl *n)
{
    char text[COMM_TEXT_MAX], message[COMM_MESSAGE_MAX];
    const struct flight *f = flight_of(n, n->passed + 1);
    int64_t since = f->since_ns > n->moved_ns ? f->since_ns : n->moved_ns;
    if (n->timeout_s <= 0 || (double)(comm_now() - since) <= n->timeout_s * 1e9)
        return;
    snprintf(message, sizeof message,
             "%s was not over within %g s: another rank did not reach it, or the network is "
             "stuck",
             comm_op_text(&f->op, text), n->timeout_s);
    break_locked(n, STATUS_LIBRARY, message);
}

static void look_locked(struct nccl *n)
{
    bool busy;
    char text[COMM_TEXT_MAX], message[COMM_MESSAGE_MAX];
    enum status st = pass_locked(n);
    if (st == STATUS_OK)
        st = n->port->poll(n->link, &busy);
    if (st != STATUS_OK) {
        const struct flight *f = flight_of(n, n->passed + (n->passed < n->begun));
        snprintf(message, sizeof message, "%s: %s", comm_op_text(&f->op, text), status_message());
        break_locked(n, st, message);
    } else if (n->passed < n->begun) {
        check_time_locked(n);
    }
}

static void wait_locked(struct nccl *n, int64_t ns)
{
    int64_t until = comm_now() + ns;
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_cond_timedwait(&n->change, &n->lock, &t);
}

static void *watch(void *arg)
{
    struct nccl *n = arg;
    pthread_mutex_lock(&n->lock);
    while (!n->closing) {
        if (n->passed == n->begun || n->broken != STATUS_OK) {
            pthread_cond_wait(&n->change, &n->lock);
            continue;
        }
        wait_locked(n, LOOK_NS);
        if (n->broken == STATUS_OK)
            look_locked(n);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* --- operations --- */

/* From now on the operation is looked after. */
static enum status take_off(struct nccl *n, const struct comm_op *op)
{
    pthread_mutex_lock(&n->lock);
    while (n->begun - n->passed == UNDER_WAY && n->broken == STATUS_OK)
        pthread_cond_wait(&n->change, &n->lock);
    enum status st = status_locked(n);
    if (st == STATUS_OK) {
        struct flight *f = flight_of(n, op->handle);
        f->op = *op;
        f->since_ns = comm_now();
        f->on_stream = false;
        n->begun = op->handle;
        pthread_cond_broadcast(&n->change);
    }
    pthread_mutex_unlock(&n->lock);
    return st;
}

static enum status put_data(struct nccl *n, const struct comm_op *op)
{
    struct comm_op barrier = {.kind = COMM_ALLREDUCE,
                              .reduction = COMM_MAX,
                              .type = DTYPE_I32,
                              .send = n->token,
                              .recv = n->token,
                              .count = 1};
    if (op->kind == COMM_BARRIER)
        return n->port->start(n->link, &barrier, n->stream);
    return op->count > 0 ? n->port->start(n->link, op, n->stream) : STATUS_OK;
}

static enum status put_on_stream(struct nccl *n, const struct comm_op *op)
{
    const struct backend *b = n->base.device->backend;
    if (op->after)
        TRY(b->stream_wait(n->stream, op->after));
    if (op->began)
        TRY(b->event_record(op->began, n->stream));
    TRY(put_data(n, op));
    if (op->over)
        TRY(b->event_record(op->over, n->stream));
    return b->event_record(flight_of(n, op->handle)->over, n->stream);
}

static enum status nccl_start(struct comm *c, struct comm_slot *slot)
{
    struct nccl *n = (struct nccl *)c;
    const struct comm_op *op = &slot->op;
    if (op->on_host)
        return status_fail(STATUS_INVALID, "%s: GPUs do not share memory of the host",
                           comm_kind_str(op->kind));
    TRY(take_off(n, op));
    enum status st = put_on_stream(n, op);
    if (st != STATUS_OK)
        return break_with_own(n, op, st);
    pthread_mutex_lock(&n->lock);
    flight_of(n, op->handle)->on_stream = true;
    pthread_mutex_unlock(&n->lock);
    return STATUS_OK;
}

/* The watching thread would come by too seldom. */
static enum status nccl_wait(struct comm *c, struct comm_slot *slot)
{
    struct nccl *n = (struct nccl *)c;
    for (int64_t rest = NAP_FIRST_NS;; rest = rest < NAP_LONGEST_NS ? 2 * rest : rest) {
        pthread_mutex_lock(&n->lock);
        enum status st = status_locked(n);
        if (st == STATUS_OK)
            st = pass_locked(n);
        bool over = n->passed >= slot->op.handle;
        pthread_mutex_unlock(&n->lock);
        TRY(st);
        if (over)
            break;
        nap(rest);
    }
    slot->op.ended_ns = comm_now();
    return STATUS_OK;
}

static enum status nccl_wait_on(struct comm *c, struct comm_slot *slot, struct stream *s)
{
    struct nccl *n = (struct nccl *)c;
    TRY(nccl_status(n));
    return c->device->backend->stream_wait(s, slot->op.over);
}

static enum status nccl_reuse(struct comm *c, void *mem, size_t bytes)
{
    struct nccl *n = (struct nccl *)c;
    return n->port->reuse(n->link, mem, bytes);
}

static void nccl_fail(struct comm *c, enum status st, const char *message)
{
    struct nccl *n = (struct nccl *)c;
    pthread_mutex_lock(&n->lock);
    break_locked(n, st, message);
    pthread_mutex_unlock(&n->lock);
}

/* --- opening and closing --- */

static void stop_watching(struct nccl *n)
{
    if (!n->watching)
        return;
    pthread_mutex_lock(&n->lock);
    n->closing = true;
    pthread_cond_broadcast(&n->change);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->watch, NULL);
    n->watching = false;
}

/* Waits until nothing that was begun goes on, under the time limit. */
static enum status settle(struct nccl *n)
{
    int64_t begun = comm_now();
    for (bool busy = true;; nap(NAP_LONGEST_NS)) {
        TRY(n->port->poll(n->link, &busy));
        if (!busy)
            return STATUS_OK;
        if (n->timeout_s > 0 && (double)(comm_now() - begun) > n->timeout_s * 1e9)
            return status_fail(STATUS_LIBRARY,
                               "rank %d: the GPUs of %d ranks did not link up within %g s",
                               n->base.rank, n->base.size, n->timeout_s);
    }
}

static void close_link(struct nccl *n)
{
    bool orderly = n->broken == STATUS_OK && n->passed == n->begun;
    if (!orderly || n->port->finish(n->link) != STATUS_OK || settle(n) != STATUS_OK)
        n->port->abort(n->link);
    n->port->close(n->link);
}

static void nccl_free(struct nccl *n)
{
    struct device *dev = n->base.device;
    stop_watching(n);
    if (n->link)
        close_link(n);
    if (n->stream)
        dev->backend->stream_close(n->stream);
    for (int i = 0; i < UNDER_WAY; i++)
        if (n->flight[i].over)
            dev->backend->event_close(n->flight[i].over);
    if (n->token)
        dev->backend->free(dev, n->token);
    pthread_cond_destroy(&n->change);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* What has not been waited for is given up when the limit is over, as in comm_wait. */
static void nccl_close(struct comm *c)
{
    struct nccl *n = (struct nccl *)c;
    struct comm_slot last = {.op.handle = n->begun};
    if (nccl_wait(c, &last) != STATUS_OK)
        comm_fail(c, STATUS_LIBRARY, status_message());
    nccl_free(n);
}

static const struct comm_calls nccl_calls = {
    .name = "nccl",
    .start = nccl_start,
    .wait = nccl_wait,
    .wait_on = nccl_wait_on,
    .reuse = nccl_reuse,
    .fail = nccl_fail,
    .close = nccl_close,
};

static struct nccl *nccl_new(const struct comm_nccl_config *config, struct device *dev, int rank,
                             int size)
{
    struct nccl *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->base.calls = &nccl_calls;
    n->base.name = n->name;
    n->base.device = dev;
    n->base.rank = rank;
    n->base.size = size;
    n->port = config->port;
    n->timeout_s = config->timeout_s;
    config->port->version(config->port, n->name, sizeof n->name);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&n->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&n->lock, NULL);
    return n;
}

/* Everything but the link. */
static enum status open_parts(struct nccl *n)
{
    struct device *dev = n->base.device;
    TRY(n->port->stream_open(dev, &n->stream));
    TRY(dev->backend->alloc(dev, sizeof(int32_t), &n->token));
    for (int i = 0; i < UNDER_WAY; i++)
        TRY(dev->backend->event_open(dev, &n->flight[i].over));
    return STATUS_OK;
}

/* What rank 0 tells the others, so that nobody waits for a group that it could not name. */
struct invitation {
    int32_t st;
    unsigned char id[NCCL_PORT_ID_BYTES];
};

static enum status invite(const struct comm_nccl_config *config, struct invitation *i)
{
    enum status own = STATUS_OK;
    memset(i, 0, sizeof *i);
    if (comm_rank(config->host) == 0)
        own = config->port->id(config->port, i->id);
    i->st = (int32_t)own;
    struct comm_op op = {
        .kind = COMM_BROADCAST, .type = DTYPE_U8, .recv = i, .count = (int64_t)sizeof *i};
    if (own == STATUS_OK)
        return comm_run(config->host, &op);
    char message[COMM_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", status_message());
    TRY(comm_run(config->host, &op));
    return status_fail(own, "%s", message);
}

static enum status link_up(struct nccl *const *n, int count, const struct comm_nccl_config *config,
                           struct device *const *device, const struct invitation *i)
{
    struct nccl_link *link[DEVICES_MAX];
    TRY(config->port->open(config->port, count, device, n[0]->base.rank, n[0]->base.size, i->id,
                           link));
    for (int k = 0; k < count; k++)
        n[k]->link = link[k];
    for (int k = 0; k < count; k++)
        TRY(settle(n[k]));
    for (int k = 0; k < count; k++) {
        TRY(comm_thread_start(&n[k]->watch, watch, n[k]));
        n[k]->watching = true;
    }
    return STATUS_OK;
}

static enum status open_all(struct nccl **n, const struct comm_nccl_config *config, int count,
                            struct device *const *device)
{
    struct invitation i;
    int first = comm_rank(config->host) * count, size = comm_size(config->host) * count;
    TRY(invite(config, &i));
    if (i.st != STATUS_OK)
        return status_fail(STATUS_LIBRARY, "rank 0 could not begin to link GPUs");
    for (int k = 0; k < count; k++) {
        n[k] = nccl_new(config, device[k], first + k, size);
        if (!n[k])
            return status_fail(STATUS_OOM, "no memory for communicators of %d devices", count);
        TRY(open_parts(n[k]));
    }
    return link_up(n, count, config, device, &i);
}

enum status comm_open_nccl(const struct comm_nccl_config *config, int count,
                           struct device *const *device, struct comm **c)
{
    struct nccl *n[DEVICES_MAX] = {NULL};
    if (count < 1 || count > DEVICES_MAX)
        return status_fail(STATUS_INVALID, "a group of %d devices in a process", count);
    enum status st = open_all(n, config, count, device);
    for (int k = 0; k < count; k++) {
        if (st == STATUS_OK) {
            c[k] = &n[k]->base;
        } else if (n[k]) {
            n[k]->broken = st;
            nccl_free(n[k]);
        }
    }
    return st;
}
