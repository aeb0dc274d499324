/* The calls of NCCL that the suite uses, for tests: ranks are threads of one process, and devices
 * are those of async_device.h. As in NCCL, a rank whose partners do not come hangs, and
 * only an abort sets it free. */
#pragma once

#include "comm/nccl/port.h"

/* What goes wrong from now on; a rank of -1: nothing. Operations count from 1. */
struct nccl_fake_plan {
    int hang_rank, hang_op;       /* never starts an operation */
    int broken_rank, broken_op;   /* hears of a lost partner in the middle of one */
    int refused_rank, refused_op; /* is refused the call */
    bool no_id;
};

void nccl_fake_plan(const struct nccl_fake_plan *plan);

/* What the port needs of async_device.h's devices. */
const struct nccl_gpu *nccl_fake_gpu(void);

/* A port of the fake; dropped by its drop. */
MUST_CHECK enum status nccl_fake_open(struct nccl_port **port);
