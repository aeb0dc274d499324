/* Streams, events and graphs of the fake GPU: lists of calls that are executed later. */
#include "delays.h"
#include "fake.h"
#include "inject.h"

#include "cuda_runtime.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace
{

typedef std::chrono::steady_clock steady;

/* Executes work of a stream, and returns its time on the device in seconds (delays.h). */
typedef std::function<double()> call;

struct entry {
    steady::time_point given;
    call work;
};

/* The work of a stream. It outlives the stream as long as an event refers to it. */
struct queue {
    std::deque<entry> calls;
    uint64_t given = 0, done = 0;
    steady::time_point clock; /* time at which the device completes the calls executed so far */

    void put(call c)
    {
        calls.push_back({steady::now(), std::move(c)});
        given++;
    }

    /* Executes calls until `n` calls in total have been executed. */
    void run(uint64_t n)
    {
        while (done < n && !calls.empty()) {
            entry e = std::move(calls.front());
            calls.pop_front();
            done++;
            clock = std::max(clock, e.given);
            double seconds = fake_broken() ? 0 : e.work();
            clock += std::chrono::duration_cast<steady::duration>(
                std::chrono::duration<double>(seconds));
        }
    }
};

} // namespace

struct CUgraph_st {
    std::vector<call> calls;
    cudaStream_t origin;
    uint64_t number; /* number of the capture, from 1 */
    bool broken = false;
};

struct CUgraphExec_st {
    std::vector<call> calls;
};

struct CUstream_st {
    int device;
    std::shared_ptr<queue> work = std::make_shared<queue>();
    CUgraph_st *captured = NULL; /* capture of this stream, or of a stream that it waits for */
    bool warm[FAKE_LIBRARIES] = {}; /* the library has executed here outside of a capture */
};

struct CUevent_st {
    int device;
    std::shared_ptr<queue> work; /* NULL: never recorded */
    uint64_t at = 0;             /* number of calls of the stream before the event */
    uint64_t captured = 0;       /* the capture in which it was recorded; 0: none */
    std::shared_ptr<steady::time_point> when = std::make_shared<steady::time_point>();
    bool passed = false, queried = false;
};

namespace
{

std::set<cudaStream_t> streams;
uint64_t captures; /* begun so far */
thread_local CUgraph_st *capturing;

/* Appends a call to the stream, or to the graph if the stream is captured. */
cudaError_t submit(cudaStream_t s, call c)
{
    FAKE_NEED(s->device == fake_device(), cudaErrorInvalidResourceHandle);
    FAKE_NEED(!fake_lost(s->device), cudaErrorECCUncorrectable);
    FAKE_NEED(!s->captured || !s->captured->broken, cudaErrorStreamCaptureInvalidated);
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

/* The destructor sleeps until the device has completed the work. It runs after the lock is
 * released. */
struct sleeper {
    steady::time_point until;

    ~sleeper()
    {
        if (fake_delayed())
            std::this_thread::sleep_until(until);
    }
};

/* Returns the capture in which an event was recorded, or NULL if the capture has ended. */
CUgraph_st *capture_of(cudaEvent_t e)
{
    for (cudaStream_t s : streams)
        if (s->captured && s->captured->number == e->captured)
            return s->captured;
    return NULL;
}

/* A thread must not wait for a captured stream. The wait invalidates the capture. */
cudaError_t refuse_capture(CUgraph_st *g)
{
    g->broken = true;
    return fake_error(cudaErrorStreamCaptureUnsupported);
}

} // namespace

bool fake_captures()
{
    return capturing != NULL;
}

bool fake_end_capture()
{
    if (capturing)
        capturing->broken = true;
    return capturing != NULL;
}

cudaError_t fake_submit_copy(cudaStream_t s, std::function<void()> copy, double seconds)
{
    fake_hold hold;
    return submit(s, [=] {
        copy();
        return seconds;
    });
}

cudaError_t fake_submit(cudaStream_t s, std::function<void()> kernel, double seconds)
{
    int device = s->device;
    return fake_submit_copy(s, [=] { fake_run_kernel(device, false, kernel); }, seconds);
}

cudaError_t fake_submit_call(cudaStream_t s, enum fake_library library, std::function<void()> call,
                             double seconds)
{
    fake_hold hold;
    if (s->captured && !s->warm[library])
        return refuse_capture(s->captured);
    s->warm[library] = true;
    return fake_submit(s, call, seconds);
}

void fake_finish_all()
{
    for (cudaStream_t s : streams)
        run_until(s->work.get(), s->work->given);
}

/* Returns whether a launch may begin before the previous kernel of its stream is complete. */
static bool is_dependent(const cudaLaunchConfig_t *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
            config->attrs[i].val.programmaticStreamSerializationAllowed)
            return true;
    return false;
}

