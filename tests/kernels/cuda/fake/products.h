/* Sums of products, as the units of a GPU form them. */
#ifndef TESTS_KERNELS_CUDA_FAKE_PRODUCTS_H
#define TESTS_KERNELS_CUDA_FAKE_PRODUCTS_H

#include "kernels/tensor.h"

#include <stdint.h>

struct product_unit {
    bool tensor_cores;  /* else fp32, one product after another */
    int sm;             /* of the device */
    enum dtype operand; /* F16, BF16, TF32 or F32: what operands have been rounded to */
    enum dtype partial; /* in which the parts of a sum are kept: F32, or the result's type */
    int64_t splits;     /* parts */
    bool backwards;     /* the parts are added up from the last to the first */
};

/* The sum of a[i] * b[i], in fp32. */
float product_sum(const struct product_unit *u, int64_t n, const float *a, const float *b);

#endif
