/* The GPU that cuDNN plans for. It may be present, or only described. */
#pragma once

#include "kernels/cuda/cudnn_desc.h"
#include "kernels/gpu_description.h"

struct cudnn_device {
    cudnnHandle_t handle;    /* borrowed handle of a GPU that is present; NULL: `props` describes
                              * the GPU */
    struct cudnn_desc props; /* not used for a present GPU, because the library's own
                              * description of the GPU may lack properties */
    char name[64];           /* "NVIDIA H200" */
    int sm;                  /* compute capability, major * 10 + minor: 90 */
};

/* Describes a GPU that need not be present. `out` is closed by cudnn_desc_destroy(&out->props).
 * STATUS_UNSUPPORTED before version 9.8. */
MUST_CHECK enum status cudnn_device_describe(const struct gpu_description *gpu,
                                             struct cudnn_device *out);
