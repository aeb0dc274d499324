/* Converts an error of the CUDA runtime to a status and a message. For sources in C and CUDA C
 * inside kernels/cuda/ only. */
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>

/* Whether the error shows that the device is broken; no program can cause such an error. */
static inline bool cuda_error_is_hardware(cudaError_t e)
{
    return e == cudaErrorECCUncorrectable || e == cudaErrorNvlinkUncorrectable;
}

/* Fails with "cannot <action>: <the runtime's reason>": STATUS_OOM if memory is short,
 * STATUS_HARDWARE if the calling thread's device is broken (the message then names the device),
 * else STATUS_LIBRARY. */
MUST_CHECK static inline enum status cuda_error(cudaError_t e, const char *action)
{
    int gpu = -1;
    if (e == cudaErrorMemoryAllocation)
        return status_fail(STATUS_OOM, "cannot %s: %s", action, cudaGetErrorString(e));
    if (!cuda_error_is_hardware(e))
        return status_fail(STATUS_LIBRARY, "cannot %s: %s", action, cudaGetErrorString(e));
    if (cudaGetDevice(&gpu) != cudaSuccess)
        cudaGetLastError(); /* clears this error; the message then has GPU -1 */
    return status_fail(STATUS_HARDWARE, "GPU %d is damaged: cannot %s: %s", gpu, action,
                       cudaGetErrorString(e));
}
