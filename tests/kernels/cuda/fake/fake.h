/* A fake GPU in the host's memory. It implements the functions of the CUDA runtime, of cuDNN, of
 * cuBLASLt and of nvJPEG that the module calls. The tested module consists of the product's own
 * sources; only the libraries are replaced.
 *
 * The fake is made to find mistakes rather than to be fast:
 * - It executes work as late as CUDA allows: when a thread waits for the stream, or for an event
 *   that is recorded after the work. A thread that reads a result without waiting reads the old
 *   value.
 * - Device memory is protected, except while a stream executes work. A page that is always
 *   protected follows each allocation.
 * - A stream accepts work only from a thread that uses its device. A call that CUDA does not allow
 *   during a capture fails, and invalidates the capture.
 * - A kernel or a call of a library can access the memory of its own device, and of devices to
 *   which cudaDeviceEnablePeerAccess has given it access; an access to any other device's memory
 *   ends the process. Copies can access the memory of all devices, as in CUDA.
 * - A kernel of a programmatic dependent launch cannot access device memory before it waits for the
 *   previous kernel, and every thread of every kernel must wait.
 * - Every workspace is filled with NaNs, and a convolution has several engines
 *   (cudnn_engines.cpp).
 *
 * device.cpp implements devices and their memory; streams.cpp implements streams, events and
 * graphs; ../shim implements kernels; the files that cudnn_nodes.h names implement cuDNN;
 * products.h declares the arithmetic of cuDNN and cuBLASLt.
 *
 * GPUs 0 and 1 are Hopper GPUs (sm_90), GPU 2 is a Turing GPU (sm_75: no bf16), and GPU 3 is too
 * old (sm_61). CUDA_VISIBLE_DEVICES selects and orders them as in CUDA. Other environment
 * variables:
 *
 * AMPSCALE_FAKE_GPU=no-driver|old-driver|no-gpu: the driver or the GPU is missing, or the driver is
 * too old; volta: GPU 2 is a Volta GPU (sm_70), and cuDNN is 9.10.2; volta-cudnn: GPU 2 is a Volta
 * GPU, with a cuDNN that does not support it; old-code: the driver has compiled kernels from the
 * PTX for Turing; driver-12.2: a driver for CUDA 12.2.
 * AMPSCALE_FAKE_MEMORY=GIB: the memory of each device (default 1). The host provides only the part
 * that is used.
 * AMPSCALE_FAKE_DELAYS=SCALE: large operations take time instead of computing (delays.h).
 * AMPSCALE_FAKE_NCCL=1: there is NCCL, for groups of one rank (nccl.cpp).
 * AMPSCALE_FAKE_NVJPEG=absent|no-engines|skips: faults of the JPEG decoder (nvjpeg.cpp).
 * AMPSCALE_FAKE_FAIL, AMPSCALE_FAKE_ENGINE, AMPSCALE_FAKE_COUNT: calls that fail, engines of cuDNN
 * that crash, hang or compute wrong values, and counts of calls (inject.h).
 * AMPSCALE_FAKE_FAULT=lost:GPU:FILE or flip:GPU:FILE: damages the GPU as soon as the file exists.
 * lost: every call that needs the GPU fails. flip: one bit of its first allocation of 16 KiB or
 * more changes, and no call reports it. */
#pragma once

#include "cuda_runtime_api.h"

#include <functional>

/* Locks the whole fake. Callers of the functions below must have this lock. */
struct fake_hold {
    fake_hold();
    ~fake_hold();
    fake_hold(const fake_hold &) = delete;
};

/* Executes `call` with access to device memory. */
void fake_with_memory(const std::function<void()> &call);

/* Inside such a call: executes a kernel of a device, with access to the memory that the device can
 * reach. If `early` is set, the kernel has this access only after it calls fake_open_memory(). */
void fake_run_kernel(int device, bool early, const std::function<void()> &kernel);
void fake_open_memory();

/* The device and the capture of the calling thread. */
int fake_device();
int fake_sm(int device); /* 90 for compute capability 9.0 */
bool fake_captures();

/* Invalidates the capture of the calling thread. Returns whether the thread had one. */
bool fake_end_capture();

/* fake_look_for_faults() is called when a thread waits: it damages a GPU as AMPSCALE_FAKE_FAULT
 * requests. fake_lost() returns whether a GPU is lost. */
void fake_look_for_faults();
bool fake_lost(int device);

/* Appends a kernel or a copy to a stream, or to the graph that the stream captures. `seconds` is
 * the time that the work takes on the stream (delays.h). */
cudaError_t fake_submit(cudaStream_t s, std::function<void()> kernel, double seconds);
/* The same for a library that sets itself up as it first executes on a stream. Unlike CUDA, the
 * fake never allows this in a capture: there, the library must have executed on the stream before.
 */
enum fake_library { FAKE_CUDNN, FAKE_CUBLASLT, FAKE_LIBRARIES };
cudaError_t fake_submit_call(cudaStream_t s, enum fake_library library, std::function<void()> call,
                             double seconds);
cudaError_t fake_submit_copy(cudaStream_t s, std::function<void()> copy, double seconds);

/* Executes all work of all streams. */
void fake_finish_all();

/* Reports a launch to the profiler (AMPSCALE_FAKE_PROFILE, profiler.cpp). */
void fake_profiled(const unsigned grid[3], const unsigned block[3]);
void fake_profiled_library();
