/* Implements struct nccl_port by NCCL. The NCCL communicators are non-blocking: a call that must
 * wait for other ranks returns at once, and this file polls the call's state until the call is
 * complete. Between two polls another thread can abort the call. */
#include "comm/nccl/port.h"

#include "base/array.h"
#include "base/half.h"
#include "comm/exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SCALED_MAX = 8, /* largest number of different pairs of type and factor */
    REUSED_MAX = 8, /* largest number of registered memory ranges */
    POLL_NS = 20000 /* time between polls of a call's state */
};

struct ported {
    struct nccl_port base;
    struct nccl_library lib;
    const struct nccl_gpu *gpu;
};

/* A sum whose operands are first multiplied by a factor. */
struct scaled {
    enum dtype type;
    float factor;
    ncclRedOp_t op;
};

struct nccl_link {
    const struct ported *port;
    struct device *device;
    pthread_mutex_t lock; /* locked during every call of the library for this link */
    ncclComm_t comm;      /* NULL: aborted */
    int rank, size;
    int scales, reused;
    struct scaled scaled[SCALED_MAX];
    void *reuse[REUSED_MAX];
};

/* --- error codes --- */

static enum status nccl_error(const struct ported *p, ncclComm_t comm, ncclResult_t r,
                              const char *call)
{
    const char *more = p->lib.get_last_error(comm);
    int length = more ? (int)strcspn(more, "\n") : 0;
    return status_fail(STATUS_LIBRARY, "%s: %s%s%.*s", call, p->lib.get_error_string(r),
                       length > 0 ? ": " : "", length, more);
}

static enum status aborted(void)
{
    return status_fail(STATUS_LIBRARY, "the communication between GPUs was aborted");
}

/* Polls until the call of NCCL that returned `r` is complete. The caller has locked the link. This
 * function unlocks it while it sleeps. */
static enum status finish_call(struct nccl_link *l, ncclResult_t r, const char *call)
{
    const struct timespec rest = {.tv_nsec = POLL_NS};
    while (r == ncclInProgress) {
        pthread_mutex_unlock(&l->lock);
        nanosleep(&rest, NULL);
        pthread_mutex_lock(&l->lock);
        if (!l->comm)
            return aborted();
        ncclResult_t asked = l->port->lib.comm_get_async_error(l->comm, &r);
        r = asked == ncclSuccess ? r : asked;
    }
    return r == ncclSuccess ? STATUS_OK : nccl_error(l->port, l->comm, r, call);
}

/* --- groups --- */

