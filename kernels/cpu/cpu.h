/* The CPU backend: oneDNN for convolution and linear, own kernels for the rest. */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include "kernels/backend.h"

extern const struct backend backend_cpu;

#endif
