/* Inside comm/: the interface between the communicator over Gloo (gloo.c) and its module
 * (comm/gloo/).
 *
 * Gloo is C++ without a C interface, so that only the module, which is loaded on first use,
 * includes its headers and needs its library. The module calls only those functions of the program
 * that it is given here. A link is this rank's end of a group; one thread at a time uses it. */
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

/* What this rank sends to another one and receives from it; NULL: nothing. */
struct gloo_transfer {
    const void *send;
    void *recv;
};

/* As struct comm_op. */
struct gloo_op {
    enum gloo_kind kind;
    int root;
    const void *send;
    void *recv;
    size_t count, element;                /* elements, and the bytes of one: 1, 2, 4 or 8 */
    int type, reduction;                  /* for struct gloo_config's `reduce` */
    uint64_t number;                      /* of the operation; the same on all ranks */
    const struct gloo_transfer *transfer; /* (size) of an exchange: `count` elements for each rank,
                                           * nothing for this one */
    uint64_t intent; /* a hash of what ranks must agree on before the operation */
};

enum gloo_end {
    GLOO_DONE,
    GLOO_ENDED,  /* a function of struct gloo_config asked for it */
    GLOO_LOST,   /* rank `rank` has closed the connection */
    GLOO_DIFFER, /* rank `rank` has started another operation */
    GLOO_FAILED  /* for the reason in `message` */
};

struct gloo_result {
    enum gloo_end end;
    int rank;
    char message[256];
};

struct gloo_config {
    int rank, size;
    const int *fd; /* (size) a connected socket to each other rank; used until gloo_close, and not
                    * closed by it */
    const int *watch; /* (watches) more descriptors to wait for; negative entries are skipped, and
                       * the entries may change */
    int watches;
    double timeout_s; /* limit without progress of an operation; 0: none */
    void *context;    /* of the functions below, which the module calls within run: */
    /* Descriptor watch[i] is readable. Returns nonzero if the operation is to end. */
    int (*readable)(void *context, int i);
    /* No data has moved for timeout_s. Returns nonzero if the operation is to end. */
    int (*overdue)(void *context);
    /* out[i] = a[i] (reduction) b[i]; out may be a or b. */
    void (*reduce)(int type, int reduction, void *out, const void *a, const void *b, size_t count);
};

struct gloo_link;

struct gloo_port {
    /* `config` is copied, its arrays are not. NULL: no memory. */
    struct gloo_link *(*open)(const struct gloo_config *config);
    /* Carries out an operation. After any end but GLOO_DONE the link can only be closed. */
    void (*run)(struct gloo_link *l, const struct gloo_op *op, struct gloo_result *result);
    void (*close)(struct gloo_link *l);
};

/* The module's entry: NULL where the module was built for another `abi` (AMPSCALE_MODULE_ABI). */
typedef const struct gloo_port *gloo_module_entry(unsigned abi);

#ifdef __cplusplus
}
#endif
