/* A fake NCCL. Where NCCL enqueues an operation on a stream, the fake enqueues a call, which
 * publishes the rank's part of the operation, waits for the parts of all ranks and computes the
 * result from them. */
#include "nccl_fake.h"

#include "values.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, GROUPS = 64, FACTORS = 8, LAZY_POLLS = 3 };
/* Reduction FIRST_SCALED + i multiplies each value by factor[i], and then sums. */
enum { FIRST_SCALED = 16 };

/* One rank of a communicator. */
struct ncclComm {
    int rank, size, group;
    int lazy; /* number of further queries of the state that return ncclInProgress */
    int operations, pending, registered, factors;
    bool aborted, finalized, destroyed;
    ncclResult_t state;
    double factor[FACTORS];
};

struct message {
    bool sends; /* else receives */
    int peer;
    void *mem;
    size_t bytes;
};

/* A rank's part of an operation. The kind COMM_SENDRECV stands for any group of messages. */
struct part {
    ncclComm_t comm;
    enum comm_kind kind;
    enum dtype type;
    size_t count;
    const void *send;
    void *recv;
    ncclRedOp_t reduction;
    int root;
    double factor;
    int messages;
    struct message message[2 * RANKS];
    enum nccl_fake_how fault;
};

struct group {
    int joined;
    int met, meetings; /* number of ranks in the current meeting, and of meetings before it */
    struct part part[RANKS];
};

/* Global, because NCCL's functions have no argument for a context. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int groups;
    struct group group[GROUPS];
    struct nccl_fake_fault fault;
    const struct nccl_fake_gpu *gpu;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

void nccl_fake_fail(const struct nccl_fake_fault *fault)
{
    pthread_mutex_lock(&fake.lock);
    fake.fault = *fault;
    pthread_mutex_unlock(&fake.lock);
}

static bool fails(const char *call)
{
    return fake.gpu->fails && fake.gpu->fails(call);
}

/* --- communicators --- */

static ncclResult_t fake_ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

static const char *fake_ncclGetErrorString(ncclResult_t r)
{
    return r == ncclRemoteError    ? "remote process exited or there was a network error"
           : r == ncclInvalidUsage ? "invalid usage"
                                   : "unhandled system error";
}

static const char *fake_ncclGetLastError(ncclComm_t comm)
{
    return comm && comm->state == ncclRemoteError ? "lost rank 1\nand more lines" : "";
}

static ncclResult_t fake_ncclGetUniqueId(ncclUniqueId *id)
{
    pthread_mutex_lock(&fake.lock);
    bool none = fake.fault.how == NCCL_FAKE_NO_ID;
    int number = fake.groups++;
    pthread_mutex_unlock(&fake.lock);
    memset(id, 0, sizeof *id);
    memcpy(id, &number, sizeof number);
    return none || fails("ncclGetUniqueId") || number >= GROUPS ? ncclSystemError : ncclSuccess;
}

static ncclResult_t fake_ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id,
                                                int rank, ncclConfig_t *config)
{
    int number;
    memcpy(&number, &id, sizeof number);
    if (fails("ncclCommInitRankConfig"))
        return ncclSystemError;
    if (ranks > fake.gpu->most_ranks || ranks > RANKS || rank >= ranks || config->blocking != 0)
        return ncclInvalidUsage;
    struct ncclComm *c = calloc(1, sizeof *c);
    *c = (struct ncclComm){.rank = rank, .size = ranks, .group = number, .lazy = LAZY_POLLS};
    pthread_mutex_lock(&fake.lock);
    fake.group[number].joined++;
    pthread_mutex_unlock(&fake.lock);
    *out = c;
    return ncclInProgress;
}

static ncclResult_t fake_ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *result)
{
    pthread_mutex_lock(&fake.lock);
    bool all_here = fake.group[c->group].joined == c->size;
    *result = c->state;
    if (*result == ncclSuccess && (!all_here || c->lazy > 0))
        *result = ncclInProgress;
    if (all_here && c->lazy > 0)
        c->lazy--;
    pthread_mutex_unlock(&fake.lock);
    return ncclSuccess;
}

static ncclResult_t fake_ncclCommFinalize(ncclComm_t c)
{
    if (fails("ncclCommFinalize"))
        return ncclSystemError;
    pthread_mutex_lock(&fake.lock);
    c->lazy = LAZY_POLLS;
    c->finalized = true;
    pthread_mutex_unlock(&fake.lock);
    return c->registered == 0 ? ncclInProgress : ncclInvalidUsage;
}

/* The lock is held. */
static void free_if_done(struct ncclComm *c)
{
    if (c->destroyed && c->pending == 0)
        free(c);
}

