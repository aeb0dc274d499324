/* A GPU that is described instead of present (kernels/gpu_description.h). The device plans as the
 * device of a present GPU does: it chooses layouts and workspaces, and cuDNN's heuristics choose
 * engines for the description. Nothing can be executed: memory has addresses but no contents,
 * streams and events do nothing, and no call reaches the CUDA runtime. The time of a plan
 * (op_seconds) is predicted (kernels/gpu_time.h). The lowering compares predicted times to decide
 * which operations to fuse. Files of plans are neither read nor written. */
#include "base/array.h"
#include "config.h"
#include "kernels/cuda/cudnn_desc.h"
#include "kernels/cuda/plan.h"
#include "kernels/host.h"
#include "kernels/module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct described {
    struct cuda_device cuda;
    struct backend backend; /* CUDA's backend with the functions below */
    struct gpu_description gpu;
    uintptr_t end; /* the first address after all memory allocated so far */
};

/* --- the functions of struct backend --- */

static struct described *described_of(struct device *dev)
{
    return (struct described *)dev;
}

static void close_described(struct device *dev)
{
    cuda_close_opened(cuda_device_of(dev));
    free(dev);
}

static void describe_described(struct device *dev, char *out, size_t size)
{
    const struct gpu_description *g = &described_of(dev)->gpu;
    snprintf(out, size, "%s (described), sm_%d, %.1f GiB, cuDNN %s", g->name, g->sm,
             g->memory / 1073741824.0, cudnn_version());
}

static enum status alloc_addresses(struct device *dev, size_t bytes, void **mem)
{
    struct described *d = described_of(dev);
    *mem = NULL;
    if ((double)d->end + (double)bytes > d->gpu.memory)
        return status_fail(
            STATUS_OOM,
            "'%s' has no memory for another %.1f MiB; it has %.1f GiB in total; use a "
            "smaller batch or image",
            d->gpu.name, (double)bytes / 1048576.0, d->gpu.memory / 1073741824.0);
    *mem = (void *)d->end; // NOLINT(performance-no-int-to-ptr): never dereferenced
    d->end += cuda_align(bytes ? bytes : 1);
    return STATUS_OK;
}

static void free_addresses(struct device *dev, void *mem)
{
    (void)dev;
    (void)mem;
}

static enum status upload_nothing(struct stream *s, void *dst, const void *src, size_t bytes)
{
    (void)s;
    (void)dst;
    (void)src;
    (void)bytes;
    return STATUS_OK;
}

static enum status zero_nothing(struct stream *s, void *dst, size_t bytes)
{
    return upload_nothing(s, dst, NULL, bytes);
}

static enum status download_nothing(struct stream *s, void *dst, const void *src, size_t bytes)
{
    (void)s;
    (void)dst;
    (void)src;
    (void)bytes;
    return status_fail(STATUS_UNSUPPORTED, "a GPU that is only described has no results");
}

static enum status open_stream(struct device *dev, struct stream **out)
{
    struct cuda_stream *s;
    *out = NULL;
    TRY(array_new(&s, 1));
    s->base.device = dev;
    *out = &s->base;
    return STATUS_OK;
}

static enum status open_event(struct device *dev, struct event **e)
{
    TRY(array_new(e, 1));
    (*e)->device = cuda_device_of(dev);
    return STATUS_OK;
}

static enum status record_event(struct event *e, struct stream *s)
{
    (void)e;
    (void)s;
    return STATUS_OK;
}

static double no_seconds(const struct event *from, const struct event *to)
{
    (void)from;
    (void)to;
    return NAN;
}

/* Returns a backend with CUDA's operations, whose functions execute nothing. */
static struct backend backend_of(const struct backend *cuda)
{
    struct backend b = *cuda;
    b.open = NULL;
    b.close = close_described;
    b.describe = describe_described;
    b.alloc = alloc_addresses;
    b.free = free_addresses;
    b.alloc_host = host_alloc;
    b.free_host = host_free;
    b.upload = b.copy = upload_nothing;
    b.download = download_nothing;
    b.zero = zero_nothing;
    b.peer_open = NULL;
    b.stream_open = open_stream;
    b.stream_close = host_stream_close;
    b.stream_sync = host_stream_sync;
    b.event_open = open_event;
    b.event_close = host_event_close;
    b.event_record = record_event;
    b.event_seconds = no_seconds;
    b.stream_wait = host_stream_wait;
    b.event_wait = host_event_wait;
    b.capture_begin = NULL;
    b.capture_end = NULL;
    b.capture_launch = NULL;
    b.capture_free = NULL;
    b.profile = NULL;
    return b;
}

/* --- the device --- */

cuda_described_entry ampscale_cuda_described;

enum status ampscale_cuda_described(const struct backend *cuda, const struct gpu_description *gpu,
                                    struct device **out)
{
    enum { SM_TURING = 75, CUDNN_PLANS = 91100 };
    struct described *d;
    enum status st;
    *out = NULL;
    /* Earlier versions of cuDNN crash while they plan for such a described GPU. */
    if (gpu->sm >= SM_TURING && cudnnGetVersion() < CUDNN_PLANS)
        return status_fail(STATUS_UNSUPPORTED,
                           "cuDNN %s cannot plan for '%s', which is only described; install cuDNN "
                           "9.11 or later",
                           cudnn_version(), gpu->name);
    TRY(array_new(&d, 1));
    d->gpu = *gpu;
    d->backend = backend_of(cuda);
    d->end = 4096;
    d->cuda = (struct cuda_device){.base = {.backend = &d->backend, .threads = 1},
                                   .sm = gpu->sm,
                                   .multiprocessors = gpu->multiprocessors,
                                   .memory = (size_t)gpu->memory,
                                   .described = &d->gpu};
    snprintf(d->cuda.name, sizeof d->cuda.name, "%s", gpu->name);
    CHECK(cuda_check_capability(&d->cuda));
    *out = &d->cuda.base;
    return STATUS_OK;
done:
    free(d);
    return st;
}
