/* Inside comm/: the functions of NCCL that the communicator between GPUs (nccl.c) uses.
 *
 * Only the CUDA module (comm/nccl/) includes NCCL's header. The module returns this table of
 * functions; tests use a fake table. A link is one rank's connection to a group. None of the
 * functions waits for other ranks. Any thread may call `abort` and `poll`; only one thread at a
 * time may call the other functions of a link. */
#pragma once

#include "comm/comm.h"

enum { NCCL_PORT_ID_BYTES = 128, NCCL_PORT_BUS_MAX = 32 };

struct CUstream_st;
struct nccl_library;
struct nccl_link;

/* Functions of the CUDA backend that are not in struct backend. */
struct nccl_gpu {
    enum status (*enter)(struct device *dev); /* makes the device current for the calling thread */
    struct CUstream_st *(*raw)(struct stream *s);
    enum status (*stream_open)(struct device *dev, struct stream **s); /* of high priority */
    /* Whether the stream has passed the latest recording of `e`. */
    enum status (*event_passed)(const struct event *e, bool *passed);
    void (*bus)(struct device *dev, char out[NCCL_PORT_BUS_MAX]); /* PCI address: "0000:3b:00.0" */
};

struct nccl_port {
    char name[32];                  /* "NCCL 2.28.9" */
    const struct nccl_library *lib; /* NCCL's own functions (comm/nccl/port.h) */
    const struct nccl_gpu *gpu;
    /* Creates the id of a new group. One rank calls it, and sends the id to all other ranks. */
    enum status (*id)(const struct nccl_port *p, unsigned char id[NCCL_PORT_ID_BYTES]);
    /* Begins to open the links of the ranks first .. first + n - 1 of `size`, one for each device
     * of this process; `poll` reports when each link is ready. After a failure no link is open. */
    enum status (*open)(const struct nccl_port *p, int n, struct device *const *device, int first,
                        int size, const unsigned char id[NCCL_PORT_ID_BYTES],
                        struct nccl_link **link);
    /* Sets *busy: whether `open` or `finish` is still in progress for the link. STATUS_LIBRARY,
     * with NCCL's message: another rank, the network or `abort` has broken the link. */
    enum status (*poll)(struct nccl_link *link, bool *busy);
    /* Puts an operation other than a barrier on a stream of the link's device; count > 0. */
    enum status (*start)(struct nccl_link *link, const struct comm_op *op, struct stream *s);
    /* Registers memory that operations will use repeatedly. Either all ranks register it, or no
     * rank does. */
    enum status (*reuse)(struct nccl_link *link, void *mem, size_t bytes);
    /* Ends all operations. After that only `close` may be called for the link. */
    void (*abort)(struct nccl_link *link);
    /* Begins to finish the link; `poll` reports when the link is finished. All operations must
     * be over. */
    enum status (*finish)(struct nccl_link *link);
    void (*close)(struct nccl_link *link);
};

/* The function of the CUDA module that creates a port, which the caller frees when all links are
 * closed; `abi` must be the value with which the module was built (kernels/module.h).
 * STATUS_UNSUPPORTED: a part is missing, and the message names that part. */
#define NCCL_MODULE_ENTRY "ampscale_cuda_nccl"
typedef enum status nccl_module_entry(unsigned abi, struct nccl_port **port);
