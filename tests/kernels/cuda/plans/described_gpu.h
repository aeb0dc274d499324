/* GPUs that need not be present. cuDNN makes plans for the description of a GPU. The description is
 * a JSON text in kernels/gpus. */
#pragma once

#include "kernels/cuda/cudnn_device.h"

/* `name` is the name of a built-in description. The test fails if it cannot be loaded. */
void described_gpu_open(const char *name, struct cudnn_device *dev);
void described_gpu_close(struct cudnn_device *dev);
