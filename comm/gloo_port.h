/* Inside comm/: the interface between the Gloo communicator (gloo.c) and its module (comm/gloo/).
 * Gloo is a C++ library: only the module includes its headers and needs the library, and the
 * program loads the module on first use. */
#pragma once

#include "comm/comm.h"

struct gloo_result {
    /* STATUS_OK; STATUS_INTERRUPTED: `stop` is readable; STATUS_LOST_RANK: the connection to rank
     * `rank` was lost; STATUS_MISMATCH: it changed a bit; STATUS_INVALID: rank `rank` has started
     * another operation; STATUS_UNSUPPORTED: a reduce-scatter; STATUS_LIBRARY */
    enum status st;
    int rank;          /* -1: none */
    char message[256]; /* the reason */
};

struct gloo_config {
    int rank, size; /* at least 2 ranks */
    const int *fd;  /* (size) sockets to the other ranks; the caller closes them after `close` */
    int stop;       /* when this descriptor is readable, `run` ends instead of waiting for data */
    void *context;  /* passed to `moved` */
    /* `run` calls the two functions on its own thread: `moved` after data has moved, and `reduce`
     * for out[i] = a[i] (op->reduction) b[i], where out may be a or b. */
    void (*moved)(void *context);
    void (*reduce)(const struct comm_op *op, void *out, const void *a, const void *b, size_t count);
    unsigned (*crc)(unsigned crc, const void *data, size_t bytes); /* see socket_crc */
};

struct gloo_link;

struct gloo_port {
    /* Opens a link, this rank's connection to a group, which one thread at a time may use. Copies
     * `config`. NULL: no memory. */
    struct gloo_link *(*open)(const struct gloo_config *config);
    /* Carries out an operation. op->handle is the same on all ranks, and higher than that of the
     * last operation. bytes: size of op->count elements. intent: a hash of the fields that must be
     * equal on all ranks. After a failure, only `close` may follow. */
    void (*run)(struct gloo_link *l, const struct comm_op *op, size_t bytes, uint64_t intent,
                struct gloo_result *result);
    void (*close)(struct gloo_link *l);
};

/* The module's entry function, "ampscale_gloo". Returns NULL if the module was built for another
 * `abi` (AMPSCALE_MODULE_ABI). */
typedef const struct gloo_port *gloo_module_entry(unsigned abi);
