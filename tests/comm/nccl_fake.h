/* A fake of the NCCL functions that ampscale calls, for tests. Ranks are threads of one process,
 * and devices are those of async_device.h. If a rank does not join an operation, the other ranks
 * wait until they are aborted, as with NCCL. */
#pragma once

#include "comm/nccl/port.h"

/* The faults that occur from now on. A rank of -1 means that its fault does not occur. Operations
 * are numbered from 1. */
struct nccl_fake_plan {
    int hang_rank, hang_op;       /* the rank never starts this operation */
    int broken_rank, broken_op;   /* the operation fails on the rank as if another rank were lost */
    int refused_rank, refused_op; /* on the rank, the call of the operation returns an error */
    bool no_id;
};

void nccl_fake_plan(const struct nccl_fake_plan *plan);

/* The functions of the fake device (async_device.h) that the NCCL port calls. */
const struct nccl_gpu *nccl_fake_gpu(void);

/* Makes a port that calls the fake NCCL. The caller frees it with its `drop`. */
MUST_CHECK enum status nccl_fake_open(struct nccl_port **port);