static void port_version(const struct nccl_port *port, char *out, size_t size)
{
    const struct ported *p = (const struct ported *)port;
    int v = 0;
    if (p->lib.get_version(&v) != ncclSuccess)
        v = 0;
    snprintf(out, size, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
}

static enum status port_id(const struct nccl_port *port, unsigned char id[NCCL_PORT_ID_BYTES])
{
    _Static_assert(sizeof(ncclUniqueId) == NCCL_PORT_ID_BYTES,
                   "NCCL_PORT_ID_BYTES must be the size of ncclUniqueId");
    const struct ported *p = (const struct ported *)port;
    ncclUniqueId unique;
    ncclResult_t r = p->lib.get_unique_id(&unique);
    if (r != ncclSuccess)
        return nccl_error(p, NULL, r, "ncclGetUniqueId");
    memcpy(id, &unique, sizeof unique);
    return STATUS_OK;
}

static enum status new_link(const struct ported *p, struct device *dev, int rank, int size,
                            struct nccl_link **link)
{
    struct nccl_link *l;
    TRY(array_new(&l, 1));
    l->port = p;
    l->device = dev;
    l->rank = rank;
    l->size = size;
    pthread_mutex_init(&l->lock, NULL);
    *link = l;
    return STATUS_OK;
}

/* Opens the n ranks of this process in one NCCL group call. One thread opens all of them. With
 * separate calls, the first call could wait for the second. */
static enum status init_ranks(const struct ported *p, int n, int first, int size, ncclUniqueId id,
                              struct nccl_link **link)
{
    enum status st = STATUS_OK;
    ncclResult_t r = p->lib.group_start();
    if (r != ncclSuccess)
        return nccl_error(p, NULL, r, "ncclGroupStart");
    for (int i = 0; i < n && st == STATUS_OK && r == ncclSuccess; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        st = p->gpu->enter(link[i]->device);
        if (st == STATUS_OK)
            r = p->lib.comm_init_rank_config(&link[i]->comm, size, id, first + i, &config);
        if (r == ncclInProgress)
            r = ncclSuccess;
    }
    ncclResult_t ended = p->lib.group_end();
    if (r == ncclSuccess && ended != ncclInProgress)
        r = ended;
    if (st == STATUS_OK && r != ncclSuccess)
        st = nccl_error(p, NULL, r, "ncclCommInitRankConfig");
    return st;
}

static void port_close(struct nccl_link *l)
{
    if (l->comm)
        /* A failure is ignored, because nothing else can be done. */
        (void)l->port->lib.comm_destroy(l->comm);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void port_abort(struct nccl_link *l)
{
    pthread_mutex_lock(&l->lock);
    if (l->comm)
        (void)l->port->lib.comm_abort(l->comm);
    l->comm = NULL;
    pthread_mutex_unlock(&l->lock);
}

static enum status port_open(const struct nccl_port *port, int n, struct device *const *device,
                             int first, int size, const unsigned char id[NCCL_PORT_ID_BYTES],
                             struct nccl_link **link)
{
    enum status st;
    const struct ported *p = (const struct ported *)port;
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    memset(link, 0, (size_t)n * sizeof *link);
    for (int i = 0; i < n; i++)
        CHECK(new_link(p, device[i], first + i, size, &link[i]));
    CHECK(init_ranks(p, n, first, size, unique, link));
    return STATUS_OK;
done:
    for (int i = 0; i < n && link[i]; i++) {
        port_abort(link[i]);
        port_close(link[i]);
        link[i] = NULL;
    }
    return st;
}

static enum status port_poll(struct nccl_link *l, bool *busy)
{
    enum status st = STATUS_OK;
    ncclResult_t r = ncclSuccess;
    pthread_mutex_lock(&l->lock);
    if (l->comm) {
        ncclResult_t asked = l->port->lib.comm_get_async_error(l->comm, &r);
        r = asked == ncclSuccess ? r : asked;
        if (r != ncclSuccess && r != ncclInProgress)
            st = nccl_error(l->port, l->comm, r, "NCCL");
    } else {
        st = aborted();
    }
    *busy = r == ncclInProgress;
    pthread_mutex_unlock(&l->lock);
    return st;
}

static enum status port_finish(struct nccl_link *l)
{
    enum status st;
    pthread_mutex_lock(&l->lock);
    if (l->comm) {
        for (int i = 0; i < l->reused; i++)
            /* If this fails, closing the link removes the registration. */
            (void)l->port->lib.comm_deregister(l->comm, l->reuse[i]);
        ncclResult_t r = l->port->lib.comm_finalize(l->comm);
        st = r == ncclInProgress ? STATUS_OK : finish_call(l, r, "ncclCommFinalize");
    } else {
        st = aborted();
    }
    pthread_mutex_unlock(&l->lock);
    return st;
}

/* --- operations --- */

static ncclDataType_t type_of(enum dtype type)
{
    switch (type) {
    case DTYPE_F16:
        return ncclFloat16;
    case DTYPE_BF16:
        return (ncclDataType_t)NCCL_BFLOAT16;
    case DTYPE_F64:
        return ncclFloat64;
    case DTYPE_U8:
        return ncclUint8;
    case DTYPE_I32:
        return ncclInt32;
    default:
        return ncclFloat32;
    }
}

/* Finds NCCL's operation for a sum scaled by op->factor; creates it at its first use. */
static enum status scaled_sum(struct nccl_link *l, const struct comm_op *op, ncclRedOp_t *sum)
{
    for (int i = 0; i < l->scales; i++)
        if (l->scaled[i].type == op->type && l->scaled[i].factor == op->factor) {
            *sum = l->scaled[i].op;
            return STATUS_OK;
        }
    if (l->scales == SCALED_MAX)
        return status_fail(STATUS_UNSUPPORTED,
                           "NCCL sums with more than %d different factors are not supported",
                           SCALED_MAX);
    struct scaled *s = &l->scaled[l->scales];
    float f32 = op->factor;
    double f64 = (double)op->factor;
    uint16_t f16 = f16_from_float(f32), bf16 = bf16_from_float(f32);
    void *scalar = op->type == DTYPE_F16    ? (void *)&f16
                   : op->type == DTYPE_BF16 ? (void *)&bf16
                   : op->type == DTYPE_F64  ? (void *)&f64
                                            : (void *)&f32;
    TRY(finish_call(l,
                    l->port->lib.red_op_create_pre_mul_sum(&s->op, scalar, type_of(op->type),
                                                           ncclScalarHostImmediate, l->comm),
                    "ncclRedOpCreatePreMulSum"));
    s->type = op->type;
    s->factor = op->factor;
    l->scales++;
    *sum = s->op;
    return STATUS_OK;
}

static enum status reduction_of(struct nccl_link *l, const struct comm_op *op, ncclRedOp_t *r)
{
    static const ncclRedOp_t plain[] = {
        [COMM_SUM] = ncclSum, [COMM_MAX] = ncclMax, [COMM_MIN] = ncclMin, [COMM_AVG] = ncclAvg};
    *r = plain[op->reduction];
    if (op->factor == 0 || op->reduction != COMM_SUM)
        return STATUS_OK;
    return scaled_sum(l, op, r);
}

/* Starts an exchange as one group of sends and receives, which NCCL carries out together. */
static enum status start_exchange(struct nccl_link *l, const struct comm_op *op,
                                  cudaStream_t stream)
{
    const struct nccl_library *lib = &l->port->lib;
    ncclDataType_t type = type_of(op->type);
    size_t n = (size_t)op->count;
    ncclResult_t r = lib->group_start();
    if (r != ncclSuccess)
        return nccl_error(l->port, l->comm, r, "ncclGroupStart");
    for (int i = 0; i < l->size && r == ncclSuccess; i++)
        if (exchange_sends(op, l->size, l->rank, i))
            r = lib->send(exchange_sent(op, i), n, type, i, l->comm, stream);
    for (int i = 0; i < l->size && r == ncclSuccess; i++)
        if (exchange_sends(op, l->size, i, l->rank))
            r = lib->recv(exchange_received(op, i), n, type, i, l->comm, stream);
    ncclResult_t ended = lib->group_end();
    return finish_call(l, r == ncclSuccess ? ended : r, "ncclSend and ncclRecv");
}

static enum status start_locked(struct nccl_link *l, const struct comm_op *op, cudaStream_t stream)
{
    const struct nccl_library *lib = &l->port->lib;
    const void *send = op->send;
    void *recv = op->recv;
    ncclDataType_t type = type_of(op->type);
    size_t n = (size_t)op->count;
    ncclRedOp_t sum;
    if (!l->comm)
        return aborted();
    if (exchange_is(op->kind))
        return start_exchange(l, op, stream);
    TRY(reduction_of(l, op, &sum));
    switch (op->kind) {
    case COMM_BROADCAST:
        return finish_call(l, lib->broadcast(recv, recv, n, type, op->root, l->comm, stream),
                           "ncclBroadcast");
    case COMM_REDUCE:
        return finish_call(l, lib->reduce(send, recv, n, type, sum, op->root, l->comm, stream),
                           "ncclReduce");
    case COMM_ALLGATHER:
        return finish_call(l, lib->all_gather(send, recv, n, type, l->comm, stream),
                           "ncclAllGather");
    case COMM_REDUCE_SCATTER:
        return finish_call(l, lib->reduce_scatter(send, recv, n, type, sum, l->comm, stream),
                           "ncclReduceScatter");
    default:
        return finish_call(l, lib->all_reduce(send, recv, n, type, sum, l->comm, stream),
                           "ncclAllReduce");
    }
}

static enum status port_start(struct nccl_link *l, const struct comm_op *op, struct stream *s)
{
    TRY(l->port->gpu->enter(l->device));
    pthread_mutex_lock(&l->lock);
    enum status st = start_locked(l, op, l->port->gpu->raw(s));
    pthread_mutex_unlock(&l->lock);
    return st;
}

/* Registers memory with NCCL. Ignores a failure, because NCCL also moves data in memory that is not
 * registered. */
static enum status port_reuse(struct nccl_link *l, void *mem, size_t bytes)
{
    const struct nccl_library *lib = &l->port->lib;
    TRY(l->port->gpu->enter(l->device));
    pthread_mutex_lock(&l->lock);
    void **handle = &l->reuse[l->reused];
    if (l->comm && lib->comm_register && lib->comm_deregister && l->reused < REUSED_MAX &&
        finish_call(l, lib->comm_register(l->comm, mem, bytes, handle), "ncclCommRegister") ==
            STATUS_OK)
        l->reused++;
    pthread_mutex_unlock(&l->lock);
    return STATUS_OK;
}

static void port_drop(struct nccl_port *port)
{
    free(port);
}

enum status nccl_port_make(const struct nccl_library *lib, const struct nccl_gpu *gpu,
                           struct nccl_port **port)
{
    struct ported *p;
    TRY(array_new(&p, 1));
    *p = (struct ported){.base = {.version = port_version,
                                  .id = port_id,
                                  .open = port_open,
                                  .poll = port_poll,
                                  .start = port_start,
                                  .reuse = port_reuse,
                                  .abort = port_abort,
                                  .finish = port_finish,
                                  .close = port_close,
                                  .stream_open = gpu->stream_open,
                                  .event_passed = gpu->event_passed,
                                  .bus = gpu->bus,
                                  .drop = port_drop},
                         .lib = *lib,
                         .gpu = gpu};
    *port = &p->base;
    return STATUS_OK;
}
