/* Inside comm/: what the communicator of GPUs (nccl.c) asks of the library that moves their data.
 *
 * The library is NCCL, known to the CUDA module alone (comm/nccl/), which hands this table over; a
 * test may bring another. A link is one rank's end of a group. None of the calls waits for
 * other ranks; all but abort may be called by one thread at a time, abort and poll by any. */
#ifndef COMM_NCCL_PORT_H
#define COMM_NCCL_PORT_H

#include "comm/comm.h"

enum { NCCL_PORT_ID_BYTES = 128, NCCL_PORT_BUS_MAX = 32 };

struct nccl_link;

struct nccl_port {
    /* "NCCL 2.28.9" */
    void (*version)(const struct nccl_port *p, char *out, size_t size);

    /* A name for a new group: made by one rank, known to all. */
    enum status (*id)(const struct nccl_port *p, unsigned char id[NCCL_PORT_ID_BYTES]);

    /* Begins to link ranks first .. first + n - 1 of `size`, one for each device of this process;
     * poll says when each is ready. On failure there are none. */
    enum status (*open)(const struct nccl_port *p, int n, struct device *const *device, int first,
                        int size, const unsigned char id[NCCL_PORT_ID_BYTES],
                        struct nccl_link **link);

    /* *busy: what was begun (opening, finishing) goes on. STATUS_LIBRARY, with the library's words,
     * when the link is broken: by another rank, by the network, by abort. */
    enum status (*poll)(struct nccl_link *link, bool *busy);

    /* Puts an operation other than a barrier on a stream of the link's device; count > 0. */
    enum status (*start)(struct nccl_link *link, const struct comm_op *op, struct stream *s);

    /* Memory that operations will use again and again. All ranks do so alike, or none. */
    enum status (*reuse)(struct nccl_link *link, void *mem, size_t bytes);

    /* Ends everything under way; the link only serves to be closed. */
    void (*abort)(struct nccl_link *link);
    /* Begins to end in order, when all operations are over. */
    enum status (*finish)(struct nccl_link *link);
    void (*close)(struct nccl_link *link);

    /* What of a device the backend has no calls for. */
    enum status (*stream_open)(struct device *dev, struct stream **s); /* goes before other work */
    enum status (*event_passed)(const struct event *e, bool *passed);  /* as last recorded */
    void (*bus)(struct device *dev, char out[NCCL_PORT_BUS_MAX]);      /* "0000:3b:00.0" */

    void (*drop)(struct nccl_port *p); /* when all links are closed */
};
#endif
