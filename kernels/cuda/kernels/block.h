/* Sums and maxima over the threads of a one-dimensional block of THREADS threads, in a fixed
 * order. */
#pragma once

#include "kernels/cuda/kernels/launch.h"

enum { WARP = 32, WARPS = THREADS / WARP };

struct combine_add {
    template <typename T> static __device__ T of(T a, T b)
    {
        return a + b;
    }
};

/* A NaN is ignored, as in fmax(). */
struct combine_max {
    static __device__ float of(float a, float b)
    {
        return fmaxf(a, b);
    }
};

/* Combines the values `v` of all threads of the block. Every thread must call this function, and
 * every thread gets the result. */
template <typename Combine, typename T> static __device__ inline T block_combine(T v)
{
    __shared__ T of_warp[WARPS];
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        v = Combine::of(v, __shfl_xor_sync(0xffffffffu, v, lane));
    __syncthreads(); /* all threads have read the previous result */
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = v;
    __syncthreads();
    v = of_warp[0];
    for (int w = 1; w < WARPS; w++)
        v = Combine::of(v, of_warp[w]);
    return v;
}

template <typename T> static __device__ inline T block_sum(T v)
{
    return block_combine<combine_add>(v);
}

static __device__ inline float block_max(float v)
{
    return block_combine<combine_max>(v);
}
