/* Loads NCCL. */
#include "comm/nccl/port.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset; /* in struct nccl_library */
    bool optional;
};

#define SYMBOL(name, member, optional)                                                             \
    {                                                                                              \
        name, offsetof(struct nccl_library, member), optional                                      \
    }

static const struct symbol symbols[] = {
    SYMBOL("ncclGetVersion", get_version, false),
    SYMBOL("ncclGetUniqueId", get_unique_id, false),
    SYMBOL("ncclGetErrorString", get_error_string, false),
    SYMBOL("ncclGetLastError", get_last_error, false),
    SYMBOL("ncclCommInitRankConfig", comm_init_rank_config, false),
    SYMBOL("ncclCommGetAsyncError", comm_get_async_error, false),
    SYMBOL("ncclCommFinalize", comm_finalize, false),
    SYMBOL("ncclCommDestroy", comm_destroy, false),
    SYMBOL("ncclCommAbort", comm_abort, false),
    SYMBOL("ncclGroupStart", group_start, false),
    SYMBOL("ncclGroupEnd", group_end, false),
    SYMBOL("ncclRedOpCreatePreMulSum", red_op_create_pre_mul_sum, false),
    SYMBOL("ncclAllReduce", all_reduce, false),
    SYMBOL("ncclBroadcast", broadcast, false),
    SYMBOL("ncclReduce", reduce, false),
    SYMBOL("ncclAllGather", all_gather, false),
    SYMBOL("ncclReduceScatter", reduce_scatter, false),
    SYMBOL("ncclSend", send, false),
    SYMBOL("ncclRecv", recv, false),
    SYMBOL("ncclCommRegister", comm_register, true),
    SYMBOL("ncclCommDeregister", comm_deregister, true),
};

enum status nccl_library_load(const char *file, struct nccl_library *lib)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return status_fail(STATUS_UNSUPPORTED,
                           "NCCL cannot be loaded (%s); install libnccl2, or use --comm host",
                           dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *at = dlsym(handle, symbols[i].name);
        if (!at && !symbols[i].optional)
            return status_fail(STATUS_UNSUPPORTED,
                               "'%s' has no '%s': it is not NCCL 2.14 or later; install a newer "
                               "libnccl2, or use --comm host",
                               file, symbols[i].name);
        memcpy((char *)lib + symbols[i].offset, &at, sizeof at);
    }
    return STATUS_OK;
}
