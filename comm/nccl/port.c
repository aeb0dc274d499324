/* Implements struct nccl_port by NCCL. The NCCL communicators are non-blocking: a call that must
 * wait for other ranks returns at once, and this file polls the call's state until the call is
 * complete. Between two polls another thread can abort the call. */
#include "comm/nccl/port.h"

#include "base/array.h"
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

/* A sum whose operands are first multiplied by a factor. */
struct scaled {
    enum dtype type;
    float factor;
    ncclRedOp_t op;
};

struct nccl_link {
    const struct nccl_port *port;
    struct device *device;
    pthread_mutex_t lock; /* locked during every call of the library for this link */
    ncclComm_t comm;      /* NULL: aborted */
    int rank, size;
    int scales, reused;
    struct scaled scaled[SCALED_MAX];
    void *reuse[REUSED_MAX];
};

/* --- calls --- */

/* Calls a function of NCCL for a link that the caller has locked; waits for its completion. */
#define CALL(l, function, ...) finish_call((l), (l)->port->lib->function(__VA_ARGS__), #function)

/* Fails with NCCL's message unless `r`, the result of `call`, is a success. `comm` may be NULL. */
static enum status check(const struct nccl_port *p, ncclComm_t comm, ncclResult_t r,
                         const char *call)
{
    if (r == ncclSuccess)
        return STATUS_OK;
    const char *more = p->lib->ncclGetLastError(comm);
    int length = more ? (int)strcspn(more, "\n") : 0;
    return status_fail(STATUS_LIBRARY, "%s: %s%s%.*s", call, p->lib->ncclGetErrorString(r),
                       length > 0 ? ": " : "", length, more);
}

/* Fails if the link was aborted, or if `call`, whose result is `r`, has failed. */
static enum status check_link(const struct nccl_link *l, ncclResult_t r, const char *call)
{
    if (!l->comm)
        return status_fail(STATUS_LIBRARY, "the communication between GPUs was aborted");
    return r == ncclInProgress ? STATUS_OK : check(l->port, l->comm, r, call);
}

/* The result of the last call for the link; ncclInProgress: the call is not complete. */
static ncclResult_t state_of(const struct nccl_link *l)
{
    ncclResult_t state = ncclSuccess, asked = ncclSuccess;
    if (l->comm)
        asked = l->port->lib->ncclCommGetAsyncError(l->comm, &state);
    return asked == ncclSuccess ? state : asked;
}

/* Polls until the call of NCCL that returned `r` is complete. Unlocks the link while it sleeps. */
static enum status finish_call(struct nccl_link *l, ncclResult_t r, const char *call)
{
    const struct timespec rest = {.tv_nsec = POLL_NS};
    while (r == ncclInProgress) {
        pthread_mutex_unlock(&l->lock);
        nanosleep(&rest, NULL);
        pthread_mutex_lock(&l->lock);
        r = state_of(l);
    }
    return check_link(l, r, call);
}

/* --- groups --- */

static enum status port_id(const struct nccl_port *p, unsigned char id[NCCL_PORT_ID_BYTES])
{
    _Static_assert(sizeof(ncclUniqueId) == NCCL_PORT_ID_BYTES,
                   "NCCL_PORT_ID_BYTES must be the size of ncclUniqueId");
    ncclUniqueId unique;
    TRY(check(p, NULL, p->lib->ncclGetUniqueId(&unique), "ncclGetUniqueId"));
    memcpy(id, &unique, sizeof unique);
    return STATUS_OK;
}

