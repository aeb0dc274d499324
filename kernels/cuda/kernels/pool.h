/* Walking over an NHWC tensor a pixel and a unit of channels at a time. A block takes a row of
 * pixels at a time: a division of 64 bits for each unit would take longer than its memory does. */
#ifndef KERNELS_CUDA_KERNELS_POOL_H
#define KERNELS_CUDA_KERNELS_POOL_H

#include "kernels/cuda/kernels/launch.h"

struct pool_place {
    int n, h, w;
    int c, count; /* the unit's first channel, and how many it has */
};

/* Rows of pixels of all images on a side, `size` being its height and width. */
static __host__ __device__ inline int64_t pool_rows(const struct cu_pool &p, const int size[2])
{
    return (int64_t)p.n * size[0];
}

static __device__ inline int pool_units(const struct cu_pool &p)
{
    return (p.c + UNIT - 1) / UNIT;
}

/* Unit `i` of a row. */
static __device__ inline struct pool_place pool_place_of(const struct cu_pool &p, const int size[2],
                                                         int64_t row, int i)
{
    struct pool_place o;
    int units = pool_units(p);
    o.n = (int)(row / size[0]);
    o.h = (int)(row % size[0]);
    o.w = i / units;
    o.c = i % units * UNIT;
    o.count = unit_count(p.c, o.c);
    return o;
}

/* A loop over all units of a side, `o` being the place of one. */
#define FOR_EACH_POOL_UNIT(p, size, o)                                                             \
    for (int64_t row_ = blockIdx.x; row_ < pool_rows((p), (size)); row_ += gridDim.x)              \
        for (int i_ = (int)threadIdx.x; i_ < (size)[1] * pool_units(p); i_ += THREADS)             \
            if (struct pool_place o = pool_place_of((p), (size), row_, i_); o.count > 0)

static inline cudaLaunchConfig_t launch_pool(const struct cu_queue *q, const struct cu_pool *p,
                                             const int size[2])
{
    return launch_loop(q, pool_rows(*p, size), 1);
}

/* Where the unit's channels of pixel (h, w) of the same image begin. */
static __device__ inline int64_t pool_at(const struct cu_pool &p, const int size[2],
                                         const struct pool_place &o, int h, int w)
{
    return (((int64_t)o.n * size[0] + h) * size[1] + w) * p.c + o.c;
}

#endif
