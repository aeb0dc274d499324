/* A fake of the NCCL functions that ampscale calls. Its ranks are in one process. If a rank does
 * not join an operation, the other ranks wait until they are aborted, as with NCCL. A communicator
 * must be finalized before it is destroyed, and its memory deregistered. */
#pragma once

#include "comm/nccl/port.h"

/* What the fake needs of a fake GPU. */
struct nccl_fake_gpu {
    int most_ranks;                  /* of a communicator */
    bool (*fails)(const char *call); /* whether this call must fail; NULL: none */
    /* Puts a call on the stream, which calls run(context) once. */
    bool (*put)(cudaStream_t s, void (*run)(void *context), void *context);
    /* The address at which such a call can access device memory. */
    void *(*inside)(cudaStream_t s, const void *mem);
};

/* The functions of the fake, on one kind of GPU a process. */
const struct nccl_library *nccl_fake_library(const struct nccl_fake_gpu *gpu);

enum nccl_fake_how {
    NCCL_FAKE_SOUND,
    NCCL_FAKE_HANGS,   /* the rank never starts the operation */
    NCCL_FAKE_BREAKS,  /* the operation fails on the rank as if another rank were lost */
    NCCL_FAKE_REFUSES, /* the call of the operation returns an error */
    NCCL_FAKE_NO_ID    /* ncclGetUniqueId fails */
};

/* A fault in an operation of a rank. Operations are numbered from 1. */
struct nccl_fake_fault {
    enum nccl_fake_how how;
    int rank, operation;
};

/* Sets the fault that occurs from now on. */
void nccl_fake_fail(const struct nccl_fake_fault *fault);

/* Makes a port that calls the fake without a fault, between devices of stream_device_open. The
 * caller frees it with comm_nccl_drop. */
MUST_CHECK enum status nccl_fake_open(struct nccl_port **port);

/* The functions of such a device that the NCCL port calls. */
const struct nccl_gpu *nccl_fake_streams(void);
