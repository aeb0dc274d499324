/* Inside the CUDA module: implements the calls of comm/nccl_port.h by NCCL. The library is loaded
 * only when a port is first requested, because a machine with one GPU need not have NCCL. */
#pragma once

#include "comm/nccl_port.h"

#include <nccl.h>

/* The value of ncclBfloat16, which older headers define only for C++. */
enum { NCCL_BFLOAT16 = 9 };

/* The functions of nccl.h that the port calls. */
struct nccl_library {
    __typeof__(ncclGetVersion) *get_version;
    __typeof__(ncclGetUniqueId) *get_unique_id;
    __typeof__(ncclGetErrorString) *get_error_string;
    __typeof__(ncclGetLastError) *get_last_error;
    __typeof__(ncclCommInitRankConfig) *comm_init_rank_config;
    __typeof__(ncclCommGetAsyncError) *comm_get_async_error;
    __typeof__(ncclCommFinalize) *comm_finalize;
    __typeof__(ncclCommDestroy) *comm_destroy;
    __typeof__(ncclCommAbort) *comm_abort;
    __typeof__(ncclGroupStart) *group_start;
    __typeof__(ncclGroupEnd) *group_end;
    __typeof__(ncclRedOpCreatePreMulSum) *red_op_create_pre_mul_sum;
    __typeof__(ncclAllReduce) *all_reduce;
    __typeof__(ncclBroadcast) *broadcast;
    __typeof__(ncclReduce) *reduce;
    __typeof__(ncclAllGather) *all_gather;
    __typeof__(ncclReduceScatter) *reduce_scatter;
    __typeof__(ncclSend) *send;
    __typeof__(ncclRecv) *recv;
    /* NULL before NCCL 2.19. */
    ncclResult_t (*comm_register)(const ncclComm_t comm, void *mem, size_t size, void **handle);
    ncclResult_t (*comm_deregister)(const ncclComm_t comm, void *handle);
};

/* Loads the library `file`, "libnccl.so.2"; the library stays loaded. STATUS_UNSUPPORTED: the
 * library is missing or too old. */
MUST_CHECK enum status nccl_library_load(const char *file, struct nccl_library *lib);

/* Functions of the CUDA backend that the port calls. */
struct nccl_gpu {
    /* Makes the device current for the calling thread. */
    enum status (*enter)(struct device *dev);
    cudaStream_t (*raw)(struct stream *s);
    /* As in struct nccl_port. */
    enum status (*stream_open)(struct device *dev, struct stream **s);
    enum status (*event_passed)(const struct event *e, bool *passed);
    void (*bus)(struct device *dev, char out[NCCL_PORT_BUS_MAX]);
};

/* Creates a port that uses the library `lib` and the functions `gpu`. `lib` is copied; `gpu` must
 * outlive the port. */
MUST_CHECK enum status nccl_port_make(const struct nccl_library *lib, const struct nccl_gpu *gpu,
                                      struct nccl_port **port);