/* A kernel that is launched early runs with device memory protected until it waits for the previous
 * kernel. An earlier access ends the process. */
cudaError_t shim_launch(const cudaLaunchConfig_t *config, void (*body)(const void *),
                        const void *context, size_t size)
{
    FAKE_ENTER(cudaLaunchKernel);
    bool early = is_dependent(config);
    if (early && fake_sm(fake_device()) < 90)
        return fake_error(cudaErrorInvalidValue);
    if (early)
        FAKE_ENTER(cudaLaunchDependent);
    dim3 grid = config->gridDim, block = config->blockDim;
    const char *bytes = (const char *)context;
    auto copy = std::make_shared<std::vector<char>>(bytes, bytes + size);
    FAKE_NEED(shim_grid_valid(grid, block), cudaErrorInvalidConfiguration);
    const unsigned shape[2][3] = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}};
    fake_profiled(shape[0], shape[1]);
    fake_hold hold;
    int device = config->stream->device;
    return submit(config->stream, [=] {
        double touched = fake_kernel_bytes(copy->data(), size);
        fake_kernel_begins();
        if (!fake_too_large(touched, 0))
            fake_run_kernel(device, early, [=] {
                shim_run(grid, block, body, copy->data(), fake_kernel_enough,
                         early ? fake_open_memory : NULL);
            });
        return fake_takes(touched, 0, RATE_F32);
    });
}

/* --- streams --- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_ASK(cudaDeviceGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

static cudaError_t stream_create(cudaStream_t *s)
{
    fake_hold hold;
    *s = new CUstream_st{fake_device()};
    streams.insert(*s);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned, int)
{
    FAKE_ENTER(cudaStreamCreateWithPriority);
    return stream_create(s);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    FAKE_ENTER(cudaStreamCreateWithFlags);
    return stream_create(s);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t result = fake_enter("cudaStreamDestroy", true);
    fake_hold hold;
    run_until(s->work.get(), s->work->given);
    streams.erase(s);
    delete s;
    return result;
}

/* Executes the work even if AMPSCALE_FAKE_FAIL makes this wait fail. The caller of a failed wait
 * does not know which calls were executed, but no call is in progress. */
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t result = fake_enter("cudaStreamSynchronize", true);
    sleeper sleep;
    fake_hold hold;
    if (!s) { /* the default stream: its calls are executed at once */
        return fake_end_capture() ? fake_error(cudaErrorStreamCaptureImplicit) : result;
    }
    if (s->captured)
        return refuse_capture(s->captured);
    fake_look_for_faults();
    FAKE_NEED(!fake_lost(s->device), cudaErrorECCUncorrectable);
    run_until(s->work.get(), s->work->given);
    sleep.until = s->work->clock;
    return result;
}

/* --- events --- */

static cudaError_t event_create(cudaEvent_t *e)
{
    fake_hold hold;
    *e = new CUevent_st{fake_device()};
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    FAKE_ENTER(cudaEventCreateWithFlags);
    return event_create(e);
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    FAKE_ENTER(cudaEventCreate);
    return event_create(e);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    cudaError_t result = fake_enter("cudaEventDestroy", true);
    fake_hold hold;
    if (e->work)
        run_until(e->work.get(), e->at);
    delete e;
    return result;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    FAKE_ENTER_HELD(cudaEventRecord);
    FAKE_NEED(e->device == s->device, cudaErrorInvalidResourceHandle);
    e->captured = s->captured ? s->captured->number : 0;
    FAKE_NEED(!s->captured || !s->captured->broken, cudaErrorStreamCaptureInvalidated);
    if (s->captured)
        return s->device == fake_device() ? cudaSuccess
                                          : fake_error(cudaErrorInvalidResourceHandle);
    e->passed = e->queried = false;
    e->when = std::make_shared<steady::time_point>();
    std::shared_ptr<steady::time_point> when = e->when;
    std::shared_ptr<queue> work = s->work;
    cudaError_t error = submit(s, [=] {
        *when = fake_delayed() ? work->clock : steady::now();
        e->passed = true;
        return 0.0;
    });
    e->work = s->work;
    e->at = s->work->given;
    return error;
}

