/* Executes convolutions. An executor is a problem (conv_problem.h) with the library's fastest plan
 * for that problem on one device. */
#pragma once

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/device.h"

struct conv_exec {
    struct cuda_device *device;
    struct conv_problem problem;
    size_t workspace; /* bytes, 16-byte aligned */
    double seconds;   /* of one execution, as the library's plan was timed; 0: it was not timed */
    char impl[64];    /* "cudnn:fwd engine 42" */
};

/* Plans the problem. STATUS_UNSUPPORTED if the library has no plan for it on this device. When a
 * problem is first planned on a device, its candidates are timed; the plan file stores the choice
 * or, for a form with batch norm, the fact that there is no plan (plan_file.h). All executors of a
 * problem share the library's plan, which lives as long as the device. Engines that the library
 * compiles at run time are used only if no other engine supports the problem, and never for forms
 * with batch norm. A deterministic device uses the first deterministic engine that the heuristics
 * name and executes none, since timing does not always choose the same engine. A device that times
 * nothing (`plans` of struct device) uses a stored choice, or the first engine that runs. */
MUST_CHECK enum status conv_exec_open(struct cuda_device *dev, const struct conv_problem *problem,
                                      struct conv_exec **exec);
void conv_exec_close(struct conv_exec *exec); /* NULL is fine */

/* For each port of the problem's form, port[CG_...] points to the port's device memory, aligned to
 * 16 bytes. Allocates only if a pointer differs from that of the previous call. */
MUST_CHECK enum status conv_exec_run(struct conv_exec *exec, void *const port[CG_PORT_COUNT],
                                     void *workspace, cudaStream_t stream);
