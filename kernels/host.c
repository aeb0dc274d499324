/* Uses host memory as device memory. */
#include "kernels/host.h"

#include "base/array.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct event {
    uint64_t ns;
};

enum status host_alloc(struct device *dev, size_t bytes, void **mem)
{
    (void)dev;
    /* Large allocations use 2 MiB pages, which cause fewer TLB misses in passes over
     * activations. */
    size_t align = bytes >= (size_t)4 << 20 ? (size_t)2 << 20 : 64;
    size_t size = (bytes + align - 1) / align * align;
    *mem = size ? aligned_alloc(align, size) : aligned_alloc(64, 64);
    if (!*mem)
        return status_fail(STATUS_OOM,
                           "no memory for %.1f MiB of tensors; use a smaller batch or image",
                           (double)bytes / 1048576.0);
    if (align > 64)
        madvise(*mem, size, MADV_HUGEPAGE); /* only a hint: a failure only costs speed */
    memset(*mem, 0, bytes);
    return STATUS_OK;
}

void host_free(struct device *dev, void *mem)
{
    (void)dev;
    free(mem);
}

enum status host_copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    (void)s;
    memcpy(dst, src, bytes);
    return STATUS_OK;
}

enum status host_zero(struct stream *s, void *dst, size_t bytes)
{
    (void)s;
    memset(dst, 0, bytes);
    return STATUS_OK;
}

enum status host_stream_open(struct device *dev, struct stream **s)
{
    TRY(array_new(s, 1));
    (*s)->device = dev;
    return STATUS_OK;
}

void host_stream_close(struct stream *s)
{
    free(s);
}

enum status host_stream_sync(struct stream *s)
{
    (void)s;
    return STATUS_OK;
}

enum status host_event_open(struct device *dev, struct event **e)
{
    (void)dev;
    return array_new(e, 1);
}

void host_event_close(struct event *e)
{
    free(e);
}

enum status host_event_record(struct event *e, struct stream *s)
{
    (void)s;
    e->ns = clock_ns();
    return STATUS_OK;
}

double host_event_seconds(const struct event *from, const struct event *to)
{
    return (double)(to->ns - from->ns) * 1e-9;
}

enum status host_stream_wait(struct stream *s, const struct event *e)
{
    (void)s;
    (void)e;
    return STATUS_OK;
}

enum status host_event_wait(const struct event *e)
{
    (void)e;
    return STATUS_OK;
}
