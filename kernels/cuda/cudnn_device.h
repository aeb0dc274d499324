/* A GPU as cuDNN sees it when it plans: its properties. They come from a device that is there, or
 * from a text that describes one, so that plans can be built for a GPU that is elsewhere. */
#ifndef KERNELS_CUDA_CUDNN_DEVICE_H
#define KERNELS_CUDA_CUDNN_DEVICE_H

#include "base/status.h"
#include "kernels/cuda/cudnn_desc.h"

#include <stddef.h>

struct cudnn_device {
    struct cudnn_desc props; /* of a GPU that is described */
    cudnnHandle_t handle;    /* of a GPU that is there; NULL else */
    char name[64];           /* "NVIDIA H200" */
    int sm;                  /* compute capability, major * 10 + minor: 90 */
};

/* The GPU that a handle was made for, with what CUDA says of it; the handle stays the caller's.
 * Nothing is asked of the library, whose own description of a GPU may lack what a text must have.
 */
void cudnn_device_take(cudnnHandle_t handle, const char *name, int sm, struct cudnn_device *dev);

/* A GPU described by JSON text in cuDNN's own form (devices/ has examples). STATUS_DATA when it
 * lacks a property or has one of another kind. */
MUST_CHECK enum status cudnn_device_open_json(const char *json, size_t size,
                                              struct cudnn_device *dev);

/* One of the GPUs described in devices/: "h200". STATUS_USAGE lists the names for an unknown one.
 */
MUST_CHECK enum status cudnn_device_open_name(const char *name, struct cudnn_device *dev);

/* The i-th described GPU's name, NULL past the last. */
const char *cudnn_device_name(int i);

void cudnn_device_close(struct cudnn_device *dev); /* a zeroed one is fine */

#endif
