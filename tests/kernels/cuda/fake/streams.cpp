/* Streams, events and graphs of the fake: lists of calls that wait for their turn. */
#include "fake.h"

#include "cuda_runtime.h"

#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <vector>

namespace
{

typedef std::function<void()> call;

/* What a stream has been given; outlives it where an event speaks of it. */
struct queue {
    std::deque<call> calls;
    uint64_t given = 0, done = 0;

    void put(call c)
    {
        calls.push_back(std::move(c));
        given++;
    }

    /* Carries out calls until `n` have been. */
    void run(uint64_t n)
    {
        while (done < n && !calls.empty()) {
            call c = std::move(calls.front());
            calls.pop_front();
            done++;
            c();
        }
    }
};

} // namespace

struct CUgraph_st {
    std::vector<call> calls;
    cudaStream_t origin;
    bool broken = false;
};

struct CUgraphExec_st {
    std::vector<call> calls;
};

struct CUstream_st {
    int device;
    std::shared_ptr<queue> work = std::make_shared<queue>();
    CUgraph_st *captured = NULL; /* by it, or by a stream that it waits for */
};

struct CUevent_st {
    int device;
    std::shared_ptr<queue> work; /* NULL: never recorded */
    uint64_t at = 0;             /* calls that it comes after, its own included */
    CUgraph_st *captured = NULL; /* it was recorded while this was */
    std::chrono::steady_clock::time_point when;
    bool passed = false;
};

namespace
{

std::set<cudaStream_t> streams;
thread_local CUgraph_st *capturing;

/* What puts calls after one another for a stream: the graph while it captures. */
cudaError_t submit(cudaStream_t s, call c)
{
    if (s->device != fake_device())
        return cudaErrorInvalidResourceHandle;
    if (fake_lost(s->device))
        return cudaErrorECCUncorrectable;
    if (s->captured)
        s->captured->calls.push_back(std::move(c));
    else
        s->work->put(std::move(c));
    return cudaSuccess;
}

void run_until(queue *q, uint64_t n)
{
    fake_with_memory([=] { q->run(n); });
}

/* Waiting is no part of a captured step, and ends it. */
cudaError_t refuse_capture(CUgraph_st *g)
{
    g->broken = true;
    return cudaErrorStreamCaptureUnsupported;
}

} // namespace

bool fake_captures()
{
    return capturing != NULL;
}

cudaError_t fake_submit(cudaStream_t s, call c)
{
    fake_hold hold;
    return submit(s, std::move(c));
}

cudaError_t fake_call(cudaStream_t s, void (*body)(const void *), const void *context, size_t size)
{
    const char *bytes = (const char *)context;
    auto copy = std::make_shared<std::vector<char>>(bytes, bytes + size);
    return fake_submit(s, [=] { body(copy->data()); });
}

void fake_finish_all()
{
    for (cudaStream_t s : streams)
        run_until(s->work.get(), s->work->given);
}

cudaError_t shim_launch(const cudaLaunchConfig_t *config, void (*body)(const void *),
                        const void *context, size_t size)
{
    dim3 grid = config->gridDim, block = config->blockDim;
    const char *bytes = (const char *)context;
    auto copy = std::make_shared<std::vector<char>>(bytes, bytes + size);
    if (!shim_grid_valid(grid, block))
        return cudaErrorInvalidConfiguration;
    return fake_submit(config->stream, [=] { shim_run(grid, block, body, copy->data()); });
}

/* --- streams --- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned, int)
{
    fake_hold hold;
    *s = new CUstream_st{fake_device()};
    streams.insert(*s);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    fake_hold hold;
    run_until(s->work.get(), s->work->given);
    streams.erase(s);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    fake_hold hold;
    if (!s) { /* the default stream: what goes there is carried out at once */
        return cudaSuccess;
    }
    if (s->captured)
        return refuse_capture(s->captured);
    fake_look_for_faults();
    if (fake_lost(s->device))
        return cudaErrorECCUncorrectable;
    run_until(s->work.get(), s->work->given);
    return cudaSuccess;
}

/* --- events --- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    fake_hold hold;
    *e = new CUevent_st{fake_device()};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    fake_hold hold;
    if (e->work)
        run_until(e->work.get(), e->at);
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    fake_hold hold;
    if (e->device != s->device)
        return cudaErrorInvalidResourceHandle;
    e->captured = s->captured;
    if (s->captured)
        return s->device == fake_device() ? cudaSuccess : cudaErrorInvalidResourceHandle;
    e->passed = false;
    cudaError_t error = submit(s, [=] {
        e->when = std::chrono::steady_clock::now();
        e->passed = true;
    });
    e->work = s->work;
    e->at = s->work->given;
    return error;
}

/* A stream that waits for an event of a captured one is captured too, until that ends: the graph
 * keeps the order in which calls came, which is one that the events allow. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    fake_hold hold;
    if (e->captured) {
        if (s->captured && s->captured != e->captured)
            return refuse_capture(s->captured);
        s->captured = e->captured;
        return cudaSuccess;
    }
    if (!e->work)
        return cudaSuccess;
    if (s->captured) /* work outside of the graph */
        return refuse_capture(s->captured);
    std::shared_ptr<queue> work = e->work;
    uint64_t at = e->at;
    return submit(s, [=] { work->run(at); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    fake_hold hold;
    if (e->captured)
        return refuse_capture(e->captured);
    fake_look_for_faults();
    if (fake_lost(e->device))
        return cudaErrorECCUncorrectable;
    if (e->work)
        run_until(e->work.get(), e->at);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    fake_hold hold;
    if (!from->work || !to->work)
        return cudaErrorInvalidResourceHandle;
    if (!from->passed || !to->passed)
        return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(to->when - from->when).count();
    return cudaSuccess;
}

/* --- graphs --- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    fake_hold hold;
    if (s->captured || capturing || s->device != fake_device())
        return cudaErrorInvalidValue;
    s->captured = capturing = new CUgraph_st{{}, s};
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    fake_hold hold;
    *g = NULL;
    CUgraph_st *captured = s->captured;
    if (!captured || captured->origin != s)
        return cudaErrorInvalidValue;
    for (cudaStream_t other : streams)
        if (other->captured == captured)
            other->captured = NULL;
    capturing = NULL;
    if (captured->broken) {
        delete captured;
        return cudaErrorStreamCaptureInvalidated;
    }
    *g = captured;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long)
{
    *x = new CUgraphExec_st{g->calls};
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    fake_hold hold;
    auto calls = std::make_shared<std::vector<call>>(x->calls);
    return submit(s, [=] {
        for (const call &c : *calls)
            c();
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    fake_hold hold;
    delete x;
    return cudaSuccess;
}
