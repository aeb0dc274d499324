/* Inside runners/: whether the GPUs of all ranks can talk to each other by themselves. */
#ifndef RUNNERS_GPU_GROUP_H
#define RUNNERS_GPU_GROUP_H

#include "comm/comm.h"
#include "kernels/device_list.h"
#include "runners/config.h"

struct nccl_port;

struct gpu_group {
    bool direct;   /* through the library; else by way of the host */
    char why[256]; /* not direct: one line; "" where that was asked for */
};

/* Decides for all ranks alike: `n` devices of each, `ranks` between the processes. `port` is NULL
 * where this rank has no library for its devices. STATUS_USAGE where --comm asks for what cannot
 * be. */
MUST_CHECK enum status gpu_group_decide(enum comm_via via, const struct nccl_port *port,
                                        struct comm *ranks, int n, struct device *const *device,
                                        struct gpu_group *g);

#endif
