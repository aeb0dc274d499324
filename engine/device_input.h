/* Connects a loader to a device: to host memory from which the device can copy, and to the JPEG
 * decoder of a GPU (input/device_decoder.h). The CUDA module implements this decoder with nvJPEG.
 */
#pragma once

#include "input/device_decoder.h"
#include "input/loader.h"
#include "kernels/backend.h"

/* The function of the CUDA module that makes a decoder; `abi` must be the value with which the
 * module was built (kernels/module.h). */
#define NVJPEG_MODULE_ENTRY "ampscale_cuda_nvjpeg"
typedef enum status nvjpeg_module_entry(unsigned abi, struct device *dev,
                                        struct device_decoder **decoder);

/* Makes a decoder; `dev` must outlive it. Freed by gpu_decoder_drop. STATUS_UNSUPPORTED: the device
 * is no GPU, or the GPU has no hardware that decodes JPEG, or nvJPEG is missing; the message says
 * which. */
MUST_CHECK enum status gpu_decoder_open(struct device *dev, struct device_decoder **decoder);
void gpu_decoder_drop(struct device_decoder *decoder); /* NULL is fine */

/* Makes a loader allocate its batches with `dev`, and decode with `decoder` unless that is NULL.
 * Both must outlive the loader. */
void device_input_set(struct loader_config *loader, struct device *dev,
                      struct device_decoder *decoder);
