/* The arithmetic of reductions. */
#ifndef COMM_REDUCE_H
#define COMM_REDUCE_H

#include "comm/comm.h"

/* out[i] = a[i] (reduction) b[i] for i < count; out may be a or b, and must not overlap them
 * otherwise. Every type but U8. */
void comm_reduce(enum dtype type, enum comm_reduction reduction, void *out, const void *a,
                 const void *b, int64_t count);
#endif
