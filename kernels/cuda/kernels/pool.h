/* Walking over an NHWC tensor a pixel and a unit of channels at a time. */
#ifndef KERNELS_CUDA_KERNELS_POOL_H
#define KERNELS_CUDA_KERNELS_POOL_H

#include "kernels/cuda/kernels/launch.h"

struct pool_place {
    int n, h, w;
    int c, count; /* the unit's first channel, and how many it has */
};

/* Units of all pixels of a side, `size` being its height and width. */
static __host__ __device__ inline int64_t pool_units(const struct cu_pool &p, const int size[2])
{
    return (int64_t)p.n * size[0] * size[1] * ((p.c + UNIT - 1) / UNIT);
}

static __device__ inline struct pool_place pool_place_of(const struct cu_pool &p, const int size[2],
                                                         int64_t i)
{
    struct pool_place o;
    int units = (p.c + UNIT - 1) / UNIT;
    int64_t pixel = i / units;
    o.c = (int)(i % units) * UNIT;
    o.count = unit_count(p.c, o.c);
    o.w = (int)(pixel % size[1]);
    o.h = (int)(pixel / size[1] % size[0]);
    o.n = (int)(pixel / size[1] / size[0]);
    return o;
}

/* Where the unit's channels of pixel (h, w) of the same image begin. */
static __device__ inline int64_t pool_at(const struct cu_pool &p, const int size[2],
                                         const struct pool_place &o, int h, int w)
{
    return (((int64_t)o.n * size[0] + h) * size[1] + w) * p.c + o.c;
}

#endif