static ncclResult_t fake_ncclCommAbort(ncclComm_t c)
{
    pthread_mutex_lock(&fake.lock);
    c->aborted = c->destroyed = true;
    pthread_cond_broadcast(&fake.change);
    free_if_done(c);
    pthread_mutex_unlock(&fake.lock);
    return ncclSuccess;
}

static ncclResult_t fake_ncclCommDestroy(ncclComm_t c)
{
    if (fails("ncclCommDestroy"))
        return ncclSystemError;
    if (!c->finalized)
        abort();
    return fake_ncclCommAbort(c);
}

static ncclResult_t fake_ncclCommRegister(const ncclComm_t comm, void *mem, size_t size,
                                          void **handle)
{
    (void)size;
    if (fails("ncclCommRegister"))
        return ncclSystemError;
    *handle = mem;
    comm->registered++;
    return ncclSuccess;
}

static ncclResult_t fake_ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    comm->registered -= handle != NULL;
    return ncclSuccess;
}

/* --- execution, on the thread of a stream --- */

/* Waits until all ranks of the group meet. Returns false if the rank was aborted before that. */
static bool meet(struct ncclComm *c)
{
    struct group *g = &fake.group[c->group];
    pthread_mutex_lock(&fake.lock);
    int meeting = g->meetings;
    bool comes = !c->aborted;
    g->met += comes;
    if (comes && g->met == c->size) {
        g->met = 0;
        g->meetings++;
        pthread_cond_broadcast(&fake.change);
    }
    while (g->meetings == meeting && !c->aborted)
        pthread_cond_wait(&fake.change, &fake.lock);
    bool all_met = g->meetings != meeting;
    g->met -= comes && !all_met;
    pthread_mutex_unlock(&fake.lock);
    return all_met;
}

static double operand(const struct part *p, size_t i)
{
    return p->factor * element_get(p->type, p->send, (int64_t)i);
}

/* Element i of the result of a rank, from the parts of all ranks. */
static double element(const struct part *own, const struct part *part, size_t i)
{
    size_t n = own->count;
    if (own->kind == COMM_BROADCAST)
        return operand(&part[own->root], i);
    if (own->kind == COMM_ALLGATHER)
        return operand(&part[i / n], i % n);
    size_t at = own->kind == COMM_REDUCE_SCATTER ? (size_t)own->comm->rank * n + i : i;
    double result = operand(&part[0], at);
    for (int r = 1; r < own->comm->size; r++) {
        double x = operand(&part[r], at);
        if (own->reduction == ncclMax || own->reduction == ncclMin)
            result = (own->reduction == ncclMax) == (x > result) ? x : result;
        else
            result += x;
    }
    return own->reduction == ncclAvg ? result / own->comm->size : result;
}

static void receive(const struct part *own, const struct part *part)
{
    for (int i = 0; i < own->messages; i++) {
        const struct message *m = &own->message[i];
        const struct part *peer = &part[m->peer];
        for (int k = 0; k < peer->messages && !m->sends; k++)
            if (peer->message[k].sends && peer->message[k].peer == own->comm->rank)
                memcpy(m->mem, peer->message[k].mem, m->bytes);
    }
}

static void execute(const struct part *own)
{
    struct ncclComm *c = own->comm;
    const struct part *part = fake.group[c->group].part;
    size_t n = own->kind == COMM_ALLGATHER ? (size_t)c->size * own->count : own->count;
    char *result = malloc(n * dtype_size(own->type) + 1);
    bool met = meet(c), written = own->kind != COMM_REDUCE || own->root == c->rank;
    for (size_t i = 0; i < n && met && own->messages == 0; i++)
        element_put(own->type, result, (int64_t)i, element(own, part, i));
    if (met)
        receive(own, part);
    if (met && meet(c) && written && own->messages == 0)
        memcpy(own->recv, result, n * dtype_size(own->type));
    free(result);
}

static void run(void *context)
{
    struct part *p = context;
    struct ncclComm *c = p->comm;
    pthread_mutex_lock(&fake.lock);
    fake.group[c->group].part[c->rank] = *p;
    if (p->fault == NCCL_FAKE_BREAKS)
        c->state = ncclRemoteError;
    while (p->fault != NCCL_FAKE_SOUND && !c->aborted)
        pthread_cond_wait(&fake.change, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    if (p->fault == NCCL_FAKE_SOUND)
        execute(p);
    free(p);
    pthread_mutex_lock(&fake.lock);
    c->pending--;
    free_if_done(c);
    pthread_mutex_unlock(&fake.lock);
}

/* --- operations --- */

static enum dtype type_of(ncclDataType_t type)
{
    static const enum dtype types[] = {
        [ncclFloat16] = DTYPE_F16, [NCCL_BFLOAT16] = DTYPE_BF16, [ncclFloat64] = DTYPE_F64,
        [ncclUint8] = DTYPE_U8,    [ncclInt32] = DTYPE_I32,      [ncclFloat32] = DTYPE_F32};
    return types[type];
}

static ncclResult_t fake_ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                  ncclDataType_t type,
                                                  ncclScalarResidence_t residence, ncclComm_t comm)
{
    if (residence != ncclScalarHostImmediate || comm->factors == FACTORS)
        return ncclInvalidUsage;
    comm->factor[comm->factors] = element_get(type_of(type), scalar, 0);
    *op = (ncclRedOp_t)(FIRST_SCALED + comm->factors++);
    return ncclSuccess;
}

