/* The kernel that marks the boundary between operations of a profiled step. It also shows for which
 * compute capability all kernels were compiled. */
#include "kernels/cuda/kernels/launch.h"

static __global__ void profile_mark()
{
    await_previous();
}

enum status cu_profile_mark(const struct cu_queue *q)
{
    return launch("profile_mark", launch_config(q, 1, 32), profile_mark);
}

enum status cu_code_sm(int *sm)
{
    cudaFuncAttributes attributes = {};
    cudaError_t e = cudaFuncGetAttributes(&attributes, profile_mark);
    *sm = attributes.ptxVersion;
    return e == cudaSuccess ? STATUS_OK : cuda_error(e, "find the code of the program's kernels");
}
