/* Reads and writes elements of arrays as floats, for the fake libraries. */
#pragma once

#include "base/half.h"
#include "kernels/tensor.h"

static inline float float_load(enum dtype type, const void *mem, int64_t i)
{
    return type == DTYPE_F16    ? f16_to_float(((const uint16_t *)mem)[i])
           : type == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)mem)[i])
                                : ((const float *)mem)[i];
}

static inline void float_store(enum dtype type, void *mem, int64_t i, float v)
{
    if (type == DTYPE_F16)
        ((uint16_t *)mem)[i] = f16_from_float(v);
    else if (type == DTYPE_BF16)
        ((uint16_t *)mem)[i] = bf16_from_float(v);
    else
        ((float *)mem)[i] = v;
}
