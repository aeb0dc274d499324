/* Convolutions that can be executed: a problem (conv_problem.h) with the fastest plan that the
 * library has for it on one device. */
#ifndef KERNELS_CUDA_CONV_EXEC_H
#define KERNELS_CUDA_CONV_EXEC_H

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/device.h"

struct conv_exec {
    struct cuda_device *device;
    struct conv_problem problem;
    size_t workspace; /* bytes, 16-byte aligned */
    char impl[64];    /* "cudnn:engine 42" */
};

/* Plans the problem. STATUS_UNSUPPORTED when this device has no plan for it. Candidates are timed
 * on the device the first time a problem is met there, and the choice is kept (plan_file.h), as it
 * is that one of batch norm's forms has none. The library's plan is made once for all
 * that execute the same problem, and lives as long as the device. Engines that have to be compiled
 * at run time are for problems that no other engine does, and batch norm's forms go without. Where
 * the device is to be deterministic, only engines that are so are asked, and the first that the
 * heuristics name is taken: a clock does not always choose alike. */
MUST_CHECK enum status conv_exec_open(struct cuda_device *dev, const struct conv_problem *problem,
                                      struct conv_exec **exec);
void conv_exec_close(struct conv_exec *exec); /* NULL is fine */

/* port[CG_X] ... as the problem's form says; 16-byte aligned device memory. Allocates only where
 * the pointers are others than at the call before. */
MUST_CHECK enum status conv_exec_run(struct conv_exec *exec, void *const port[CG_PORT_COUNT],
                                     void *workspace, cudaStream_t stream);

/* What a device keeps of the library; cuda_device.conv. NULL is fine. */
void conv_library_close(struct conv_library *library);

const char *conv_library_version(void); /* "9.19.0" */

#endif
