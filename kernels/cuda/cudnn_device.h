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

/* Loads the CUDA toolkit's compiler of the version for which cuDNN was built, if it is installed,
 * and keeps it loaded until the process ends. Otherwise cuDNN loads and unloads it for every engine
 * that it may compile: the heuristics of one convolution then take 29 to 200 ms instead of 1.4 to
 * 50 ms.
 */
void cudnn_keep_compiler(void);
