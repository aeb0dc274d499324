/* The fake NCCL between the devices of stream_device_open. */
#include "nccl_fake.h"

#include "tests/kernels/stream_backend.h"

#include <stdio.h>

static struct stream *stream_of(cudaStream_t raw)
{
    return (struct stream *)(void *)raw;
}

static bool put(cudaStream_t s, void (*run)(void *context), void *context)
{
    return stream_device_call(stream_of(s), run, context) == STATUS_OK;
}

static void *inside(cudaStream_t s, const void *mem)
{
    return stream_device_inside(stream_of(s)->device, mem);
}

static enum status enter(struct device *dev)
{
    (void)dev;
    return STATUS_OK;
}

static cudaStream_t raw(struct stream *s)
{
    return (cudaStream_t)(void *)s;
}

static enum status stream_open(struct device *dev, struct stream **s)
{
    return dev->backend->stream_open(dev, s);
}

static enum status event_passed(const struct event *e, bool *passed)
{
    *passed = stream_event_passed(e);
    return STATUS_OK;
}

static void bus(struct device *dev, char out[NCCL_PORT_BUS_MAX])
{
    snprintf(out, NCCL_PORT_BUS_MAX, "0000:%02x:00.0", (unsigned)dev->index);
}

const struct nccl_gpu *nccl_fake_streams(void)
{
    static const struct nccl_gpu gpu = {enter, raw, stream_open, event_passed, bus};
    return &gpu;
}

enum status nccl_fake_open(struct nccl_port **port)
{
    static const struct nccl_fake_gpu gpu = {8, NULL, put, inside};
    nccl_fake_fail(&(struct nccl_fake_fault){NCCL_FAKE_SOUND});
    return nccl_port_make(nccl_fake_library(&gpu), nccl_fake_streams(), port);
}