static ncclResult_t start(const char *call, struct part p, cudaStream_t s)
{
    struct ncclComm *c = p.comm;
    if (fails(call))
        return ncclSystemError;
    p.factor = (int)p.reduction >= FIRST_SCALED ? c->factor[(int)p.reduction - FIRST_SCALED] : 1;
    p.send = fake.gpu->inside(s, p.send);
    p.recv = fake.gpu->inside(s, p.recv);
    pthread_mutex_lock(&fake.lock);
    int number = ++c->operations;
    if (fake.fault.rank == c->rank && fake.fault.operation == number)
        p.fault = fake.fault.how;
    bool refused = c->finalized || p.fault == NCCL_FAKE_REFUSES;
    c->pending += !refused;
    c->lazy = number == 1 ? LAZY_POLLS : 0;
    pthread_mutex_unlock(&fake.lock);
    if (refused)
        return ncclInvalidUsage;
    struct part *copy = malloc(sizeof p);
    *copy = p;
    if (!fake.gpu->put(s, run, copy))
        abort();
    return number == 1 ? ncclInProgress : ncclSuccess;
}

#define DATA  const void *send, void *recv, size_t n, ncclDataType_t type
#define PLACE ncclComm_t c, cudaStream_t s
#define COLLECTIVE(name, kind, params, ...)                                                        \
    static ncclResult_t fake_##name params                                                         \
    {                                                                                              \
        struct part p = {c, kind, type_of(type), n, send, recv, __VA_ARGS__};                      \
        return start(#name, p, s);                                                                 \
    }
COLLECTIVE(ncclAllReduce, COMM_ALLREDUCE, (DATA, ncclRedOp_t how, PLACE), .reduction = how)
COLLECTIVE(ncclBroadcast, COMM_BROADCAST, (DATA, int root, PLACE), .root = root)
COLLECTIVE(ncclReduce, COMM_REDUCE, (DATA, ncclRedOp_t how, int root, PLACE), .reduction = how,
           .root = root)
COLLECTIVE(ncclAllGather, COMM_ALLGATHER, (DATA, PLACE), .root = 0)
COLLECTIVE(ncclReduceScatter, COMM_REDUCE_SCATTER, (DATA, ncclRedOp_t how, PLACE), .reduction = how)

/* The sends and receives that this thread has started since ncclGroupStart. */
static _Thread_local struct {
    struct part part;
    cudaStream_t stream;
} messages;

static ncclResult_t fake_ncclGroupStart(void)
{
    messages.part = (struct part){.kind = COMM_SENDRECV};
    return ncclSuccess;
}

static ncclResult_t fake_ncclGroupEnd(void)
{
    bool none = messages.part.messages == 0;
    return none ? ncclSuccess : start("ncclGroupEnd", messages.part, messages.stream);
}

static ncclResult_t add_message(bool sends, int peer, void *mem, size_t bytes, PLACE)
{
    struct part *p = &messages.part;
    if (p->messages == 2 * RANKS || peer < 0 || peer >= c->size)
        return ncclInvalidUsage;
    p->comm = c;
    p->message[p->messages++] = (struct message){sends, peer, fake.gpu->inside(s, mem), bytes};
    messages.stream = s;
    return ncclSuccess;
}

static ncclResult_t fake_ncclSend(const void *mem, size_t n, ncclDataType_t type, int peer, PLACE)
{
    return add_message(true, peer, (void *)mem, n * dtype_size(type_of(type)), c, s);
}

static ncclResult_t fake_ncclRecv(void *mem, size_t n, ncclDataType_t type, int peer, PLACE)
{
    return add_message(false, peer, mem, n * dtype_size(type_of(type)), c, s);
}

const struct nccl_library *nccl_fake_library(const struct nccl_fake_gpu *gpu)
{
#define FAKE(name) .name = fake_##name,
    static const struct nccl_library library = {NCCL_FUNCTIONS(FAKE) FAKE(ncclCommRegister)
                                                    FAKE(ncclCommDeregister)};
    fake.gpu = gpu;
    return &library;
}
