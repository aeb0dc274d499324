/* Loops over an NHWC tensor by pixels and units of channels. A block processes a row of pixels at a
 * time, because otherwise each unit would need a 64-bit division, which takes longer than the
 * unit's memory access. */
#pragma once

#include "kernels/cuda/kernels/launch.h"

struct pool_place {
    int n, h, w;
    int c, count; /* the unit's first channel, and its number of channels */
};

/* Number of pixel rows in all images of X or Y; `size` is the height and width of one image. */
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

/* A loop over all units of X or Y; `o` is the place of the current unit. */
#define FOR_EACH_POOL_UNIT(p, size, o)                                                             \
    for (int64_t row_ = blockIdx.x; row_ < pool_rows((p), (size)); row_ += gridDim.x)              \
        for (int i_ = (int)threadIdx.x; i_ < (size)[1] * pool_units(p); i_ += THREADS)             \
            if (struct pool_place o = pool_place_of((p), (size), row_, i_); o.count > 0)

static inline cudaLaunchConfig_t launch_pool(const struct cu_queue *q, const struct cu_pool *p,
                                             const int size[2])
{
    return launch_loop(q, pool_rows(*p, size), 1);
}

/* Offset of the unit's channels at pixel (h, w) of the same image. */
static __device__ inline int64_t pool_at(const struct cu_pool &p, const int size[2],
                                         const struct pool_place &o, int h, int w)
{
    return (((int64_t)o.n * size[0] + h) * size[1] + w) * p.c + o.c;
}
