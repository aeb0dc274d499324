/* The fake GPU and the fake cuDNN of these tests. */
#include "gpu_double.h"

#include "kernels/cuda/conv_check.h"

#include "kernels/cuda/conv_plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct gpu_double gpu;

struct cuda_device gpu_new(void)
{
    static const double ms[GPU_ENGINES] = {5, 4, 3, 30};
    memset(&gpu, 0, sizeof gpu);
    memcpy(gpu.engine_ms, ms, sizeof ms);
    gpu.host_ms = 2;
    gpu.memory = (size_t)8 << 30;
    gpu.l2 = 1 << 20;
    return (struct cuda_device){.name = "NVIDIA H200", .sm = 90};
}

/* ---- the CUDA runtime ---- */

enum status cuda_check(cudaError_t e, const char *fmt, ...)
{
    char action[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(action, sizeof action, fmt, args);
    va_end(args);
    if (e == cudaSuccess)
        return STATUS_OK;
    return status_fail(e == cudaErrorMemoryAllocation ? STATUS_OOM : STATUS_LIBRARY, "cannot %s",
                       action);
}

enum status cuda_enter(const struct cuda_device *dev)
{
    (void)dev;
    return STATUS_OK;
}

enum status cuda_alloc(struct device *dev, size_t bytes, void **mem)
{
    (void)dev;
    *mem = NULL;
    if (bytes > gpu.memory - gpu.used)
        return status_fail(STATUS_OOM, "the GPU has no memory");
    size_t *size = malloc(sizeof *size + 256 + bytes);
    assert_non_null(size);
    *size = bytes;
    gpu.used += bytes;
    gpu.most = gpu.used > gpu.most ? gpu.used : gpu.most;
    *mem = (char *)size + 256;
    return STATUS_OK;
}

void cuda_free(struct device *dev, void *mem)
{
    if (!mem)
        return;
    size_t *size = (size_t *)((char *)mem - 256);
    (void)dev;
    gpu.used -= *size;
    free(size);
}

enum status cuda_upload(struct stream *s, void *dst, const void *src_host, size_t bytes)
{
    return cuda_copy(s, dst, src_host, bytes);
}

enum status cuda_copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    (void)s;
    memcpy(dst, src, bytes);
    return STATUS_OK;
}

/* Takes one nanosecond per byte. */
enum status cuda_zero(struct stream *s, void *dst, size_t bytes)
{
    (void)s, (void)dst;
    gpu.overwritten += bytes;
    gpu.zeroed += bytes;
    gpu.device = fmax(gpu.host, gpu.device) + (double)bytes * 1e-6;
    return STATUS_OK;
}

static cudaError_t wait_until(double at)
{
    gpu.host = fmax(gpu.host, at);
    return gpu.broken ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return wait_until(gpu.device);
}

enum status cuda_stream_sync(struct stream *s)
{
    (void)s;
    return cuda_check(wait_until(gpu.device), "finish");
}

enum status cuda_stream_open(struct device *dev, struct stream **s)
{
    struct cuda_stream *new = calloc(1, sizeof *new);
    assert_non_null(new);
    *new = (struct cuda_stream){{dev}, (cudaStream_t)(void *)&gpu};
    *s = &new->base;
    return STATUS_OK;
}

void cuda_stream_close(struct stream *s)
{
    free(s);
}

enum status cuda_event_open(struct device *dev, struct event **e)
{
    *e = calloc(1, sizeof **e);
    assert_non_null(*e);
    (*e)->device = cuda_device_of(dev);
    (*e)->raw = calloc(1, sizeof *(*e)->raw);
    assert_non_null((*e)->raw);
    return STATUS_OK;
}

void cuda_event_close(struct event *e)
{
    free(e->raw);
    free(e);
}

enum status cuda_event_record(struct event *e, struct stream *s)
{
    (void)s;
    e->raw->at = fmax(gpu.host, gpu.device);
    gpu.after_event = true;
    return STATUS_OK;
}

enum status cuda_event_wait(const struct event *e)
{
    return cuda_check(wait_until(e->raw->at), "finish");
}

double cuda_event_seconds(const struct event *from, const struct event *to)
{
    return (to->raw->at - from->raw->at) * 1e-3;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event->at > gpu.host ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int index)
{
    (void)index;
    assert_int_equal(attribute, cudaDevAttrL2CacheSize);
    *value = gpu.l2;
    return cudaSuccess;
}

/* ---- the library ---- */

