/* Makes calls fail on request, and counts the calls that can fail.
 *
 * AMPSCALE_FAKE_FAIL is "CALL:N" or "CALL@capture:N". With "CALL:N", the N-th call of that name in
 * the process fails. With "CALL@capture:N", only calls during a capture of the calling thread are
 * counted. The N-th of these calls fails and ends the capture, like a call that CUDA does not allow
 * during a capture.
 * The names are those of the API ("cudaMalloc", "cudnnBackendFinalize", "cublasLtMatmul"). A kernel
 * launch is counted as "cudaLaunchKernel". A programmatic dependent launch is also counted as
 * "cudaLaunchDependent". With ":sticky" at the end, the failure is an illegal address: the device's
 * pending work is lost, and every later call that needs the device fails too.
 *
 * AMPSCALE_FAKE_COUNT names a file. When a process ends, it appends a line "CALL OUTSIDE INSIDE"
 * for each function that it called: the numbers of calls outside and inside of captures. */
#pragma once

#include "cuda_runtime_api.h"

/* Counts a call, and returns whether it fails. */
bool fake_fails(const char *call);

/* Whether a sticky failure has broken the device. fake_break() breaks it. */
bool fake_broken();
void fake_break();

/* Like fake_fails(), for functions of the CUDA runtime. Returns the error that the function must
 * report, or cudaSuccess. `device`: the function needs the device. cudaGetLastError() returns the
 * same error later. */
cudaError_t fake_enter(const char *call, bool device);

/* Stores the last error of the calling thread, and returns it. */
cudaError_t fake_error(cudaError_t e);

#define FAKE_ENTER(call)                                                                           \
    if (cudaError_t entered = fake_enter(#call, true))                                             \
    return entered
/* For functions that do not need a working device. */
#define FAKE_ASK(call)                                                                             \
    if (cudaError_t entered = fake_enter(#call, false))                                            \
    return entered
