/* A fake NCCL. Its ranks are threads of a local communicator (comm/local). Where NCCL enqueues an
 * operation on a stream, the fake enqueues a call. The call executes the operation on the local
 * communicator. */
#include "nccl_fake.h"

#include "async_device.h"
#include "values.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, GROUPS = 64, FACTORS = 8, LAZY_POLLS = 3 };

/* One rank of a communicator. */
struct ncclComm {
    struct comm *local;
    int rank, size, group;
    int lazy; /* number of further queries of the state that return ncclInProgress */
    int operations, pending;
    bool aborted, destroyed;
    ncclResult_t state;
    int factors; /* reduction FIRST_SCALED + i multiplies each value by factor[i], and then sums */
    double factor[FACTORS];
};
enum { FIRST_SCALED = 16 };

struct group {
    int size, joined;
    struct comm *local[RANKS];
};

/* Global, because NCCL's functions have no argument for a context. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int groups;
    struct group group[GROUPS];
    struct nccl_fake_plan plan;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

void nccl_fake_plan(const struct nccl_fake_plan *plan)
{
    pthread_mutex_lock(&fake.lock);
    fake.plan = *plan;
    pthread_mutex_unlock(&fake.lock);
}

/* --- groups --- */

static ncclResult_t get_version(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

static const char *get_error_string(ncclResult_t r)
{
    return r == ncclRemoteError    ? "remote process exited or there was a network error"
           : r == ncclInvalidUsage ? "invalid usage"
                                   : "unhandled system error";
}

static const char *get_last_error(ncclComm_t comm)
{
    return comm && comm->state == ncclRemoteError ? "lost rank 1\nand more lines" : "";
}

static ncclResult_t get_unique_id(ncclUniqueId *id)
{
    pthread_mutex_lock(&fake.lock);
    bool none = fake.plan.no_id;
    int number = ++fake.groups;
    pthread_mutex_unlock(&fake.lock);
    memset(id, 0, sizeof *id);
    memcpy(id, &number, sizeof number);
    return none || number >= GROUPS ? ncclSystemError : ncclSuccess;
}

static ncclResult_t comm_init_rank_config(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                          ncclConfig_t *config)
{
    int number;
    struct ncclComm *c = calloc(1, sizeof *c);
    memcpy(&number, &id, sizeof number);
    if (!c || config->blocking != 0 || ranks > RANKS)
        abort();
    pthread_mutex_lock(&fake.lock);
    struct group *g = &fake.group[number];
    if (g->size == 0 && comm_open_local(ranks, 0, g->local) != STATUS_OK)
        abort();
    g->size = ranks;
    g->joined++;
    *c = (struct ncclComm){
        .local = g->local[rank], .rank = rank, .size = ranks, .group = number, .lazy = LAZY_POLLS};
    pthread_mutex_unlock(&fake.lock);
    *out = c;
    return ncclInProgress;
}

static ncclResult_t comm_get_async_error(ncclComm_t c, ncclResult_t *result)
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

/* The lock is held. */
static void free_if_done(struct ncclComm *c)
{
    if (!c->destroyed || c->pending > 0)
        return;
    comm_close(c->local);
    free(c);
}

static ncclResult_t comm_destroy(ncclComm_t c)
{
    pthread_mutex_lock(&fake.lock);
    c->destroyed = true;
    free_if_done(c);
    pthread_mutex_unlock(&fake.lock);
    return ncclSuccess;
}

static ncclResult_t comm_abort(ncclComm_t c)
{
    pthread_mutex_lock(&fake.lock);
    c->aborted = true;
    pthread_cond_broadcast(&fake.change);
    comm_fail(c->local, STATUS_LIBRARY, "aborted");
    pthread_mutex_unlock(&fake.lock);
    return comm_destroy(c);
}

static ncclResult_t comm_finalize(ncclComm_t c)
{
    pthread_mutex_lock(&fake.lock);
    c->lazy = LAZY_POLLS;
    pthread_mutex_unlock(&fake.lock);
    return ncclInProgress;
}

/* --- operations --- */

/* A send or a receive. */
struct message {
    bool sends;
    int peer;
    void *mem;
    size_t bytes;
};

struct call {
    ncclComm_t comm;
    struct comm_op op; /* not used if `messages` > 0 */
    int messages;
    struct message message[2 * RANKS];
    double factor;
    bool hangs, breaks;
};

static enum dtype type_of(ncclDataType_t type)
{
    static const struct {
        int theirs;
        enum dtype ours;
    } types[] = {{ncclFloat16, DTYPE_F16}, {NCCL_BFLOAT16, DTYPE_BF16}, {ncclFloat64, DTYPE_F64},
                 {ncclUint8, DTYPE_U8},    {ncclInt32, DTYPE_I32},      {ncclFloat32, DTYPE_F32}};
    size_t i = 0;
    while (types[i].theirs != (int)type)
        i++;
    return types[i].ours;
}

static ncclResult_t create_scaled(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                  ncclScalarResidence_t residence, ncclComm_t comm)
{
    if (residence != ncclScalarHostImmediate || comm->factors == FACTORS)
        return ncclInvalidUsage;
    comm->factor[comm->factors] = element_get(type_of(type), scalar, 0);
    *op = (ncclRedOp_t)(FIRST_SCALED + comm->factors++);
    return ncclSuccess;
}

static void wait_for_abort(struct ncclComm *c)
{
    pthread_mutex_lock(&fake.lock);
    while (!c->aborted)
        pthread_cond_wait(&fake.change, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

/* Publishes the address of the data for each rank, and waits until all ranks have copied theirs. */
static bool carry_out_messages(const struct call *call)
{
    struct ncclComm *c = call->comm;
    const void *sent[RANKS] = {NULL}, *arrived[RANKS];
    struct comm_op publish = {COMM_ALLTOALL, .type = DTYPE_U8, .send = sent, .recv = arrived,
                              .count = sizeof *sent};
    struct comm_op copied = {COMM_BARRIER};
    for (int i = 0; i < call->messages; i++)
        if (call->message[i].sends)
            sent[call->message[i].peer] = call->message[i].mem;
    if (comm_run(c->local, &publish) != STATUS_OK)
        return false;
    for (int i = 0; i < call->messages; i++)
        if (!call->message[i].sends)
            memmove(call->message[i].mem, arrived[call->message[i].peer], call->message[i].bytes);
    return comm_run(c->local, &copied) == STATUS_OK;
}

/* Runs on the thread of the stream. */
static void carry_out(void *arg)
{
    struct call *call = arg;
    struct ncclComm *c = call->comm;
    void *scaled = NULL;
    if (call->factor != 0) {
        scaled = malloc((size_t)call->op.count * dtype_size(call->op.type) + 1);
        for (int64_t i = 0; i < call->op.count; i++)
            element_put(call->op.type, scaled, i,
                        call->factor * element_get(call->op.type, call->op.send, i));
        call->op.send = scaled;
    }
    pthread_mutex_lock(&fake.lock);
    if (call->breaks)
        c->state = ncclRemoteError;
    bool stands = call->hangs || call->breaks || c->aborted;
    pthread_mutex_unlock(&fake.lock);
    bool done = !stands && (call->messages > 0 ? carry_out_messages(call)
                                               : comm_run(c->local, &call->op) == STATUS_OK);
    if (!done)
        wait_for_abort(c);
    free(scaled);
    free(call);
    pthread_mutex_lock(&fake.lock);
    c->pending--;
    free_if_done(c);
    pthread_mutex_unlock(&fake.lock);
}

static ncclResult_t enqueue_call(ncclComm_t c, struct stream *s, const struct call *made)
{
    struct call *call = malloc(sizeof *call);
    if (!call)
        abort();
    *call = *made;
    pthread_mutex_lock(&fake.lock);
    const struct nccl_fake_plan *p = &fake.plan;
    int number = ++c->operations;
    call->hangs = p->hang_rank == c->rank && p->hang_op == number;
    call->breaks = p->broken_rank == c->rank && p->broken_op == number;
    bool refused = p->refused_rank == c->rank && p->refused_op == number;
    c->pending += !refused;
    c->lazy = number == 1 ? LAZY_POLLS : 0;
    pthread_mutex_unlock(&fake.lock);
    if (refused) {
        free(call);
        return ncclInvalidUsage;
    }
    if (async_device_call(s, carry_out, call) != STATUS_OK)
        abort();
    return number == 1 ? ncclInProgress : ncclSuccess;
}

static ncclResult_t enqueue(ncclComm_t c, cudaStream_t raw, struct comm_op op, ncclRedOp_t how)
{
    struct stream *s = (struct stream *)(void *)raw;
    op.send = async_device_inside(s->device, op.send);
    op.recv = async_device_inside(s->device, op.recv);
    op.reduction = how == ncclMax   ? COMM_MAX
                   : how == ncclMin ? COMM_MIN
                   : how == ncclAvg ? COMM_AVG
                                    : COMM_SUM;
    struct call call = {.comm = c, .op = op};
    if ((int)how >= FIRST_SCALED)
        call.factor = c->factor[(int)how - FIRST_SCALED];
    return enqueue_call(c, s, &call);
}

/* The sends and receives that this thread has started since ncclGroupStart. */
static _Thread_local struct {
    struct call call;
    struct stream *stream;
} group_of_messages;

static ncclResult_t group_start(void)
{
    group_of_messages.call = (struct call){0};
    return ncclSuccess;
}

static ncclResult_t group_end(void)
{
    const struct call *call = &group_of_messages.call;
    return call->messages > 0 ? enqueue_call(call->comm, group_of_messages.stream, call)
                              : ncclSuccess;
}

static ncclResult_t add_message(struct message m, ncclComm_t comm, cudaStream_t stream)
{
    struct call *call = &group_of_messages.call;
    struct stream *s = (struct stream *)(void *)stream;
    if (call->messages == 2 * RANKS || m.peer < 0 || m.peer >= comm->size)
        return ncclInvalidUsage;
    m.mem = async_device_inside(s->device, m.mem);
    call->comm = comm;
    call->message[call->messages++] = m;
    group_of_messages.stream = s;
    return ncclSuccess;
}

static struct comm_op op_of(enum comm_kind kind, const void *send, void *recv, size_t count,
                            ncclDataType_t type)
{
    return (struct comm_op){
        .kind = kind, .type = type_of(type), .send = send, .recv = recv, .count = (int64_t)count};
}

static ncclResult_t all_reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, op_of(COMM_ALLREDUCE, send, recv, count, type), how);
}

static ncclResult_t broadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                              int root, ncclComm_t comm, cudaStream_t stream)
{
    struct comm_op op = op_of(COMM_BROADCAST, NULL, recv, count, type);
    op.root = root;
    return send == recv ? enqueue(comm, stream, op, ncclSum) : ncclInvalidUsage;
}

