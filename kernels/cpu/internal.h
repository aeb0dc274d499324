/* What the files of the CPU backend share: the device, and how plans are made. */
#ifndef KERNELS_CPU_INTERNAL_H
#define KERNELS_CPU_INTERNAL_H

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cpu_kernels;
struct onednn_engine;

struct cpu_device {
    struct device base;
    const struct cpu_kernels *kernels; /* inner loops for this machine's instruction set */
    struct onednn_engine *onednn;
};

static inline struct cpu_device *cpu_device_of(struct device *dev)
{
    return (struct cpu_device *)dev;
}

#ifdef __cplusplus
}
#endif
#endif
