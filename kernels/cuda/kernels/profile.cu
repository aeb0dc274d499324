/* The kernel that marks the boundary between operations of a profiled step. */
#include "kernels/cuda/kernels/launch.h"

static __global__ void profile_mark()
{
}

enum status cu_profile_mark(const struct cu_queue *q)
{
    return launch("profile_mark", launch_config(q, 1, 32), profile_mark);
}