static void port_close(struct nccl_link *l)
{
    if (l->comm)
        (void)l->port->lib->ncclCommDestroy(l->comm); /* after a failure nothing can be done */
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void port_abort(struct nccl_link *l)
{
    pthread_mutex_lock(&l->lock);
    if (l->comm)
        (void)l->port->lib->ncclCommAbort(l->comm);
    l->comm = NULL;
    pthread_mutex_unlock(&l->lock);
}

/* Opens the n ranks of this process in one NCCL group call. With separate calls of this thread, the
 * first could wait for the second. */
static enum status port_open(const struct nccl_port *p, int n, struct device *const *device,
                             int first, int size, const unsigned char id[NCCL_PORT_ID_BYTES],
                             struct nccl_link **link)
{
    enum status st;
    ncclResult_t r = ncclSuccess;
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    memset(link, 0, (size_t)n * sizeof *link);
    for (int i = 0; i < n; i++) {
        CHECK(array_new(&link[i], 1));
        *link[i] =
            (struct nccl_link){.port = p, .device = device[i], .rank = first + i, .size = size};
        pthread_mutex_init(&link[i]->lock, NULL);
    }
    CHECK(check(p, NULL, p->lib->ncclGroupStart(), "ncclGroupStart"));
    for (int i = 0; i < n && st == STATUS_OK && r == ncclSuccess; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        st = p->gpu->enter(device[i]);
        if (st == STATUS_OK)
            r = p->lib->ncclCommInitRankConfig(&link[i]->comm, size, unique, first + i, &config);
        if (r == ncclInProgress)
            r = ncclSuccess;
    }
    ncclResult_t ended = p->lib->ncclGroupEnd();
    if (r == ncclSuccess && ended != ncclInProgress)
        r = ended;
    st = st == STATUS_OK ? check(p, NULL, r, "ncclCommInitRankConfig") : st;
done:
    for (int i = 0; i < n && link[i] && st != STATUS_OK; i++) {
        port_abort(link[i]);
        port_close(link[i]);
        link[i] = NULL;
    }
    return st;
}

static enum status port_poll(struct nccl_link *l, bool *busy)
{
    pthread_mutex_lock(&l->lock);
    ncclResult_t r = state_of(l);
    *busy = r == ncclInProgress;
    enum status st = check_link(l, r, "NCCL");
    pthread_mutex_unlock(&l->lock);
    return st;
}

static enum status port_finish(struct nccl_link *l)
{
    ncclResult_t r = ncclSuccess;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->reused && l->comm; i++)
        /* If this fails, closing the link removes the registration. */
        (void)l->port->lib->ncclCommDeregister(l->comm, l->reuse[i]);
    if (l->comm)
        r = l->port->lib->ncclCommFinalize(l->comm);
    enum status st = check_link(l, r, "ncclCommFinalize");
    pthread_mutex_unlock(&l->lock);
    return st;
}

/* --- operations --- */

static const ncclDataType_t types[DTYPE_COUNT] = {[DTYPE_F32] = ncclFloat32,
                                                  [DTYPE_F16] = ncclFloat16,
                                                  [DTYPE_BF16] = (ncclDataType_t)NCCL_BFLOAT16,
                                                  [DTYPE_F64] = ncclFloat64,
                                                  [DTYPE_U8] = ncclUint8,
                                                  [DTYPE_I32] = ncclInt32};

/* Sets *r to NCCL's operation for the reduction; creates that of a sum scaled by op->factor at its
 * first use. */
static enum status reduction_of(struct nccl_link *l, const struct comm_op *op, ncclRedOp_t *r)
{
    static const ncclRedOp_t plain[] = {
        [COMM_SUM] = ncclSum, [COMM_MAX] = ncclMax, [COMM_MIN] = ncclMin, [COMM_AVG] = ncclAvg};
    *r = plain[op->reduction];
    if (op->factor == 0 || op->reduction != COMM_SUM)
        return STATUS_OK;
    struct scaled *s = l->scaled;
    while (s < l->scaled + l->scales && (s->type != op->type || s->factor != op->factor))
        s++;
    if (s == l->scaled + SCALED_MAX)
        return status_fail(STATUS_UNSUPPORTED,
                           "NCCL sums with more than %d different factors are not supported",
                           SCALED_MAX);
    if (s == l->scaled + l->scales) {
        double scalar; /* large enough for a value of any type */
        dtype_store(op->type, &scalar, 0, (double)op->factor);
        TRY(CALL(l, ncclRedOpCreatePreMulSum, &s->op, &scalar, types[op->type],
                 ncclScalarHostImmediate, l->comm));
        s->type = op->type;
        s->factor = op->factor;
        l->scales++;
    }
    *r = s->op;
    return STATUS_OK;
}

