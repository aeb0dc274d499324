/* Code that the forward and the backward kernels of batch norm, ReLU and maximum pooling share. The
 * forward kernel makes one pass over X; the backward kernels make two passes. The normalised tensor
 * is never stored, and its gradient is not stored either.
 *
 * The windows are known at compile time, so that all loops over them are unrolled. */
#pragma once

#include "kernels/cuda/kernels/bn_gradient.h"

template <int KERNEL_, int STRIDE_, int PAD_> struct windows {
    enum {
        KERNEL = KERNEL_,
        STRIDE = STRIDE_,
        PAD = PAD_,
        SHARED = KERNEL - STRIDE, /* rows that a window shares with the window above it */
        /* The windows i + FIRST to i + LAST cover tile i, which begins at pixel i * STRIDE. */
        FIRST = -((KERNEL - 1 - PAD) / STRIDE),
        LAST = (STRIDE - 1 + PAD) / STRIDE,
        COVER = LAST - FIRST + 1,
    };
};

static inline enum status no_windows(void)
{
    return status_fail(STATUS_UNSUPPORTED, "there is no kernel for these windows or channels");
}

/* Launches the instance of a kernel for the windows of `p`. */
#define LAUNCH_WINDOWS(p, config, name, T, ...)                                                    \
    (!cu_bn_pool_has(p)         ? no_windows()                                                     \
     : (p)->attr.kernel[0] == 3 ? launch(#name, (config), name<T, windows<3, 2, 1>>, __VA_ARGS__)  \
                                : launch(#name, (config), name<T, windows<2, 2, 0>>, __VA_ARGS__))

static __device__ inline int clamp_to(int i, int size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

static __device__ inline bool within(int i, int size)
{
    return (unsigned)i < (unsigned)size;
}

/* Offset of the unit at channel `c` of a pixel of an image. */
static __device__ inline int64_t unit_at(const struct cu_pool &p, const int size[2], int n, int c,
                                         int h, int w)
{
    return (((int64_t)n * size[0] + h) * size[1] + w) * p.c + c;
}
