/* Computes elementwise operations: ReLU, addition, rounding and conversion. */
#include "kernels/cuda/kernels/launch.h"

/* A loop over the units of n elements: `at` is the first element of a unit, `count` its number of
 * elements. */
#define FOR_EACH_UNIT(n, at, count)                                                                \
    for (int64_t at = loop_first() * UNIT; at < (n); at += loop_step() * UNIT)                     \
        if (int count = unit_count((n), at))

static cudaLaunchConfig_t launch_units(const struct cu_queue *q, int64_t n)
{
    return launch_loop(q, n, THREADS * UNIT);
}

template <typename T> static __global__ void relu_fwd(int64_t n, const T *x, T *y)
{
    await_previous();
    FOR_EACH_UNIT(n, at, count)
    {
        struct unit v = unit_load(x + at, count, true);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            v.v[i] = relu(v.v[i]);
        unit_store(y + at, count, true, v);
    }
}

enum status cu_relu_fwd(const struct cu_queue *q, enum dtype type, int64_t n, const void *x,
                        void *y)
{
    return LAUNCH_KERNEL(type, launch_units(q, n), relu_fwd, n, x, y);
}

template <typename T>
static __global__ void relu_bwd(int64_t n, const T *dy, const T *dy2, const T *y, T *dx)
{
    await_previous();
    FOR_EACH_UNIT(n, at, count)
    {
        struct unit d = unit_load(dy + at, count, true), d2 = {};
        struct unit v = unit_load(y + at, count, true);
        if (dy2)
            d2 = unit_load(dy2 + at, count, true);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            d.v[i] = v.v[i] > 0 ? d.v[i] + d2.v[i] : 0.0f;
        unit_store(dx + at, count, true, d);
    }
}

enum status cu_relu_bwd(const struct cu_queue *q, enum dtype type, int64_t n, const void *dy,
                        const void *dy2, const void *y, void *dx)
{
    return LAUNCH_KERNEL(type, launch_units(q, n), relu_bwd, n, dy, dy2, y, dx);
}

template <typename T> static __global__ void add(int64_t n, const T *x, const T *z, T *y)
{
    await_previous();
    FOR_EACH_UNIT(n, at, count)
    {
        struct unit a = unit_load(x + at, count, true), b = unit_load(z + at, count, true);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            a.v[i] += b.v[i];
        unit_store(y + at, count, true, a);
    }
}

enum status cu_add(const struct cu_queue *q, enum dtype type, int64_t n, const void *x,
                   const void *z, void *y)
{
    return LAUNCH_KERNEL(type, launch_units(q, n), add, n, x, z, y);
}

static __global__ void round_units(enum dtype precision, int64_t n, const float *x, float *y)
{
    await_previous();
    FOR_EACH_UNIT(n, at, count)
    {
        struct unit v = unit_load(x + at, count, true);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            v.v[i] = round_to(precision, v.v[i]);
        unit_store(y + at, count, true, v);
    }
}

enum status cu_round(const struct cu_queue *q, enum dtype precision, int64_t n, const float *x,
                     float *y)
{
    return launch("round", launch_units(q, n), round_units, precision, n, x, y);
}

static __global__ void cast_units(enum dtype from, enum dtype to, int64_t n, const void *x, void *y)
{
    await_previous();
    FOR_EACH_UNIT(n, at, count)
    unit_store_as(to, y, at, count, unit_load_as(from, x, at, count));
}

enum status cu_cast(const struct cu_queue *q, enum dtype from, enum dtype to, int64_t n,
                    const void *x, void *y)
{
    if (!dtype_is_float(from) || !dtype_is_float(to))
        return launch_no_type(dtype_is_float(from) ? to : from);
    return launch("cast", launch_units(q, n), cast_units, from, to, n, x, y);
}
