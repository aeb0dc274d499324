/* A GPU and a library that are not there, for kernels/cuda/conv_exec.c and op_timer.c: memory,
 * streams and events, cuDNN and what is made of it, as far as work is timed and executed with them.
 * The time of the host and that of the device are kept apart, as they are where a stream is
 * asynchronous. Memory is counted, and the host's is used only for what is looked at. */
#pragma once

#include "kernels/cuda/device.h"

#include <stdbool.h>

enum { GPU_ENGINES = 4 };

struct CUevent_st {
    double at;
};

/* The library names engines 0 to GPU_ENGINES - 1 for every problem, in this order. */
struct gpu_double {
    double host, device; /* ms: now, and when the device will have done all that it was given */
    double host_ms;      /* that the host takes to prepare an execution */
    double engine_ms[GPU_ENGINES];
    bool fails[GPU_ENGINES];  /* its execution does, and the GPU still works */
    bool breaks[GPU_ENGINES]; /* the GPU does not */
    bool broken;
    size_t memory, used;                 /* bytes; what there is at most, and what is taken now */
    size_t most;                         /* that was taken at a time */
    int l2;                              /* bytes of cache */
    size_t overwritten;                  /* bytes, with nothing put on a stream since */
    bool nothing;                        /* the library names no engine */
    bool only_compiled;                  /* all of them are to be compiled at run time */
    int lists, again, executions, packs; /* made; `again`: plans of kept choices */
};
extern struct gpu_double gpu;

/* As new: engine 2 is the fastest, and slower than the host. */
struct cuda_device gpu_new(void);
