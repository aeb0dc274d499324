/* Tensors of the fake's libraries, as floats. */
#ifndef TESTS_KERNELS_CUDA_FAKE_ARRAYS_H
#define TESTS_KERNELS_CUDA_FAKE_ARRAYS_H

#include "base/half.h"
#include "kernels/tensor.h"

#include <stdlib.h>
#include <string.h>

/* New floats with the values of `n` elements, of type F32 rounded to `operand`. */
static inline float *floats_from(enum dtype type, enum dtype operand, int64_t n, const void *mem)
{
    const uint16_t *narrow = mem;
    float *f = malloc((size_t)n * sizeof *f);
    if (!f)
        abort();
    for (int64_t i = 0; i < n; i++)
        f[i] = type == DTYPE_F16    ? f16_to_float(narrow[i])
               : type == DTYPE_BF16 ? bf16_to_float(narrow[i])
                                    : dtype_round(operand, ((const float *)mem)[i]);
    return f;
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

#endif
