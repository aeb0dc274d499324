/* Inside the CUDA module: NCCL as what the communicator of GPUs asks for (comm/nccl_port.h). */
#ifndef COMM_NCCL_PORT_OF_NCCL_H
#define COMM_NCCL_PORT_OF_NCCL_H

#include "comm/nccl/library.h"
#include "comm/nccl_port.h"

/* What is needed of a device beyond its backend's calls. */
struct nccl_gpu {
    /* The calling thread's calls of the CUDA runtime are for this device from now on. */
    enum status (*enter)(struct device *dev);
    cudaStream_t (*raw)(struct stream *s);
    /* These go into the port as they are. */
    enum status (*stream_open)(struct device *dev, struct stream **s);
    enum status (*event_passed)(const struct event *e, bool *passed);
    void (*bus)(struct device *dev, char out[NCCL_PORT_BUS_MAX]);
};

/* A port of that library for these devices; `lib` is copied, `gpu` must outlive it. */
MUST_CHECK enum status nccl_port_make(const struct nccl_library *lib, const struct nccl_gpu *gpu,
                                      struct nccl_port **port);

#endif
