/* The operation graphs of convolution's forms. */
#ifndef KERNELS_CUDA_CONV_FORM_H
#define KERNELS_CUDA_CONV_FORM_H

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/cudnn_graph.h"

/* Makes the graph for plans on `dev`. BN_FINALIZE's EQ_SCALE and EQ_SHIFT are in the type that a
 * prologue reads them in: `type`, and f32 where there is no prologue (BF16). */
MUST_CHECK enum status conv_form_graph(const struct cudnn_device *dev,
                                       const struct conv_problem *problem, struct cudnn_graph **g);

#endif
