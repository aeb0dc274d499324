/* Inside runners/: whether the GPUs of all ranks can talk to each other by themselves. */
#ifndef RUNNERS_GPU_GROUP_H
#define RUNNERS_GPU_GROUP_H

#include "comm/comm.h"
#include "kernels/device_list.h"
#include "runners/config.h"
#include "runners/world.h"

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

/* Opens the first device of the list. Processes that are told "cuda" take a GPU of their host each,
 * by their place among its ranks, and its number goes into the list; where a process sees one
 * alone, which is what a scheduler may give it, that is the first. STATUS_USAGE where a host has
 * fewer GPUs than ranks. */
MUST_CHECK enum status gpu_group_open_first(struct device_list *list, const struct world *w,
                                            int threads, struct device **dev);

/* What links GPUs, as comm_nccl_find has it; NULL where `via` is the host, or where it is missing
 * and not insisted on, of which the leading rank warns. */
MUST_CHECK enum status gpu_group_find(enum comm_via via, bool leads, struct nccl_port **port);

/* Communicators c[0 .. n-1] of the first n devices of every rank, as was decided; host[i] joins
 * device i with all others. */
MUST_CHECK enum status gpu_group_open(const struct gpu_group *g,
                                      const struct comm_nccl_config *nccl, int n,
                                      struct comm *const *host, struct device *const *device,
                                      struct comm **c);

#endif
