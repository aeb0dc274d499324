/* Plans and executes matrix products, for linear layers. */
#pragma once

#include "kernels/cuda/device.h"

/* C (m, n) = A (m, k) * B (k, n) [+ bias per column] [then ReLU], all row-major. A transposed A is
 * stored as (k, m), a transposed B as (n, k). Products are summed in fp32. */
struct matmul_problem {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    enum dtype type;   /* type of A, B and the bias: F32, F16 or BF16 */
    enum dtype result; /* type of C: `type` or F32 */
    bool tf32;         /* F32: operands may be rounded to TF32 before they are multiplied */
    bool bias, relu;
};

struct matmul {
    struct cuda_device *device;
    struct matmul_problem problem;
    size_t workspace; /* bytes, 256-byte aligned */
    double seconds;   /* of one execution, as the opener timed it; 0: it was not timed */
    const char *impl; /* "cublaslt" */
};

/* STATUS_UNSUPPORTED if the library has no algorithm. */
MUST_CHECK enum status matmul_open(struct cuda_device *dev, const struct matmul_problem *problem,
                                   struct matmul **out);
void matmul_close(struct matmul *m); /* NULL is fine */

/* All pointers are to device memory, aligned to 16 bytes. `bias` is NULL for a problem without
 * bias. */
MUST_CHECK enum status matmul_run(struct matmul *m, const void *a, const void *b, const void *bias,
                                  void *c, void *workspace, cudaStream_t stream);
