/* Matrix products that can be executed: for linear layers. */
#ifndef KERNELS_CUDA_MATMUL_H
#define KERNELS_CUDA_MATMUL_H

#include "kernels/cuda/device.h"

/* C (m, n) = A (m, k) * B (k, n) [+ bias per column] [then ReLU], row after row; a matrix that is
 * transposed lies in memory as (k, m) or (n, k). Products are summed in fp32. */
struct matmul_problem {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    enum dtype type;   /* of A, B and the bias: F32, F16 or BF16 */
    enum dtype result; /* of C: `type` or F32 */
    bool tf32;         /* F32: products may be formed of operands rounded to TF32 */
    bool bias, relu;
};

struct matmul {
    struct cuda_device *device;
    struct matmul_problem problem;
    size_t workspace; /* bytes, 256-byte aligned */
    const char *impl; /* "cublaslt" */
};

/* STATUS_UNSUPPORTED when the library has no algorithm. */
MUST_CHECK enum status matmul_open(struct cuda_device *dev, const struct matmul_problem *problem,
                                   struct matmul **out);
void matmul_close(struct matmul *m); /* NULL is fine */

/* Device memory, 16-byte aligned. `bias` is NULL where there is none. */
MUST_CHECK enum status matmul_run(struct matmul *m, const void *a, const void *b, const void *bias,
                                  void *c, void *workspace, cudaStream_t stream);

/* What a device keeps of the library; cuda_device.gemm. NULL is fine. */
void matmul_library_close(struct matmul_library *library);

#endif
