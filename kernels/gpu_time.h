/* Predicts the time of kernels on a GPU that need not be present. Nothing here is measured.
 *
 * Roofline with fixed efficiencies (Williams, Waterman and Patterson, CACM 52(4), 2009) and a
 * cache:
 *
 *     seconds = max(bytes / (bytes_per_s * e), flops / (flops_per_s * f)) + 1e-6
 *             + copied bytes / (bytes_per_s * e)
 *
 * - copied bytes: read and written by a call of a library before and after its product
 *   (traffic_kernel.copies), by kernels of their own
 * - e: the share of a large copy's rate that a kernel reaches, 0.90 for own kernels and 0.85 for
 *   kernels of a library
 * - f: the share of a large product's rate, 0.70 for windows of one pixel and for linear layers,
 *   0.75 for larger windows, 0.30 for a window over an image's 4 channels
 * - 1e-6: the gap between two kernels of a CUDA graph, in seconds. The model ignores programmatic
 *   dependent launch (struct stream in backend.h), which can hide a part of the gap before each own
 *   kernel
 *
 * If an earlier kernel has left a tensor in the L2 cache, only 0.35 of the tensor's bytes are
 * counted as read from memory. The cache keeps the most recently used tensors, as many as fit in
 * 0.64 of its size. Writes are always counted.
 *
 * All these shares are assumptions. A profile of a real GPU shows for each kernel whether they
 * hold. */
#pragma once

#include "kernels/gpu_description.h"
#include "kernels/traffic.h"

enum { GPU_CACHE_TENSORS = 256 };

/* The tensors in the L2 cache, least recently used first. Zeroed: empty. */
struct gpu_cache {
    int n;
    double used;
    struct gpu_cached {
        const char *from; /* address in device memory */
        double bytes;
    } tensor[GPU_CACHE_TENSORS];
};

struct gpu_time {
    double seconds;
    double dram_bytes; /* that cross the memory bus */
    bool compute;      /* the products take longer than the transfers */
};

/* The time of one kernel of the operation `d`. `arg` has the addresses of the operation's tensors.
 * The function adds the tensors that the kernel accesses to `cache`. If `cache` is NULL, the kernel
 * reads everything from memory. */
struct gpu_time gpu_time_of(const struct gpu_description *gpu, const struct op_desc *d,
                            const struct traffic_kernel *k, struct gpu_cache *cache,
                            void *const arg[ROLE_COUNT]);
