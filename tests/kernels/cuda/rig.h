/* Launches of single kernels through the shim. */
#pragma once

#include "kernels/cuda/kernels.h"

/* Returns a queue for launches in the shim. Its device has few multiprocessors, so a kernel's loops
 * run more than once. */
static inline struct cu_queue shim_queue(void)
{
    return (struct cu_queue){.stream = NULL, .multiprocessors = 1};
}