size_t cudnnGetVersion(void)
{
    return 91900;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = (cudnnHandle_t)(void *)&gpu;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    int engine = (int)(intptr_t)plan - 1;
    (void)handle;
    assert_non_null(pack);
    assert_in_range(engine, 0, GPU_ENGINES - 1);
    gpu.executions++;
    gpu.overwritten = 0;
    gpu.broken = gpu.broken || gpu.breaks[engine];
    if (gpu.fails[engine] || gpu.broken)
        return CUDNN_STATUS_EXECUTION_FAILED;
    gpu.host += gpu.host_ms;
    gpu.device =
        fmax(gpu.host, gpu.device) + gpu.engine_ms[engine] + (gpu.after_event ? gpu.latency_ms : 0);
    gpu.after_event = false;
    return CUDNN_STATUS_SUCCESS;
}

enum status cudnn_check(cudnnStatus_t s, const char *fmt, ...)
{
    (void)fmt;
    return s == CUDNN_STATUS_SUCCESS ? STATUS_OK
                                     : status_fail(STATUS_LIBRARY, "cuDNN fails with %d", (int)s);
}

enum status cudnn_desc_create(struct cudnn_desc *d, cudnnBackendDescriptorType_t type,
                              const char *kind)
{
    assert_int_equal(type, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    *d = (struct cudnn_desc){&gpu, kind};
    gpu.packs++;
    return STATUS_OK;
}

enum status cudnn_device_describe(const struct gpu_description *gpu_, struct cudnn_device *out)
{
    (void)gpu_;
    (void)out;
    return status_fail(STATUS_UNSUPPORTED, "the double is not described");
}

void cudnn_keep_compiler(void)
{
}

bool cudnn_incomplete(void)
{
    return gpu.incomplete;
}

void cudnn_desc_destroy(struct cudnn_desc *d)
{
    d->raw = NULL;
}

enum status cudnn_desc_set(struct cudnn_desc *d, cudnnBackendAttributeName_t attribute,
                           const char *name, cudnnBackendAttributeType_t type, int64_t count,
                           const void *value)
{
    (void)attribute, (void)name, (void)type, (void)value;
    assert_non_null(d->raw);
    assert_in_range(count, 1, CG_PORT_COUNT);
    return STATUS_OK;
}

enum status cudnn_desc_finalize(struct cudnn_desc *d)
{
    assert_non_null(d->raw);
    return STATUS_OK;
}

enum status conv_form_graph(const struct cudnn_device *dev, const struct conv_problem *problem,
                            struct cudnn_graph **g)
{
    (void)dev, (void)problem;
    *g = NULL;
    return STATUS_OK;
}

void cg_close(struct cudnn_graph *g)
{
    assert_null(g);
}

static struct cudnn_plan plan_of(int engine)
{
    return (struct cudnn_plan){.desc = {(void *)(intptr_t)(engine + 1), "plan"},
                               .choice = {.engine = engine},
                               .workspace = 256 * (size_t)engine};
}

static bool is_compiled(int engine)
{
    return gpu.only_compiled || gpu.compiled[engine];
}

enum status plan_list_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                           const struct plan_limits *limits, struct plan_list *list)
{
    (void)dev, (void)g;
    gpu.lists++;
    *list = (struct plan_list){0};
    for (int i = 0; i < GPU_ENGINES && list->n < limits->plans && !gpu.nothing; i++)
        if (is_compiled(i) == limits->runtime_compiled &&
            !excluded_engines_has(limits->excluded, i))
            list->plan[list->n++] = plan_of(i);
    return list->n ? STATUS_OK : status_fail(STATUS_UNSUPPORTED, "cuDNN has no plan");
}

void plan_list_close(struct plan_list *list)
{
    *list = (struct plan_list){0};
}

enum status plan_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                      const struct plan_choice *choice, const struct plan_limits *limits,
                      struct cudnn_plan *plan)
{
    (void)dev, (void)g;
    if (choice->engine >= GPU_ENGINES ||
        is_compiled((int)choice->engine) != limits->runtime_compiled ||
        excluded_engines_has(limits->excluded, choice->engine))
        return status_fail(STATUS_UNSUPPORTED, "there is no such engine");
    gpu.again++;
    *plan = plan_of((int)choice->engine);
    return STATUS_OK;
}

void plan_close(struct cudnn_plan *plan)
{
    *plan = (struct cudnn_plan){0};
}

/* ---- the check of fused forms, which needs kernels ---- */

bool conv_difference_is_small(const struct conv_difference *d, enum dtype type)
{
    (void)type;
    return d->worst < 0.01;
}

enum conv_form conv_check_plain(enum conv_form form)
{
    (void)form;
    return CONV_FWD;
}

enum status conv_check(struct cuda_device *dev, const struct conv_problem *problem,
                       const struct timed_work *fused, const struct timed_work *plain,
                       struct conv_difference *d)
{
    (void)dev;
    (void)plain;
    (void)problem;
    (void)fused;
    *d = (struct conv_difference){gpu.wrong ? 0.5 : 0.0001, "Y"};
    return STATUS_OK;
}
