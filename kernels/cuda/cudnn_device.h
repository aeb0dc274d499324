/* The GPU that cuDNN plans for. The program plans for GPUs that are present; tests also plan for
 * GPUs that are only described. */
#pragma once

#include "kernels/cuda/cudnn_desc.h"

struct cudnn_device {
    cudnnHandle_t handle;    /* handle of a GPU that is present, borrowed; NULL: `props` describes
                              * the GPU */
    struct cudnn_desc props; /* not used for a present GPU, because the library may omit
                              * properties */
    char name[64];           /* "NVIDIA H200" */
    int sm;                  /* compute capability, major * 10 + minor: 90 */
};
