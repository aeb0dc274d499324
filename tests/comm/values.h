/* Elements of every type as numbers, for the expected results of operations. */
#pragma once

#include "base/half.h"
#include "kernels/tensor.h"

#include <stdint.h>

static inline double element_get(enum dtype type, const void *data, int64_t i)
{
    switch (type) {
    case DTYPE_F32:
        return (double)((const float *)data)[i];
    case DTYPE_F64:
        return ((const double *)data)[i];
    case DTYPE_F16:
        return (double)f16_to_float(((const uint16_t *)data)[i]);
    case DTYPE_BF16:
        return (double)bf16_to_float(((const uint16_t *)data)[i]);
    case DTYPE_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* Rounds `value` to the type; 16-bit types round the nearest float. Integers wrap around. */
static inline void element_put(enum dtype type, void *data, int64_t i, double value)
{
    switch (type) {
    case DTYPE_F32:
        ((float *)data)[i] = (float)value;
        break;
    case DTYPE_F64:
        ((double *)data)[i] = value;
        break;
    case DTYPE_F16:
        ((uint16_t *)data)[i] = f16_from_float((float)value);
        break;
    case DTYPE_BF16:
        ((uint16_t *)data)[i] = bf16_from_float((float)value);
        break;
    case DTYPE_I32:
        ((int32_t *)data)[i] = (int32_t)(uint32_t)(int64_t)value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)(int64_t)value;
        break;
    }
}
