/* Fakes of a GPU and of cuDNN, for kernels/cuda/conv_exec.c and op_timer.c: memory, streams and
 * events, and the functions that execute and time work. As with a real asynchronous stream, the
 * time of the host and the time of the device are separate. Memory is counted; real host memory is
 * used only for the part that is read. */
#pragma once

#include "kernels/cuda/device.h"

#include <stdbool.h>

enum { GPU_ENGINES = 4 };

struct CUevent_st {
    double at;
};

/* For every problem, the library's heuristics return engines 0 to GPU_ENGINES - 1, in this order.
 */
struct gpu_double {
    double host, device; /* ms: the current time, and the time at which the device will have
                            completed its work */
    double host_ms;      /* ms that the host needs to prepare an execution */
    double latency_ms;   /* ms between an event and the execution after it */
    bool after_event;    /* the last work on the stream is an event */
    double engine_ms[GPU_ENGINES];
    bool fails[GPU_ENGINES];  /* executing the engine fails, and the GPU still works */
    bool breaks[GPU_ENGINES]; /* executing the engine breaks the GPU */
    bool broken;
    bool wrong;                 /* fused forms compute other values than their parts */
    size_t memory, used;        /* bytes: the limit, and the bytes in use */
    size_t most;                /* largest number of bytes in use */
    int l2;                     /* bytes of cache */
    size_t overwritten;         /* bytes overwritten since the last work on a stream */
    size_t zeroed;              /* bytes overwritten in total */
    bool nothing;               /* the heuristics return no engine */
    bool only_compiled;         /* all engines must be compiled at run time */
    bool compiled[GPU_ENGINES]; /* the engine must be compiled at run time */
    bool incomplete;            /* a part of the library could not be loaded */
    int lists, again, executions,
        packs; /* numbers of calls; `again` counts plans made from stored choices */
};
extern struct gpu_double gpu;

/* Resets the state. Engine 2 is the fastest engine. Its execution takes longer than its preparation
 * on the host. */
struct cuda_device gpu_new(void);