/* Starts an exchange as one group of sends and receives, which NCCL carries out together. */
static enum status start_exchange(struct nccl_link *l, const struct comm_op *op,
                                  cudaStream_t stream)
{
    const struct nccl_library *lib = l->port->lib;
    ncclDataType_t type = types[op->type];
    size_t n = (size_t)op->count;
    ncclResult_t r = ncclSuccess;
    TRY(check(l->port, l->comm, lib->ncclGroupStart(), "ncclGroupStart"));
    for (int i = 0; i < l->size && r == ncclSuccess; i++)
        if (exchange_sends(op, l->size, l->rank, i))
            r = lib->ncclSend(exchange_sent(op, i), n, type, i, l->comm, stream);
    for (int i = 0; i < l->size && r == ncclSuccess; i++)
        if (exchange_sends(op, l->size, i, l->rank))
            r = lib->ncclRecv(exchange_received(op, i), n, type, i, l->comm, stream);
    ncclResult_t ended = lib->ncclGroupEnd();
    return finish_call(l, r == ncclSuccess ? ended : r, "ncclSend and ncclRecv");
}

static enum status start_locked(struct nccl_link *l, const struct comm_op *op, cudaStream_t stream)
{
    const void *send = op->send;
    void *recv = op->recv;
    ncclDataType_t type = types[op->type];
    size_t n = (size_t)op->count;
    ncclRedOp_t sum;
    TRY(check_link(l, ncclSuccess, "NCCL"));
    TRY(reduction_of(l, op, &sum));
    switch (op->kind) {
    case COMM_ALLTOALL:
    case COMM_GATHER:
    case COMM_SCATTER:
    case COMM_SENDRECV:
        return start_exchange(l, op, stream);
    case COMM_BROADCAST:
        return CALL(l, ncclBroadcast, recv, recv, n, type, op->root, l->comm, stream);
    case COMM_REDUCE:
        return CALL(l, ncclReduce, send, recv, n, type, sum, op->root, l->comm, stream);
    case COMM_ALLGATHER:
        return CALL(l, ncclAllGather, send, recv, n, type, l->comm, stream);
    case COMM_REDUCE_SCATTER:
        return CALL(l, ncclReduceScatter, send, recv, n, type, sum, l->comm, stream);
    default:
        return CALL(l, ncclAllReduce, send, recv, n, type, sum, l->comm, stream);
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

/* Registers memory with NCCL. Ignores a failure: NCCL also moves unregistered memory. */
static enum status port_reuse(struct nccl_link *l, void *mem, size_t bytes)
{
    const struct nccl_library *lib = l->port->lib;
    TRY(l->port->gpu->enter(l->device));
    pthread_mutex_lock(&l->lock);
    if (l->comm && lib->ncclCommRegister && lib->ncclCommDeregister && l->reused < REUSED_MAX &&
        CALL(l, ncclCommRegister, l->comm, mem, bytes, &l->reuse[l->reused]) == STATUS_OK)
        l->reused++;
    pthread_mutex_unlock(&l->lock);
    return STATUS_OK;
}

enum status nccl_port_make(const struct nccl_library *lib, const struct nccl_gpu *gpu,
                           struct nccl_port **port)
{
    struct nccl_port *p;
    int v = 0;
    TRY(array_new(&p, 1));
    *p = (struct nccl_port){.lib = lib,
                            .gpu = gpu,
                            .id = port_id,
                            .open = port_open,
                            .poll = port_poll,
                            .start = port_start,
                            .reuse = port_reuse,
                            .abort = port_abort,
                            .finish = port_finish,
                            .close = port_close};
    if (lib->ncclGetVersion(&v) != ncclSuccess)
        v = 0;
    snprintf(p->name, sizeof p->name, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    *port = p;
    return STATUS_OK;
}
