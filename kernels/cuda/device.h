/* The CUDA backend's device, its streams and events, and helpers for calls of the CUDA runtime. For
 * use inside the backend only. */
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/kernels.h"
#include "kernels/gpu_description.h"

#include <cuda_runtime_api.h>

struct conv_library;
struct matmul_library;
struct op_timer;

struct cuda_device {
    struct device base;
    char name[256];
    int sm; /* compute capability, major * 10 + minor: 90 */
    int multiprocessors;
    bool pdl;                                /* see struct stream in kernels/backend.h */
    size_t memory;                           /* bytes */
    const struct gpu_description *described; /* NULL: the GPU is present (described.c) */
    /* Pinned host memory to which the loss kernel writes the row of an invalid label; -1: all
     * labels are valid. See cuda_fault_take. */
    volatile int64_t *bad_label;
    /* The first plan that needs one of the next four members opens it, and registers a function
     * that closes it (cuda_at_close). Until then the member is NULL or false. */
    struct conv_library *conv;
    struct matmul_library *gemm;
    bool plan_file; /* the plan file is open for the device */
    struct op_timer *timer;
    void (*at_close[4])(struct cuda_device *dev); /* one for each of the four members above */
    int n_at_close;
    int trials; /* number of open op_trials; above 0: executions are being timed and do not belong
                 * to a step */
};

struct cuda_stream {
    struct stream base;
    cudaStream_t raw;
};

struct event {
    struct cuda_device *device;
    cudaEvent_t raw;
};

struct graph_exec {
    struct cuda_device *device;
    cudaGraphExec_t raw;
};

static inline struct cuda_device *cuda_device_of(struct device *dev)
{
    return (struct cuda_device *)dev;
}

/* Whether the device times few plans, and each execution once: a first run then takes a fraction of
 * the time (`plans` of struct device). */
static inline bool cuda_times_once(const struct cuda_device *dev)
{
    return dev->base.plans > 1 && dev->base.plans < PLANS_MAX;
}

/* Registers `close`. It is called when `dev` is closed, and `dev` is then the thread's current
 * device. */
static inline void cuda_at_close(struct cuda_device *dev, void (*close)(struct cuda_device *dev))
{
    dev->at_close[dev->n_at_close++] = close;
}

/* Closes the libraries, plan file and timer that plans have opened, the last opened first; the next
 * plan reopens them. */
static inline void cuda_close_opened(struct cuda_device *dev)
{
    while (dev->n_at_close > 0)
        dev->at_close[--dev->n_at_close](dev);
}

static inline struct cuda_stream *cuda_stream_of(struct stream *s)
{
    return (struct cuda_stream *)s;
}

/* STATUS_OK if `e` is success; else fails as cuda_error() of error.h does, with the formatted text
 * as the action. */
MUST_CHECK enum status cuda_check(cudaError_t e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Makes the device current in the calling thread. Every function of the backend that calls the
 * runtime does so first, so that threads with different devices may call them at the same time.
 * Does nothing for a GPU that is only described. */
MUST_CHECK enum status cuda_enter(const struct cuda_device *dev);

/* Fails if the program or the libraries do not support the GPU. */
MUST_CHECK enum status cuda_check_capability(const struct cuda_device *dev);

/* Makes the stream's device current, and fills in the queue for kernel launches. */
MUST_CHECK enum status cuda_queue(struct stream *s, struct cu_queue *q);

/* Returns STATUS_INVALID if a kernel has found an invalid label since the previous call. Call it
 * after waiting for a stream or an event. */
MUST_CHECK enum status cuda_fault_take(struct cuda_device *dev);

/* The functions of struct backend. */
enum status cuda_open(const struct backend *b, int index, int threads, struct device **dev);
void cuda_close(struct device *dev);
void cuda_describe(struct device *dev, char *out, size_t size);
bool cuda_native(struct device *dev, enum dtype type);
bool cuda_pdl(struct device *dev);
enum status cuda_admit(struct device *dev, enum dtype type);

enum status cuda_alloc(struct device *dev, size_t bytes, void **mem);
void cuda_free(struct device *dev, void *mem);
enum status cuda_alloc_host(struct device *dev, size_t bytes, void **mem);
void cuda_free_host(struct device *dev, void *mem);
enum status cuda_upload(struct stream *s, void *dst, const void *src_host, size_t bytes);
enum status cuda_download(struct stream *s, void *dst_host, const void *src, size_t bytes);
enum status cuda_copy(struct stream *s, void *dst, const void *src, size_t bytes);
enum status cuda_zero(struct stream *s, void *dst, size_t bytes);
enum status cuda_peer_open(struct device *dev, struct device *other, bool *direct);

enum status cuda_stream_open(struct device *dev, struct stream **s);
enum status cuda_stream_open_urgent(struct device *dev, struct stream **s);
void cuda_stream_close(struct stream *s);
enum status cuda_stream_sync(struct stream *s);
enum status cuda_stream_wait(struct stream *s, const struct event *e);
enum status cuda_event_open(struct device *dev, struct event **e);
void cuda_event_close(struct event *e);
enum status cuda_event_record(struct event *e, struct stream *s);
enum status cuda_event_wait(const struct event *e);
double cuda_event_seconds(const struct event *from, const struct event *to);

enum status cuda_capture_begin(struct stream *s);
enum status cuda_capture_end(struct stream *s, struct graph_exec **g);
enum status cuda_capture_launch(struct graph_exec *g, struct stream *s);
void cuda_capture_free(struct graph_exec *g);
enum status cuda_profile(struct stream *s, enum profile_call call);
