/* Inside the CUDA module: NCCL, loaded when it is first asked for, so that a machine with one GPU
 * needs none. */
#ifndef COMM_NCCL_LIBRARY_H
#define COMM_NCCL_LIBRARY_H

#include "base/status.h"

#include <nccl.h>

/* ncclBfloat16, which older headers name for C++ alone. */
enum { NCCL_BFLOAT16 = 9 };

/* The calls of nccl.h that are used, by their names there. */
struct nccl_library {
    ncclResult_t (*get_version)(int *version);
    ncclResult_t (*get_unique_id)(ncclUniqueId *id);
    const char *(*get_error_string)(ncclResult_t result);
    const char *(*get_last_error)(ncclComm_t comm);
    ncclResult_t (*comm_init_rank_config)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                          ncclConfig_t *config);
    ncclResult_t (*comm_get_async_error)(ncclComm_t comm, ncclResult_t *result);
    ncclResult_t (*comm_finalize)(ncclComm_t comm);
    ncclResult_t (*comm_destroy)(ncclComm_t comm);
    ncclResult_t (*comm_abort)(ncclComm_t comm);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*red_op_create_pre_mul_sum)(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                              ncclScalarResidence_t residence, ncclComm_t comm);
    ncclResult_t (*all_reduce)(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*broadcast)(const void *send, void *recv, size_t count, ncclDataType_t type,
                              int root, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*reduce)(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*all_gather)(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*reduce_scatter)(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
    /* NULL before NCCL 2.19. */
    ncclResult_t (*comm_register)(const ncclComm_t comm, void *mem, size_t size, void **handle);
    ncclResult_t (*comm_deregister)(const ncclComm_t comm, void *handle);
};

/* Loads the library `file`, "libnccl.so.2"; it stays loaded. STATUS_UNSUPPORTED with one line where
 * it is missing or too old. */
MUST_CHECK enum status nccl_library_load(const char *file, struct nccl_library *lib);

#endif