/* If the event was recorded in a capture, the stream `s` joins that capture until the capture ends.
 * The graph executes calls in the order in which they were made. This order satisfies all events.
 */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    FAKE_ENTER_HELD(cudaStreamWaitEvent);
    if (e->captured) {
        CUgraph_st *capture = capture_of(e);
        if (!capture) /* it has ended */
            return fake_error(cudaErrorCapturedEvent);
        if (s->captured && s->captured != capture)
            return refuse_capture(s->captured);
        s->captured = capture;
        return capture->broken ? fake_error(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
    }
    if (!e->work)
        return cudaSuccess;
    if (s->captured) /* the event's work is not part of the graph */
        return refuse_capture(s->captured);
    std::shared_ptr<queue> work = e->work;
    uint64_t at = e->at;
    std::shared_ptr<queue> own = s->work;
    std::shared_ptr<steady::time_point> when = e->when;
    return submit(s, [=] {
        work->run(at);
        own->clock = std::max(own->clock, *when);
        return 0.0;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    cudaError_t result = fake_enter("cudaEventSynchronize", true);
    sleeper sleep;
    fake_hold hold;
    if (e->captured) {
        CUgraph_st *capture = capture_of(e);
        return capture ? refuse_capture(capture) : fake_error(cudaErrorCapturedEvent);
    }
    fake_look_for_faults();
    FAKE_NEED(!fake_lost(e->device), cudaErrorECCUncorrectable);
    if (e->work) {
        run_until(e->work.get(), e->at);
        sleep.until = *e->when;
    }
    return result;
}

/* Returns "not ready" the first time, because work is postponed as long as possible. A thread that
 * queries the event again waits for it in effect, and the work is then executed. */
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    FAKE_ENTER_HELD(cudaEventQuery);
    if (e->work && !e->passed && e->queried)
        run_until(e->work.get(), e->at);
    e->queried = true;
    return !e->work || e->passed ? cudaSuccess : fake_error(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    FAKE_ENTER_HELD(cudaEventElapsedTime);
    FAKE_NEED(from->work && to->work, cudaErrorInvalidResourceHandle);
    FAKE_NEED(from->passed && to->passed, cudaErrorNotReady);
    *ms = std::chrono::duration<float, std::milli>(*to->when - *from->when).count();
    return cudaSuccess;
}

/* --- graphs --- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    FAKE_ENTER_HELD(cudaStreamBeginCapture);
    FAKE_NEED(!s->captured && !capturing && s->device == fake_device(), cudaErrorInvalidValue);
    s->captured = capturing = new CUgraph_st{{}, s, ++captures};
    return cudaSuccess;
}

/* Ends the capture even if the call fails. */
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    cudaError_t result = fake_enter("cudaStreamEndCapture", true);
    fake_hold hold;
    *g = NULL;
    CUgraph_st *captured = s->captured;
    FAKE_NEED(captured && captured->origin == s, cudaErrorInvalidValue);
    for (cudaStream_t other : streams)
        if (other->captured == captured)
            other->captured = NULL;
    capturing = NULL;
    if (result == cudaSuccess && captured->broken)
        result = fake_error(cudaErrorStreamCaptureInvalidated);
    if (result != cudaSuccess) {
        delete captured;
        return result;
    }
    *g = captured;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long)
{
    FAKE_ENTER(cudaGraphInstantiate);
    *x = new CUgraphExec_st{g->calls};
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    cudaError_t result = fake_enter("cudaGraphDestroy", true);
    delete g;
    return result;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    FAKE_ENTER_HELD(cudaGraphLaunch);
    auto calls = std::make_shared<std::vector<call>>(x->calls);
    return submit(s, [=] {
        double seconds = 0;
        for (const call &c : *calls)
            seconds += c();
        return seconds;
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    cudaError_t result = fake_enter("cudaGraphExecDestroy", true);
    fake_hold hold;
    delete x;
    return result;
}
