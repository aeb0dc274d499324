/* Inside kernels/cuda: the status and the message of an error of CUDA's runtime, in C and in CUDA
 * C. */
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>

/* Whether the error shows that the device is broken; no program can cause such an error. */
static inline bool cuda_error_is_hardware(cudaError_t e)
{
    return e == cudaErrorECCUncorrectable || e == cudaErrorNvlinkUncorrectable;
}

/* Fails with "cannot <action>: <the runtime's reason>": STATUS_OOM without enough memory,
 * STATUS_HARDWARE if the calling thread's device is broken, which the message names, else
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