static ncclResult_t reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t how, int root, ncclComm_t comm, cudaStream_t stream)
{
    struct comm_op op = op_of(COMM_REDUCE, send, recv, count, type);
    op.root = root;
    return enqueue(comm, stream, op, how);
}

static ncclResult_t all_gather(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, op_of(COMM_ALLGATHER, send, recv, count, type), ncclSum);
}

static ncclResult_t reduce_scatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, op_of(COMM_REDUCE_SCATTER, send, recv, count, type), how);
}

static ncclResult_t send_message(const void *send, size_t count, ncclDataType_t type, int peer,
                                 ncclComm_t comm, cudaStream_t stream)
{
    struct message m = {true, peer, (void *)(uintptr_t)send, count * dtype_size(type_of(type))};
    return add_message(m, comm, stream);
}

static ncclResult_t recv_message(void *recv, size_t count, ncclDataType_t type, int peer,
                                 ncclComm_t comm, cudaStream_t stream)
{
    struct message m = {false, peer, recv, count * dtype_size(type_of(type))};
    return add_message(m, comm, stream);
}

static ncclResult_t comm_register(const ncclComm_t comm, void *mem, size_t size, void **handle)
{
    (void)comm, (void)size;
    *handle = mem;
    return ncclSuccess;
}

static ncclResult_t comm_deregister(const ncclComm_t comm, void *handle)
{
    (void)comm;
    return handle ? ncclSuccess : ncclInvalidUsage;
}

