/* Failures on request, and counts of the calls that can fail.
 *
 * AMPSCALE_FAKE_FAIL, "CALL:N" or "CALL@capture:N": the N-th call of that name in the process
 * fails, or the N-th while the calling thread captures, which then also ends the capture, as a call
 * does that CUDA does not allow there. The names are those of the API ("cudaMalloc",
 * "cudnnBackendFinalize", "cublasLtMatmul"); a launch of a kernel is "cudaLaunchKernel", and one
 * with the attribute of a programmatic dependent launch also "cudaLaunchDependent". With
 * ":sticky" behind it the device has met an illegal address: what it still had to do is lost, and
 * every later call that needs the device fails as well.
 *
 * AMPSCALE_FAKE_COUNT names a file to which a process adds, as it ends, a line for each call that
 * it made: "CALL OUTSIDE INSIDE", the numbers outside and inside of captures. */
#pragma once

#include "cuda_runtime_api.h"

/* Counts a call, and returns whether it fails. */
bool fake_fails(const char *call);

/* Whether a sticky failure has broken the device. */
bool fake_broken();

/* The same for the runtime: returns the error that the call reports, or cudaSuccess. `device` says
 * whether the call needs the device. cudaGetLastError() returns the error later. */
cudaError_t fake_enter(const char *call, bool device);

/* Stores an error of the calling thread, and returns it. */
cudaError_t fake_error(cudaError_t e);

#define FAKE_ENTER(call)                                                                           \
    if (cudaError_t entered = fake_enter(#call, true))                                             \
    return entered
/* For calls that do not need a working device. */
#define FAKE_ASK(call)                                                                             \
    if (cudaError_t entered = fake_enter(#call, false))                                            \
    return entered
