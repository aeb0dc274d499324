/* The kernels that one execution of a plan launches, and the memory that each kernel reads and
 * writes. A backend that can list them has the function `traffic` (backend.h).
 *
 * Bytes are counted as if each value that a kernel reads or writes crosses the memory bus once. A
 * cache may save some of the reads. The partial sums that the blocks of a kernel write for the next
 * kernel are not counted. */
#pragma once

#include "kernels/ops.h"

enum { TRAFFIC_KERNELS_MAX = 8, TRAFFIC_ACCESSES_MAX = 20, TRAFFIC_NAME_MAX = 64 };

struct traffic_access {
    enum role role; /* ROLE_WORKSPACE: a copy that the operation makes for itself */
    bool writes;    /* false: reads */
    double bytes;
};

struct traffic_kernel {
    char name[TRAFFIC_NAME_MAX]; /* for an own kernel: its name, such as "bn_apply"; for a
                                  * library: the name of the plan's implementation */
    bool library;                /* one call of a library, which may launch several kernels */
    double flops;                /* two per multiply-add; 0 for own kernels */
    /* Bytes that the call of a library reads, and writes, to copy its operands and results to
     * another layout, before and after its product. */
    double copies;
    int n;
    struct traffic_access access[TRAFFIC_ACCESSES_MAX];
};

struct traffic {
    int n;
    struct traffic_kernel kernel[TRAFFIC_KERNELS_MAX]; /* in the order of their launches */
};

/* Bytes that a kernel reads and writes, without copies. */
static inline double traffic_bytes(const struct traffic_kernel *k)
{
    double bytes = 0;
    for (int i = 0; i < k->n; i++)
        bytes += k->access[i].bytes;
    return bytes;
}
