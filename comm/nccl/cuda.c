/* Implements struct nccl_gpu for CUDA, and the module's entry function. */
#include "comm/nccl/port.h"
#include "config.h"
#include "kernels/cuda/device.h"

#include <stdio.h>

static enum status enter(struct device *dev)
{
    return cuda_enter(cuda_device_of(dev));
}

static cudaStream_t raw(struct stream *s)
{
    return cuda_stream_of(s)->raw;
}

static enum status event_passed(const struct event *e, bool *passed)
{
    TRY(cuda_enter(e->device));
    cudaError_t found = cudaEventQuery(e->raw);
    *passed = found == cudaSuccess;
    return found == cudaErrorNotReady ? STATUS_OK : cuda_check(found, "query an event");
}

static void bus(struct device *dev, char out[NCCL_PORT_BUS_MAX])
{
    if (cudaDeviceGetPCIBusId(out, NCCL_PORT_BUS_MAX, dev->index) != cudaSuccess)
        snprintf(out, NCCL_PORT_BUS_MAX, "GPU %d", dev->index);
}

nccl_module_entry ampscale_cuda_nccl;

enum status ampscale_cuda_nccl(unsigned abi, struct nccl_port **port)
{
    static const struct nccl_gpu gpu = {enter, raw, cuda_stream_open_urgent, event_passed, bus};
    static struct nccl_library lib;
    if (abi != AMPSCALE_MODULE_ABI)
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module was built for another version of this program");
    TRY(nccl_library_load("libnccl.so.2", &lib));
    return nccl_port_make(&lib, &gpu, port);
}
