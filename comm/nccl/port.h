/* Inside the CUDA module: implements the calls of comm/nccl_port.h by NCCL. The library is loaded
 * only when a port is first requested, because a machine with one GPU need not have NCCL. */
#pragma once

#include "comm/nccl_port.h"

#include <nccl.h>

/* The value of ncclBfloat16, which older headers define only for C++. */
enum { NCCL_BFLOAT16 = 9 };

/* Applies the macro F to each function of nccl.h that the port calls. */
#define NCCL_FUNCTIONS(F)                                                                          \
    F(ncclGetVersion)                                                                              \
    F(ncclGetUniqueId)                                                                             \
    F(ncclGetErrorString)                                                                          \
    F(ncclGetLastError)                                                                            \
    F(ncclCommInitRankConfig)                                                                      \
    F(ncclCommGetAsyncError)                                                                       \
    F(ncclCommFinalize)                                                                            \
    F(ncclCommDestroy)                                                                             \
    F(ncclCommAbort)                                                                               \
    F(ncclGroupStart)                                                                              \
    F(ncclGroupEnd)                                                                                \
    F(ncclRedOpCreatePreMulSum)                                                                    \
    F(ncclAllReduce)                                                                               \
    F(ncclBroadcast)                                                                               \
    F(ncclReduce)                                                                                  \
    F(ncclAllGather)                                                                               \
    F(ncclReduceScatter)                                                                           \
    F(ncclSend)                                                                                    \
    F(ncclRecv)

struct nccl_library {
#define NCCL_MEMBER(function) __typeof__(function) *function;
    NCCL_FUNCTIONS(NCCL_MEMBER)
    /* NULL before NCCL 2.19, whose header does not declare them. */
    ncclResult_t (*ncclCommRegister)(const ncclComm_t comm, void *mem, size_t size, void **handle);
    ncclResult_t (*ncclCommDeregister)(const ncclComm_t comm, void *handle);
};

/* Loads the library `file`, "libnccl.so.2"; the library stays loaded. STATUS_UNSUPPORTED: the
 * library is missing or too old. */
MUST_CHECK enum status nccl_library_load(const char *file, struct nccl_library *lib);

/* Creates a port that uses `lib` and `gpu`, which must outlive it. */
MUST_CHECK enum status nccl_port_make(const struct nccl_library *lib, const struct nccl_gpu *gpu,
                                      struct nccl_port **port);
