/* Inside comm/: the interface between the Gloo communicator (gloo.c) and its module (comm/gloo/).
 * Gloo is a C++ library: only the module includes its headers and needs the library, and the
 * program loads the module on first use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GLOO_MODULE_FILE     "ampscale_gloo.so"
#define GLOO_MODULE_ENTRY    "ampscale_gloo"
#define GLOO_MODULE_VARIABLE "AMPSCALE_GLOO_MODULE"

/* The values of enum comm_kind. Gloo has no reduce-scatter over the module's transport. */
enum gloo_kind {
    GLOO_ALLREDUCE,
    GLOO_BROADCAST,
    GLOO_REDUCE,
    GLOO_ALLGATHER,
    GLOO_ALLTOALL = 5,
    GLOO_GATHER,
    GLOO_SCATTER,
    GLOO_SENDRECV,
    GLOO_BARRIER
};

/* An operation, like struct comm_op; the same buffers may overlap. */
struct gloo_op {
    enum gloo_kind kind;
    int root;
    const void *send;
    void *recv;
    size_t count, element; /* number of elements, and bytes of one element: 1, 2, 4 or 8 */
    int type, reduction;   /* passed to `reduce` of struct gloo_config */
    uint64_t number;       /* the same on all ranks, and higher than that of the last operation */
    uint64_t intent;       /* a hash of the fields that must be equal on all ranks */
};

enum gloo_end {
    GLOO_DONE,
    GLOO_ENDED,  /* `stop` is readable */
    GLOO_LOST,   /* the connection to rank `rank` was lost, for the reason given in `message` */
    GLOO_DIFFER, /* rank `rank` has started another operation */
    GLOO_FAILED  /* for the reason given in `message` */
};

struct gloo_result {
    enum gloo_end end;
    int rank;
    char message[256];
};

struct gloo_config {
    int rank, size; /* at least 2 ranks */
    const int *fd;  /* (size) a connected socket to each other rank, used until `close`. The module
                     * does not close the sockets */
    int stop;       /* when this descriptor is readable, `run` ends instead of waiting for data. The
                     * module does not read it */
    void *context;  /* passed to `moved` */
    /* `run` calls the two functions on its own thread: `moved` after data has moved, and `reduce`
     * for out[i] = a[i] (reduction) b[i], where out may be a or b. */
    void (*moved)(void *context);
    void (*reduce)(int type, int reduction, void *out, const void *a, const void *b, size_t count);
};

struct gloo_link;

struct gloo_port {
    /* Opens a link, this rank's connection to a group, which one thread at a time may use. Copies
     * `config`. NULL: no memory. */
    struct gloo_link *(*open)(const struct gloo_config *config);
    /* Carries out an operation. After any result other than GLOO_DONE, only `close` may follow. */
    void (*run)(struct gloo_link *l, const struct gloo_op *op, struct gloo_result *result);
    void (*close)(struct gloo_link *l);
};

/* The module's entry function. Returns NULL if the module was built for another `abi`
 * (AMPSCALE_MODULE_ABI). */
typedef const struct gloo_port *gloo_module_entry(unsigned abi);
