/* The functions of NCCL that the suite uses, implemented for tests. Ranks are threads of one
 * process, and devices are those of async_device.h. If other ranks do not join an operation, a rank
 * hangs until it is aborted, as with NCCL. */
#pragma once

#include "comm/nccl/port.h"

/* The fault that occurs from now on. A rank of -1 means that this fault does not occur. Operations
 * count from 1. */
struct nccl_fake_plan {
    int hang_rank, hang_op;       /* never starts an operation */
    int broken_rank, broken_op;   /* the operation fails, because a partner is lost */
    int refused_rank, refused_op; /* the call returns an error */
    bool no_id;
};

void nccl_fake_plan(const struct nccl_fake_plan *plan);

/* The functions of async_device.h that the port needs. */
const struct nccl_gpu *nccl_fake_gpu(void);

/* Makes a port whose functions are the fake's. Its `drop` frees it. */
MUST_CHECK enum status nccl_fake_open(struct nccl_port **port);
