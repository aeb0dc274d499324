/* Streams, events, and steps that are captured as graphs. */
#include "base/array.h"
#include "kernels/cuda/device.h"

#include <cuda_profiler_api.h>
#include <math.h>
#include <stdlib.h>

static enum status stream_open(struct device *base, bool urgent, struct stream **out)
{
    struct cuda_device *dev = cuda_device_of(base);
    int least = 0, greatest = 0;
    *out = NULL;
    TRY(cuda_enter(dev));
    TRY(cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                   "read the range of stream priorities"));
    struct cuda_stream *s;
    TRY(array_new(&s, 1));
    s->base.device = base;
    enum status st = cuda_check(
        cudaStreamCreateWithPriority(&s->raw, cudaStreamNonBlocking, urgent ? greatest : least),
        "open a stream of GPU %d", base->index);
    if (st != STATUS_OK) {
        free(s);
        return st;
    }
    *out = &s->base;
    return STATUS_OK;
}

enum status cuda_stream_open(struct device *dev, struct stream **s)
{
    return stream_open(dev, false, s);
}

enum status cuda_stream_open_urgent(struct device *dev, struct stream **s)
{
    return stream_open(dev, true, s);
}

static enum status finished(const struct cuda_device *dev, cudaError_t e)
{
    /* These are errors that a kernel causes. CUDA reports such an error at a later wait, without
     * the kernel's name. */
    if (e == cudaErrorIllegalAddress ||
        (e >= cudaErrorHardwareStackError && e <= cudaErrorLaunchFailure))
        return status_fail(STATUS_LIBRARY,
                           "a kernel failed on GPU %d: %s; to find its layer, set "
                           "CUDA_LAUNCH_BLOCKING=1 in the environment and train with --no-graph",
                           dev->base.index, cudaGetErrorString(e));
    return cuda_check(e, "finish the work of GPU %d", dev->base.index);
}

void cuda_stream_close(struct stream *s)
{
    if (s && cudaSetDevice(s->device->index) == cudaSuccess)
        cudaStreamDestroy(cuda_stream_of(s)->raw);
    free(s);
}

enum status cuda_stream_sync(struct stream *s)
{
    struct cuda_device *dev = cuda_device_of(s->device);
    TRY(cuda_enter(dev));
    TRY(finished(dev, cudaStreamSynchronize(cuda_stream_of(s)->raw)));
    return cuda_fault_take(dev);
}

enum status cuda_event_open(struct device *base, struct event **out)
{
    struct cuda_device *dev = cuda_device_of(base);
    *out = NULL;
    TRY(cuda_enter(dev));
    struct event *e;
    TRY(array_new(&e, 1));
    e->device = dev;
    /* A thread that waits for the event sleeps instead of polling, because it may share its core
     * with threads of the loader. */
    enum status st = cuda_check(cudaEventCreateWithFlags(&e->raw, cudaEventBlockingSync),
                                "open an event of GPU %d", base->index);
    if (st != STATUS_OK) {
        free(e);
        return st;
    }
    *out = e;
    return STATUS_OK;
}

void cuda_event_close(struct event *e)
{
    if (e && cudaSetDevice(e->device->base.index) == cudaSuccess)
        cudaEventDestroy(e->raw);
    free(e);
}

enum status cuda_event_record(struct event *e, struct stream *s)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cuda_check(cudaEventRecord(e->raw, q.stream), "record an event");
}

enum status cuda_stream_wait(struct stream *s, const struct event *e)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cuda_check(cudaStreamWaitEvent(q.stream, e->raw, 0), "wait for an event");
}

enum status cuda_event_wait(const struct event *e)
{
    TRY(cuda_enter(e->device));
    TRY(finished(e->device, cudaEventSynchronize(e->raw)));
    return cuda_fault_take(e->device);
}

double cuda_event_seconds(const struct event *from, const struct event *to)
{
    float ms;
    return cudaEventElapsedTime(&ms, from->raw, to->raw) == cudaSuccess ? (double)ms * 1e-3 : NAN;
}

enum status cuda_capture_begin(struct stream *s)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    /* Relaxed: a library may allocate memory or load a kernel as an operation is recorded. The
     * other modes fail the capture then. */
    return cuda_check(cudaStreamBeginCapture(q.stream, cudaStreamCaptureModeRelaxed),
                      "begin to capture a step");
}

enum status cuda_capture_end(struct stream *s, struct graph_exec **out)
{
    struct cu_queue q;
    struct graph_exec *g = NULL;
    cudaGraph_t graph = NULL;
    *out = NULL;
    enum status st = cuda_queue(s, &q);
    /* Ends the capture even after a failure: a thread whose capture is still open can do no other
     * work on the GPU. */
    cudaError_t e = cudaStreamEndCapture(cuda_stream_of(s)->raw, &graph);
    CHECK(st);
    CHECK(cuda_check(e, "capture a step"));
    CHECK(array_new(&g, 1));
    CHECK(cuda_check(cudaGraphInstantiate(&g->raw, graph, 0), "make a graph of a captured step"));
done:
    if (graph)
        cudaGraphDestroy(graph);
    if (st != STATUS_OK) {
        free(g);
        return st;
    }
    g->device = cuda_device_of(s->device);
    *out = g;
    return STATUS_OK;
}

enum status cuda_capture_launch(struct graph_exec *g, struct stream *s)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cuda_check(cudaGraphLaunch(g->raw, q.stream), "launch a captured step");
}

void cuda_capture_free(struct graph_exec *g)
{
    if (cudaSetDevice(g->device->base.index) == cudaSuccess)
        cudaGraphExecDestroy(g->raw);
    free(g);
}

enum status cuda_profile(struct stream *s, enum profile_call call)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    if (call == PROFILE_MARK)
        return cu_profile_mark(&q);
    TRY(cuda_stream_sync(s));
    return call == PROFILE_BEGIN ? cuda_check(cudaProfilerStart(), "start the profiler")
                                 : cuda_check(cudaProfilerStop(), "stop the profiler");
}
