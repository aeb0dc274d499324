/* Inside comm/: the interface between the Gloo communicator (gloo.c) and its module (comm/gloo/).
 *
 * Gloo is a C++ library without a C interface. Only the module includes Gloo's headers and needs
 * the library. The program loads the module on first use. The module calls no functions of the
 * program except those in struct gloo_config. A link is this rank's connection to a group; one
 * thread at a time may use it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_MODULE_FILE     "ampscale_gloo.so"
#define GLOO_MODULE_ENTRY    "ampscale_gloo"
#define GLOO_MODULE_VARIABLE "AMPSCALE_GLOO_MODULE"

enum gloo_kind {
    GLOO_ALLREDUCE,
    GLOO_BROADCAST,
    GLOO_REDUCE,
    GLOO_ALLGATHER,
    GLOO_REDUCE_SCATTER,
    GLOO_EXCHANGE, /* see `transfer` */
    GLOO_BARRIER
};

/* The data that this rank sends to another rank, and the memory for the data that it receives from
 * that rank. NULL: no data in this direction. */
struct gloo_transfer {
    const void *send;
    void *recv;
};

/* An operation, like struct comm_op. The kinds have the values of enum comm_kind. */
struct gloo_op {
    enum gloo_kind kind;
    int root;
    const void *send;
    void *recv;
    size_t count, element; /* number of elements, and bytes of one element: 1, 2, 4 or 8 */
    int type, reduction;   /* passed to `reduce` of struct gloo_config */
    uint64_t number;       /* number of the operation; the same on all ranks */
    const struct gloo_transfer *transfer; /* (size) only for an exchange: `count` elements for each
                                           * other rank */
    uint64_t intent;                      /* a hash of the fields that must be equal on all ranks */
};

enum gloo_end {
    GLOO_DONE,
    GLOO_ENDED,  /* `readable` or `overdue` asked to end the operation */
    GLOO_LOST,   /* rank `rank` has closed the connection */
    GLOO_DIFFER, /* rank `rank` has started another operation */
    GLOO_FAILED  /* for the reason given in `message` */
};

struct gloo_result {
    enum gloo_end end;
    int rank;
    char message[256];
};

struct gloo_config {
    int rank, size;
    const int *fd;    /* (size) a connected socket to each other rank. The module uses the sockets
                       * until `close`, and does not close them */
    const int *watch; /* (watches) further descriptors for which `run` waits; negative entries are
                       * skipped, and the program may change the entries */
    int watches;
    double timeout_s; /* time limit of an operation that makes no progress; 0: none */
    /* Passed to `readable` and `overdue`. The module calls the functions below only in `run`. */
    void *context;
    /* Called when watch[i] is readable. Returns nonzero if the operation must end. */
    int (*readable)(void *context, int i);
    /* Called when no data has moved for timeout_s. Returns nonzero if the operation must end. */
    int (*overdue)(void *context);
    /* out[i] = a[i] (reduction) b[i]; out may be a or b. */
    void (*reduce)(int type, int reduction, void *out, const void *a, const void *b, size_t count);
};

struct gloo_link;

struct gloo_port {
    /* Opens a link. Copies `config`, but not its arrays. NULL: no memory. */
    struct gloo_link *(*open)(const struct gloo_config *config);
    /* Carries out an operation. After any result other than GLOO_DONE, only `close` may be called
     * for the link. */
    void (*run)(struct gloo_link *l, const struct gloo_op *op, struct gloo_result *result);
    void (*close)(struct gloo_link *l);
};

/* The module's entry function. Returns NULL if the module was built for another `abi`
 * (AMPSCALE_MODULE_ABI). */
typedef const struct gloo_port *gloo_module_entry(unsigned abi);

#ifdef __cplusplus
}
#endif
