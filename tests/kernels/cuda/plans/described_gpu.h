/* GPUs that need not be present: cuDNN plans for the description of one, a JSON text of gpus/. */
#pragma once

#include "kernels/cuda/cudnn_device.h"

/* `name`: of a file in gpus/, without its ending. The test fails where that cannot be. */
void described_gpu_open(const char *name, struct cudnn_device *dev);
void described_gpu_close(struct cudnn_device *dev);
