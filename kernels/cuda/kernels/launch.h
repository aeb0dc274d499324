/* Launches kernels: defines the shapes of grids, and the one function that starts kernels. */
#pragma once

#include "kernels/cuda/error.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/kernels/unit.h"

#include <cuda_runtime.h>
#include <stdio.h>

enum {
    THREADS = 256,
    /* Blocks of a grid-stride loop per multiprocessor: enough to hide memory latency. */
    WAVES = 8,
};

static inline int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The attribute of a programmatic dependent launch. */
static inline cudaLaunchAttribute *launch_dependent()
{
    static cudaLaunchAttribute attribute = [] {
        cudaLaunchAttribute a = {};
        a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a.val.programmaticStreamSerializationAllowed = 1;
        return a;
    }();
    return &attribute;
}

static inline cudaLaunchConfig_t launch_config(const struct cu_queue *q, dim3 grid, dim3 block)
{
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = block;
    c.stream = q->stream;
    c.attrs = q->pdl ? launch_dependent() : NULL;
    c.numAttrs = q->pdl;
    return c;
}

/* The first statement of every kernel. If the kernel was launched as a dependent of the previous
 * kernel of its stream (cu_queue.pdl), waits until the previous kernel is complete and its writes
 * are visible. Otherwise returns at once.
 *
 * Every block must wait, even a block without work. A block waits for the previous kernel only. A
 * kernel runs after all earlier kernels only because every block of every kernel waits. Wait before
 * any read or write of memory: an earlier kernel may still read the memory that this kernel
 * overwrites. tests/kernels/cuda/test_nvcc.sh checks the machine code. No kernel lets its
 * dependents start before its blocks exit. */
static __device__ inline void await_previous()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* The grid of a kernel that loops over `n` items. A block has THREADS threads and processes
 * `per_block` items at a time. */
static inline cudaLaunchConfig_t launch_loop(const struct cu_queue *q, int64_t n, int64_t per_block)
{
    int64_t wanted = div_up(n, per_block), most = (int64_t)q->multiprocessors * WAVES;
    return launch_config(q, dim3((unsigned)(wanted < most ? wanted : most)), dim3(THREADS));
}

/* A thread's first item, and the distance to its next item. */
static __device__ inline int64_t loop_first(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline int64_t loop_step(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Number of elements in the unit that begins at element `at` of `n` elements. The result is 0 or
 * less if `at` is beyond the end. */
static __device__ inline int unit_count(int64_t n, int64_t at)
{
    return n - at < UNIT ? (int)(n - at) : (int)UNIT;
}

template <typename... P, typename... A>
static enum status launch(const char *name, const cudaLaunchConfig_t &config, void (*kernel)(P...),
                          A... args)
{
    cudaError_t e = cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
    char action[128];
    if (e == cudaSuccess)
        return STATUS_OK;
    snprintf(action, sizeof action, "launch the kernel '%s'", name);
    return cuda_error(e, action);
}

static inline enum status launch_no_type(enum dtype type)
{
    return status_fail(STATUS_UNSUPPORTED, "there is no kernel for elements of type %s",
                       dtype_str(type));
}

/* Calls the instance of a function template for a floating type. */
#define LAUNCH_TYPED(type, function, ...)                                                          \
    ((type) == DTYPE_F32    ? function<float>(__VA_ARGS__)                                         \
     : (type) == DTYPE_F16  ? function<__half>(__VA_ARGS__)                                        \
     : (type) == DTYPE_BF16 ? function<__nv_bfloat16>(__VA_ARGS__)                                 \
                            : launch_no_type(type))

/* Launches the instance of a kernel template for a floating type. Where the kernel takes a pointer
 * to this type, the argument may be a pointer to void. */
#define LAUNCH_KERNEL(type, config, kernel, ...)                                                   \
    ((type) == DTYPE_F32    ? launch(#kernel, (config), kernel<float>, __VA_ARGS__)                \
     : (type) == DTYPE_F16  ? launch(#kernel, (config), kernel<__half>, __VA_ARGS__)               \
     : (type) == DTYPE_BF16 ? launch(#kernel, (config), kernel<__nv_bfloat16>, __VA_ARGS__)        \
                            : launch_no_type(type))

/* The same for a kernel that reads elements of type `from` and writes elements of type `to`. */
#define LAUNCH_PAIR(from, to, config, kernel, ...)                                                 \
    ((from) == DTYPE_F32    ? LAUNCH_FROM(float, (to), (config), kernel, __VA_ARGS__)              \
     : (from) == DTYPE_F16  ? LAUNCH_FROM(__half, (to), (config), kernel, __VA_ARGS__)             \
     : (from) == DTYPE_BF16 ? LAUNCH_FROM(__nv_bfloat16, (to), (config), kernel, __VA_ARGS__)      \
                            : launch_no_type(from))
#define LAUNCH_FROM(From, to, config, kernel, ...)                                                 \
    ((to) == DTYPE_F32    ? launch(#kernel, config, kernel<From, float>, __VA_ARGS__)              \
     : (to) == DTYPE_F16  ? launch(#kernel, config, kernel<From, __half>, __VA_ARGS__)             \
     : (to) == DTYPE_BF16 ? launch(#kernel, config, kernel<From, __nv_bfloat16>, __VA_ARGS__)      \
                          : launch_no_type(to))
