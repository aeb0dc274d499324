/* NCCL on the fake GPU, for a group of one rank. With one rank, every collective is a copy. A
 * communicator must be finalized before it is destroyed, and its memory deregistered. Without
 * AMPSCALE_FAKE_NCCL in the environment, the fake GPU has no NCCL. */
#include <nccl.h>

extern "C" {
#include "comm/nccl/port.h"
}

#include "inject.h"

#include <set>
#include <stdlib.h>

struct ncclComm {
    bool finalized = false;
    std::set<void *> registered;
};

namespace
{

#define FAKE_NCCL(call)                                                                            \
    if (fake_fails(call))                                                                          \
    return ncclSystemError

ncclResult_t get_version(int *version)
{
    *version = NCCL_VERSION(2, 28, 9);
    return ncclSuccess;
}

ncclResult_t get_unique_id(ncclUniqueId *id)
{
    FAKE_NCCL("ncclGetUniqueId");
    *id = {};
    return ncclSuccess;
}

const char *get_error_string(ncclResult_t r)
{
    return r == ncclSystemError ? "unhandled system error" : "invalid usage";
}

const char *get_last_error(ncclComm_t)
{
    return "";
}

ncclResult_t comm_init_rank_config(ncclComm_t *c, int ranks, ncclUniqueId, int rank,
                                   ncclConfig_t *config)
{
    FAKE_NCCL("ncclCommInitRankConfig");
    if (ranks != 1 || rank != 0 || config->blocking != 0)
        return ncclInvalidUsage;
    *c = new ncclComm;
    return ncclSuccess;
}

ncclResult_t comm_get_async_error(ncclComm_t, ncclResult_t *r)
{
    *r = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t comm_finalize(ncclComm_t c)
{
    FAKE_NCCL("ncclCommFinalize");
    c->finalized = true;
    return c->registered.empty() ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t comm_destroy(ncclComm_t c)
{
    FAKE_NCCL("ncclCommDestroy");
    if (!c->finalized)
        abort();
    delete c;
    return ncclSuccess;
}

ncclResult_t comm_abort(ncclComm_t c)
{
    delete c;
    return ncclSuccess;
}

ncclResult_t group()
{
    return ncclSuccess;
}

/* A function that only groups of several ranks need. */
template <typename... Arguments> ncclResult_t refuse(Arguments...)
{
    return ncclInvalidUsage;
}

size_t size_of(ncclDataType_t type)
{
    return type == ncclFloat64                           ? 8
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclUint8                           ? 1
                                                         : 4;
}

ncclResult_t copy(const char *call, const void *send, void *recv, size_t count, ncclDataType_t type,
                  ncclComm_t c, cudaStream_t s)
{
    FAKE_NCCL(call);
    if (c->finalized)
        return ncclInvalidUsage;
    if (send != recv && cudaMemcpyAsync(recv, send, count * size_of(type), cudaMemcpyDeviceToDevice,
                                        s) != cudaSuccess)
        return ncclUnhandledCudaError;
    return ncclSuccess;
}

ncclResult_t all_reduce(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t,
                        ncclComm_t c, cudaStream_t s)
{
    return copy("ncclAllReduce", send, recv, n, type, c, s);
}

ncclResult_t broadcast(const void *send, void *recv, size_t n, ncclDataType_t type, int,
                       ncclComm_t c, cudaStream_t s)
{
    return copy("ncclBroadcast", send, recv, n, type, c, s);
}

ncclResult_t reduce(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t, int,
                    ncclComm_t c, cudaStream_t s)
{
    return copy("ncclReduce", send, recv, n, type, c, s);
}

ncclResult_t all_gather(const void *send, void *recv, size_t n, ncclDataType_t type, ncclComm_t c,
                        cudaStream_t s)
{
    return copy("ncclAllGather", send, recv, n, type, c, s);
}

ncclResult_t reduce_scatter(const void *send, void *recv, size_t n, ncclDataType_t type,
                            ncclRedOp_t, ncclComm_t c, cudaStream_t s)
{
    return copy("ncclReduceScatter", send, recv, n, type, c, s);
}

ncclResult_t comm_register(const ncclComm_t c, void *mem, size_t, void **handle)
{
    FAKE_NCCL("ncclCommRegister");
    *handle = mem;
    c->registered.insert(mem);
    return ncclSuccess;
}

ncclResult_t comm_deregister(const ncclComm_t c, void *handle)
{
    return c->registered.erase(handle) ? ncclSuccess : ncclInvalidArgument;
}

} // namespace

enum status nccl_library_load(const char *, struct nccl_library *lib)
{
    if (!getenv("AMPSCALE_FAKE_NCCL"))
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module was built without NCCL; use --comm host");
    *lib = {get_version,
            get_unique_id,
            get_error_string,
            get_last_error,
            comm_init_rank_config,
            comm_get_async_error,
            comm_finalize,
            comm_destroy,
            comm_abort,
            group,
            group,
            refuse,
            all_reduce,
            broadcast,
            reduce,
            all_gather,
            reduce_scatter,
            refuse,
            refuse,
            comm_register,
            comm_deregister};
    return STATUS_OK;
}
