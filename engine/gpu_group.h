/* Finds out whether the GPUs of all ranks can exchange data directly, through NCCL. */
#pragma once

#include "comm/comm.h"
#include "comm/world.h"
#include "kernels/device_list.h"

struct nccl_port;

struct gpu_group {
    bool direct;   /* true: transfers use NCCL; false: they pass through the host */
    char why[256]; /* why transfers are not direct, in one line; "" if the user requested the
                    * host */
};

/* Returns whether these devices are GPUs. */
bool gpu_group_is(const struct device_list *list);

/* Chooses NCCL or the host as the transport of gradients between GPUs; all ranks choose the same.
 * VIA_AUTO chooses NCCL if every rank has NCCL and no two ranks share a GPU. Each rank has `n`
 * devices; `ranks` connects the processes. `port` is NULL if this rank has no NCCL. STATUS_USAGE if
 * --comm nccl is impossible. */
MUST_CHECK enum status gpu_group_decide(enum comm_via via, const struct nccl_port *port,
                                        struct comm *ranks, int n, struct device *const *device,
                                        struct gpu_group *g);

/* Opens the first device of the list. With --devices cuda, each process opens the GPU whose index
 * is its local rank, and stores that index in the list. A process that sees only one GPU, because a
 * scheduler hides the others, opens that GPU. STATUS_USAGE if a host has fewer GPUs than ranks. */
MUST_CHECK enum status gpu_group_open_first(struct device_list *list, const struct world *w,
                                            int threads, struct device **dev);

/* Finds NCCL (comm_nccl_find). *port is NULL if `via` is the host, or if `via` is VIA_AUTO and NCCL
 * is missing. In the second case, the rank for which `leads` is set prints a warning. Fails if
 * `via` is VIA_NCCL and NCCL is missing. */
MUST_CHECK enum status gpu_group_find(enum comm_via via, bool leads, struct nccl_port **port);

/* Opens c[0 .. n-1], for the first n devices of every rank, over the transport that
 * gpu_group_decide chose; host[i] connects device i with all other devices. */
MUST_CHECK enum status gpu_group_open(const struct gpu_group *g,
                                      const struct comm_nccl_config *nccl, int n,
                                      struct comm *const *host, struct device *const *device,
                                      struct comm **c);
