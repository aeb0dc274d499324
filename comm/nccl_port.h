/* Inside comm/: the calls of NCCL that the communicator of GPUs (nccl.c) uses.
 *
 * Only the CUDA module (comm/nccl/) includes NCCL's header; it returns this table, and tests have a
 * fake one. A link is one rank's end of a group. None of the calls waits for other ranks. Any
 * thread may call abort and poll; the others are for one thread at a time. */
#pragma once

#include "comm/comm.h"

enum { NCCL_PORT_ID_BYTES = 128, NCCL_PORT_BUS_MAX = 32 };

struct nccl_link;

struct nccl_port {
    /* "NCCL 2.28.9" */
    void (*version)(const struct nccl_port *p, char *out, size_t size);

    /* Makes the id of a new group, on one rank, which sends it to all. */
    enum status (*id)(const struct nccl_port *p, unsigned char id[NCCL_PORT_ID_BYTES]);

    /* Begins to link ranks first .. first + n - 1 of `size`, one for each device of this process;
     * poll reports when each is ready. After a failure no link is open. */
    enum status (*open)(const struct nccl_port *p, int n, struct device *const *device, int first,
                        int size, const unsigned char id[NCCL_PORT_ID_BYTES],
                        struct nccl_link **link);

    /* *busy: whether the link is still being opened or finished. STATUS_LIBRARY, with NCCL's
     * message, if another rank, the network or abort has broken the link. */
    enum status (*poll)(struct nccl_link *link, bool *busy);

    /* Puts an operation other than a barrier on a stream of the link's device; count > 0. */
    enum status (*start)(struct nccl_link *link, const struct comm_op *op, struct stream *s);

    /* Registers memory that operations will use repeatedly; all ranks do, or none. */
    enum status (*reuse)(struct nccl_link *link, void *mem, size_t bytes);

    /* Ends all operations; the link can then only be closed. */
    void (*abort)(struct nccl_link *link);
    /* Begins to finish the link, when all operations are over. */
    enum status (*finish)(struct nccl_link *link);
    void (*close)(struct nccl_link *link);

    /* Calls of the device that the backend does not have. */
    enum status (*stream_open)(struct device *dev, struct stream **s); /* of high priority */
    enum status (*event_passed)(const struct event *e, bool *passed);  /* as last recorded */
    void (*bus)(struct device *dev, char out[NCCL_PORT_BUS_MAX]);      /* "0000:3b:00.0" */

    void (*drop)(struct nccl_port *p); /* when all links are closed */
};

/* The function of the CUDA module that makes a port; `abi` must be the one that the module was
 * built with (kernels/module.h). STATUS_UNSUPPORTED: the message names the missing part. */
#define NCCL_MODULE_ENTRY "ampscale_cuda_nccl"
typedef enum status nccl_module_entry(unsigned abi, struct nccl_port **port);
