/* A definition of shim_launch that executes each kernel before it returns, and ignores streams. */
#include "cuda_runtime.h"

cudaError_t shim_launch(const cudaLaunchConfig_t *config, void (*body)(const void *),
                        const void *context, size_t)
{
    if (!shim_grid_valid(config->gridDim, config->blockDim))
        return cudaErrorInvalidConfiguration;
    shim_run(config->gridDim, config->blockDim, body, context);
    return cudaSuccess;
}

cudaError_t shim_attributes(cudaFuncAttributes *attributes)
{
    attributes->ptxVersion = 90;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *index)
{
    *index = 0;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : "invalid configuration argument";
}
