/* The part of CUDA C++ that the kernels of kernels/cuda use, for a host compiler. The same sources
 * run on the CPU, so tests without a GPU can compare them with the reference.
 *
 * The blocks of a grid run one after another. The threads of a block are fibres of one host thread.
 * Barriers and shuffles work, because a waiting fibre lets the next fibre run. If some threads of a
 * block (or warp) do not reach a barrier, the process ends with a message. Shared memory is static.
 * As on a device, a block finds in shared memory what the previous block has written.
 *
 * One launch runs at a time. There are two definitions of shim_launch, and each program has one of
 * them. The definition in shim/direct.cpp executes a kernel at once. The definition in
 * tests/kernels/cuda/fake appends the kernel to the stream, which executes it later. */
#pragma once

#include "cuda_runtime_api.h"

#ifdef __cplusplus

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };

struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes = 0;
    struct CUstream_st *stream = NULL;
    cudaLaunchAttribute *attrs = NULL;
    unsigned numAttrs = 0;
};

struct cudaFuncAttributes {
    int ptxVersion;
};

cudaError_t shim_attributes(cudaFuncAttributes *attributes);

template <typename... P>
static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*)(P...))
{
    return shim_attributes(attributes);
}

/* Whether a device accepts a grid of this size. */
bool shim_grid_valid(dim3 grid, dim3 block);

/* Calls body(context) once per thread of a valid grid. After each block, calls `enough` (may be
 * NULL), and skips the remaining blocks if the result is true. Every thread must call
 * cudaGridDependencySynchronize() once, else the process ends with a message. The first such call
 * in the grid calls `previous_done` (may be NULL). */
void shim_run(dim3 grid, dim3 block, void (*body)(const void *), const void *context,
              bool (*enough)() = NULL, void (*previous_done)() = NULL);

void cudaGridDependencySynchronize();

/* Executes a grid in the order of its stream. Copies the `size` bytes of `context`. */
cudaError_t shim_launch(const cudaLaunchConfig_t *config, void (*body)(const void *),
                        const void *context, size_t size);

/* Waits for all threads of the block. */
void shim_sync_block();

/* Exchanges a value of at most eight bytes with the thread of the same warp whose number differs by
 * `lane_mask` (XOR). Every thread of the warp must call it. */
void shim_exchange(void *value, size_t size, unsigned lane_mask);

template <typename Body> static void shim_call(const void *body)
{
    (*(const Body *)body)();
}

template <typename... P, typename... A>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                      A... args)
{
    auto body = [=] { kernel(args...); };
    static_assert(std::is_trivially_copyable<decltype(body)>::value, "arguments are bytes");
    return shim_launch(config, shim_call<decltype(body)>, &body, sizeof body);
}

static inline void __syncthreads()
{
    shim_sync_block();
}

/* `mask` must name all threads of the warp. */
template <typename T> static T __shfl_xor_sync(unsigned mask, T v, int lane_mask)
{
    (void)mask;
    static_assert(sizeof v <= 8, "a shuffle moves at most eight bytes");
    shim_exchange(&v, sizeof v, (unsigned)lane_mask);
    return v;
}

/* A sum and a product with a rounding of their own. */
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fmul_rn(float a, float b)
{
    volatile float product = a * b; /* not contracted with a later sum */
    return product;
}

static inline float __uint_as_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t __float_as_uint(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

#endif
