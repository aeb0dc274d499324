/* GPUs that need not be present: the properties of a GPU, as a text of JSON, and its rates.
 *
 * cuDNN defines the form of the text (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION of its backend
 * API). The text may also have the member "rates", with the rates that were measured on such a GPU
 * and their source:
 *
 *     "rates": {"bytes_per_s": 4.3e12, "half_flops_per_s": 7.9e14, "source": "..."}
 *
 * The member "published" compares the model of kernels/gpu_time.h with published results of
 * ResNet-50 in 16 bits on such GPUs: the share that they reach of the throughput that the model
 * predicts for batch 256 in amp, and their source:
 *
 *     "published": {"share": 0.708, "source": "..."}
 *
 * The descriptions in kernels/gpus are part of the program.
 *
 * If the text has no rates, they follow from the properties:
 *
 *     peak bandwidth = 2 transfers * clock of the memory * width of the memory's bus
 *     peak in half precision = clock * multiprocessors * operations per clock
 *
 * "Operations per clock" are the dense operations (fp16 with fp32 sums) of the tensor cores of one
 * multiprocessor. They depend on the compute capability: 1024 for 7.0, 7.5, 8.6 and 8.9, 2048 for
 * 8.0, 4096 for 9.0, 8192 for 10.0 and 512 for 12.0 (NVIDIA's architecture white papers). A GPU is
 * assumed to reach the same shares of these peaks as an H200 in measurements: 0.875 in copies, 0.74
 * in products. TF32 is half as fast as half precision. Without tensor cores, the peak of fp32 is
 * two operations per core and clock, and a GPU is assumed to reach 0.9 of this peak. */
#pragma once

#include "base/status.h"
#include "kernels/tensor.h"

enum { GPU_NAME_MAX = 64, GPU_TEXT_MAX = 16384 };

struct gpu_description {
    char name[GPU_NAME_MAX]; /* "NVIDIA H200" */
    int sm;                  /* compute capability, major * 10 + minor: 90 */
    int multiprocessors;
    double memory;                   /* bytes */
    double l2;                       /* bytes of L2 cache */
    double bytes_per_s;              /* of large copies; counts bytes read and bytes written */
    double flops_per_s[DTYPE_COUNT]; /* of large products with operands of a type */
    char source[256];                /* of the rates */
    double share; /* of the model's throughput that published results reach; 0: none are known */
    char share_source[256];
    char properties[GPU_TEXT_MAX]; /* cuDNN's text */
};

/* Reads the description that is part of the program as `name` ("h200"), or, if `name` contains a
 * dot or a slash, the file of that name. STATUS_USAGE for an unknown name, in a message that lists
 * the known names; STATUS_DATA if the text is not a description. */
MUST_CHECK enum status gpu_description_open(const char *name, struct gpu_description *gpu);