/* --- the port --- */

static enum status enter(struct device *dev)
{
    (void)dev;
    return STATUS_OK;
}

static cudaStream_t raw(struct stream *s)
{
    return (cudaStream_t)(void *)s;
}

static enum status stream_open(struct device *dev, struct stream **s)
{
    return dev->backend->stream_open(dev, s);
}

static enum status event_passed(const struct event *e, bool *passed)
{
    *passed = async_device_passed(e);
    return STATUS_OK;
}

static void bus(struct device *dev, char out[NCCL_PORT_BUS_MAX])
{
    snprintf(out, NCCL_PORT_BUS_MAX, "0000:%02x:00.0", (unsigned)dev->index);
}

const struct nccl_gpu *nccl_fake_gpu(void)
{
    static const struct nccl_gpu gpu = {enter, raw, stream_open, event_passed, bus};
    return &gpu;
}

enum status nccl_fake_open(struct nccl_port **port)
{
    static const struct nccl_library lib = {
        .get_version = get_version,
        .get_unique_id = get_unique_id,
        .get_error_string = get_error_string,
        .get_last_error = get_last_error,
        .comm_init_rank_config = comm_init_rank_config,
        .comm_get_async_error = comm_get_async_error,
        .comm_finalize = comm_finalize,
        .comm_destroy = comm_destroy,
        .comm_abort = comm_abort,
        .group_start = group_start,
        .group_end = group_end,
        .red_op_create_pre_mul_sum = create_scaled,
        .all_reduce = all_reduce,
        .broadcast = broadcast,
        .reduce = reduce,
        .all_gather = all_gather,
        .reduce_scatter = reduce_scatter,
        .send = send_message,
        .recv = recv_message,
        .comm_register = comm_register,
        .comm_deregister = comm_deregister,
    };
    return nccl_port_make(&lib, nccl_fake_gpu(), port);
}
