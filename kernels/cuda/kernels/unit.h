/* A unit is eight elements. One thread loads them, computes in fp32 and stores the results.
 *
 * Eight elements are one 128-bit access for a 16-bit type and two for fp32. A unit at the end of a
 * row may have fewer elements, and a unit in a row whose length is not a multiple of eight is not
 * aligned; both are loaded element by element. */
#pragma once

#include "kernels/tensor.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

enum { UNIT = 8 };

struct unit {
    float v[UNIT];
};

static __device__ inline float widen(float x)
{
    return x;
}

static __device__ inline float widen(__half x)
{
    return __half2float(x);
}

static __device__ inline float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ inline T narrow(float x);

template <> __device__ inline float narrow<float>(float x)
{
    return x;
}

template <> __device__ inline __half narrow<__half>(float x)
{
    return __float2half_rn(x);
}

template <> __device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* The same as dtype_round() of kernels/tensor.h. */
static __device__ inline float round_to(enum dtype precision, float x)
{
    switch (precision) {
    case DTYPE_F16:
        return widen(narrow<__half>(x));
    case DTYPE_BF16:
        return widen(narrow<__nv_bfloat16>(x));
    case DTYPE_TF32: /* to nearest, ties away from zero; the payload of a NaN must not carry into
                      * the exponent */
        return isnan(x) ? x : __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu);
    default:
        return x;
    }
}

/* max(x, 0) that keeps a NaN. */
static __device__ inline float relu(float x)
{
    return x < 0 ? 0.0f : x;
}

/* A unit as stored in memory, for values loaded long before their use: a 16-bit type then takes
 * half the registers of fp32. */
template <typename T> struct packed {
    enum { VECTORS = UNIT * sizeof(T) / sizeof(uint4) };
    union {
        uint4 vector[VECTORS];
        T element[UNIT];
    };
};

/* Loads `count` elements from `p`; the rest are 0. `aligned`: whether the unit at `p` is
 * aligned. */
template <typename T>
static __device__ inline packed<T> packed_load(const T *p, int count, bool aligned)
{
    packed<T> u = {};
    if (aligned && count == UNIT) {
#pragma unroll
        for (int i = 0; i < packed<T>::VECTORS; i++)
            u.vector[i] = ((const uint4 *)p)[i];
        return u;
    }
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        if (i < count)
            u.element[i] = p[i];
    return u;
}

template <typename T> static __device__ inline struct unit unpack(const packed<T> &p)
{
    struct unit u;
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        u.v[i] = widen(p.element[i]);
    return u;
}

template <typename T>
static __device__ inline struct unit unit_load(const T *p, int count, bool aligned)
{
    return unpack(packed_load(p, count, aligned));
}

template <typename T>
static __device__ inline void unit_store(T *p, int count, bool aligned, const struct unit &u)
{
    if (aligned && count == UNIT) {
        packed<T> raw;
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            raw.element[i] = narrow<T>(u.v[i]);
#pragma unroll
        for (int i = 0; i < packed<T>::VECTORS; i++)
            ((uint4 *)p)[i] = raw.vector[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        if (i < count)
            p[i] = narrow<T>(u.v[i]);
}

/* Stores `count` <= 8 bytes, each of which is the index of a maximum. */
static __device__ inline void bytes_store(uint8_t *p, int count, bool aligned,
                                          const uint8_t (&b)[UNIT])
{
    if (aligned && count == UNIT) {
        uint2 raw;
        raw.x = b[0] | (unsigned)b[1] << 8 | (unsigned)b[2] << 16 | (unsigned)b[3] << 24;
        raw.y = b[4] | (unsigned)b[5] << 8 | (unsigned)b[6] << 16 | (unsigned)b[7] << 24;
        *(uint2 *)p = raw;
        return;
    }
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        if (i < count)
            p[i] = b[i];
}

static __device__ inline void bytes_load(const uint8_t *p, int count, bool aligned,
                                         uint8_t (&b)[UNIT])
{
    if (aligned && count == UNIT) {
        uint2 raw = *(const uint2 *)p;
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            b[i] = (uint8_t)((i < 4 ? raw.x : raw.y) >> 8 * (i % 4));
        return;
    }
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        b[i] = i < count ? p[i] : 0;
}

/* Loads elements [at, at + count) of a tensor whose type is known only at run time. If `count` is a
 * multiple of eight, `at` must be one too. */
static __device__ inline struct unit unit_load_as(enum dtype type, const void *p, int64_t at,
                                                  int count)
{
    if (type == DTYPE_F16)
        return unit_load((const __half *)p + at, count, true);
    if (type == DTYPE_BF16)
        return unit_load((const __nv_bfloat16 *)p + at, count, true);
    return unit_load((const float *)p + at, count, true);
}

static __device__ inline void unit_store_as(enum dtype type, void *p, int64_t at, int count,
                                            const struct unit &u)
{
    if (type == DTYPE_F16)
        unit_store((__half *)p + at, count, true, u);
    else if (type == DTYPE_BF16)
        unit_store((__nv_bfloat16 *)p + at, count, true, u);
    else
        unit_store((float *)p + at, count, true, u);
}
