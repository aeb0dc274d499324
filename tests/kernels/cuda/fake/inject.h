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
 * AMPSCALE_FAKE_ENGINE is "ENGINE[@FORM]:HOW[:N]": the N-th execution (by default the first) and
 * all later ones of cuDNN's engine with this global index, or of every engine if ENGINE is "any",
 * go wrong in this process. FORM restricts this to one form of graph, as the module's messages name
 * it (conv_form_str(): "fwd", "dgrad+drelu+bn"), or to all forms whose names contain it ("stats",
 * "bn", "apply"); "fwd", "dgrad" and "wgrad" are the plain convolutions alone. HOW is
 *   fails   the execution returns an error, and the device stays usable;
 *   sticky  the execution returns an error, and the device is broken as above;
 *   crash   SIGSEGV inside of cudnnBackendExecute;
 *   hang    cudnnBackendExecute never returns;
 *   wrong   every result of the graph is 1.5 times too large. This has no effect on an operation
 *           that is too large to be computed under AMPSCALE_FAKE_DELAYS.
 *
 * AMPSCALE_FAKE_COUNT names a file. When a process ends, it appends a line "CALL OUTSIDE INSIDE"
 * for each function that it called: the numbers of calls outside and inside of captures. */
#pragma once

#include "cuda_runtime_api.h"

#include <stdint.h>
#include <string>

/* Counts a call, and returns whether it fails. */
bool fake_fails(const char *call);

/* Whether a sticky failure has broken the device. fake_break() breaks it. */
bool fake_broken();
void fake_break();

/* What AMPSCALE_FAKE_ENGINE requests for this execution of an engine. Counts the execution. */
enum engine_fault {
    ENGINE_SOUND,
    ENGINE_FAILS,
    ENGINE_STICKY,
    ENGINE_CRASH,
    ENGINE_HANG,
    ENGINE_WRONG
};
enum engine_fault fake_engine_fault(int64_t engine, const std::string &form);

/* Like fake_fails(), for functions of the CUDA runtime. Returns the error that the function must
 * report, or cudaSuccess. `device`: the function needs the device. cudaGetLastError() returns the
 * same error later. */
cudaError_t fake_enter(const char *call, bool device);

/* Stores the last error of the calling thread, and returns it. */
cudaError_t fake_error(cudaError_t e);

#define FAKE_ENTER(call)                                                                           \
    if (cudaError_t entered = fake_enter(#call, true))                                             \
    return entered
/* And holds the fake's lock. */
#define FAKE_ENTER_HELD(call)                                                                      \
    FAKE_ENTER(call);                                                                              \
    fake_hold hold
/* For functions that do not need a working device. */
#define FAKE_ASK(call)                                                                             \
    if (cudaError_t entered = fake_enter(#call, false))                                            \
    return entered
#define FAKE_NEED(condition, error)                                                                \
    if (!(condition))                                                                              \
    return fake_error(error)
