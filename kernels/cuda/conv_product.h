/* Convolutions that are matrix products. With a window of one pixel, stride 1, no padding and one
 * group, NHWC tensors are matrices with a row for each of the M pixels:
 *
 *     Y (M, K) = X (M, C) W (K, C)^T [+ BIAS] [then ReLU]
 *     DX (M, C) = DY (M, K) W (K, C)
 *     DW (K, C) = DY (M, K)^T X (M, C)
 *
 * cuBLASLt computes them in the types of cuDNN's plan. In fp32, cuDNN's engines copy NHWC tensors
 * to NCHW and back, and a product needs no copies. */
#pragma once

#include "kernels/cuda/conv_exec.h"
#include "kernels/cuda/matmul.h"

/* Opens the product of a problem if it is to be used in place of `exec`, cuDNN's plan for this
 * problem (NULL: there is none); otherwise *product is NULL. The product is used if it takes less
 * time. The plan file stores both times, so that all GPUs of a process and later runs choose alike.
 * cuDNN's plan is used if it was not timed, as on a deterministic device, or if the product has no
 * stored time and the device times nothing. */
MUST_CHECK enum status conv_product_choose(struct cuda_device *dev,
                                           const struct conv_problem *problem,
                                           const struct conv_exec *exec, struct matmul **product);

/* Does the same as conv_exec_run. The type of CG_BIAS is that of the problem. */
MUST_CHECK enum status conv_product_run(const struct conv_problem *problem, struct matmul *product,
                                        void *const port[CG_PORT_COUNT], void *workspace,
                                        cudaStream_t stream);

/* Bytes of the activations that cuDNN's plan copies to NCHW or back; 0: none. Engines for fp32
 * tensors in NHWC that need a workspace of this size copy the activations to it. */
size_t conv_exec_copies(const struct conv_exec *exec);
