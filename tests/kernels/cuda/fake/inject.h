/* Makes calls fail on request, and counts the calls that can fail.
 *
 * AMPSCALE_FAKE_FAIL is "CALL:N" or "CALL@capture:N". With "CALL:N", the N-th call of that name in
 * the process fails. With "CALL@capture:N", the N-th call during a capture of the calling thread
 * fails and ends the capture, like a call that CUDA does not allow there. The names are those of
 * the API ("cudaMalloc", "cudnnBackendFinalize", "cublasLtMatmul"). A launch of a kernel is
 * "cudaLaunchKernel"; a programmatic dependent launch is also "cudaLaunchDependent". With ":sticky"
 * at the end, the failure is an illegal address: the device's pending work is lost, and every later
 * call that needs the device fails too.
 *
 * AMPSCALE_FAKE_COUNT names a file. At its end, a process appends a line "CALL OUTSIDE INSIDE" for
 * each call that it made, with the numbers of calls outside and inside of captures. */
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
