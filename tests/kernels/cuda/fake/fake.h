/* A GPU that is not there: the functions of the CUDA runtime, of cuDNN, of cuBLASLt and of nvJPEG
 * that the module calls, on the host's memory. The module that is tested consists of the product's
 * own sources; only what lies below the libraries' interfaces is made up.
 *
 * It is made to find mistakes rather than to be fast:
 * - Work is carried out as late as the rules allow: when its stream, or an event behind it, is
 *   waited for. Who reads a result without waiting reads the old one.
 * - Device memory cannot be touched but by work of streams: elsewhere it is protected. Behind each
 *   allocation lies a page that nobody may touch.
 * - A stream takes work only from a thread that uses its device, and what must not be called while
 *   a thread captures fails and ends the capture.
 * - A kernel of a programmatic dependent launch cannot touch device memory before it waits for the
 *   previous kernel, and every thread of every kernel waits.
 * - A workspace is filled with nonsense, and a convolution has several engines (cudnn_engines.cpp).
 *
 * device.cpp has devices and their memory, streams.cpp streams, events and graphs, ../shim the
 * kernels, cudnn_nodes.h and what it names cuDNN, products.h the arithmetic of both libraries.
 *
 * GPU 0 and 1 are Hopper's (sm_90), 2 is Turing's (sm_75: no bf16), 3 is too old (sm_61);
 * CUDA_VISIBLE_DEVICES leaves out and reorders as CUDA's does. Further variables of the
 * environment:
 *
 * AMPSCALE_FAKE_GPU=no-driver|old-driver|no-gpu: a machine that lacks something; volta: GPU 2 is
 * Volta's (sm_70), and cuDNN is 9.10.2; volta-cudnn: with a cuDNN that does not support it;
 * old-code: the driver has compiled kernels from Turing's intermediate form; driver-12.2: a driver
 * for CUDA 12.2.
 * AMPSCALE_FAKE_MEMORY=GIB: of each device (1), which lies in the host's as far as it is used.
 * AMPSCALE_FAKE_DELAYS=SCALE: nothing large is computed, and takes time instead (delays.h).
 * AMPSCALE_FAKE_NVJPEG=absent|no-engines|skips: what its decoder of JPEG lacks (nvjpeg.cpp).
 * AMPSCALE_FAKE_FAIL, AMPSCALE_FAKE_COUNT: calls that fail, and counts of calls (inject.h).
 * AMPSCALE_FAKE_FAULT=lost:GPU:FILE or flip:GPU:FILE damages the GPU once the file exists: it is
 * lost, and every call that needs it fails; or one bit changes of what its first allocation of 16
 * KiB or more holds, and nothing reports it. */
#pragma once

#include "cuda_runtime_api.h"

#include <functional>

/* Guards the whole fake; the functions below must be called with this lock held. */
struct fake_hold {
    fake_hold();
    ~fake_hold();
    fake_hold(const fake_hold &) = delete;
};

/* Executes `call` with access to device memory. */
void fake_with_memory(const std::function<void()> &call);

/* Ends access to device memory within such a call, and starts it again. */
void fake_close_memory();
void fake_open_memory();

/* The device that the calling thread uses, and whether the thread captures. */
int fake_device();
int fake_sm(int device); /* 90 for compute capability 9.0 */
bool fake_captures();

/* Invalidates the calling thread's capture, if there is one; returns whether there was. */
bool fake_end_capture();

/* Called when a thread waits: damages GPUs that are to be damaged now. Returns whether the GPU is
 * lost. */
void fake_look_for_faults();
bool fake_lost(int device);

/* Appends work to a stream, or to the graph that the stream captures; `seconds` is its time there
 * (delays.h). */
cudaError_t fake_submit(cudaStream_t s, std::function<void()> work, double seconds);

/* Executes all work of all streams. */
void fake_finish_all();

/* Reports a launch to the profiler (AMPSCALE_FAKE_PROFILE, profiler.cpp). */
void fake_profiled(const unsigned grid[3], const unsigned block[3]);
void fake_profiled_library();
