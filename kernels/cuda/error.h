/* Inside kernels/cuda: what an error of CUDA's runtime comes to, in C and in CUDA C. */
#ifndef KERNELS_CUDA_ERROR_H
#define KERNELS_CUDA_ERROR_H

#include "base/status.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>

/* The device itself is broken: no program can cause these. */
static inline bool cuda_error_is_hardware(cudaError_t e)
{
    return e == cudaErrorECCUncorrectable || e == cudaErrorNvlinkUncorrectable;
}

/* Fails with "cannot <action>: <what the runtime says>": STATUS_OOM when memory is lacking,
 * STATUS_HARDWARE when the calling thread's device is broken, which is then named, and else
 * STATUS_LIBRARY. */
MUST_CHECK static inline enum status cuda_error(cudaError_t e, const char *action)
{
    int gpu = -1;
    if (e == cudaErrorMemoryAllocation)
        return status_fail(STATUS_OOM, "cannot %s: %s", action, cudaGetErrorString(e));
    if (!cuda_error_is_hardware(e))
        return status_fail(STATUS_LIBRARY, "cannot %s: %s", action, cudaGetErrorString(e));
    if (cudaGetDevice(&gpu) != cudaSuccess)
        cudaGetLastError(); /* the number stays unknown */
    return status_fail(STATUS_HARDWARE, "GPU %d is damaged: cannot %s: %s", gpu, action,
                       cudaGetErrorString(e));
}

#endif
