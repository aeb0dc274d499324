/* What tests of single kernels share, and a backend of batch norm whose ReLU leaves and reads a
 * mask, which no operation does yet: the table of cases (verify/cases.h) compares it with
 * the reference. Forward batch norm with a ReLU fails with STATUS_MISMATCH where the mask disagrees
 * with the result; backward batch norm reads a mask in place of Y. All of it on the CPU, through
 * the shim, in NHWC and stored types. */
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/kernels.h"

/* Closed by device_close(). */
MUST_CHECK enum status shim_device_open(struct device **dev);

/* Launches of the shim: it has few multiprocessors, so that loops repeat. */
struct cu_queue shim_queue(void);

/* Segments, with their chunks, in host memory, which the shim's kernels can read. */
struct shim_segments {
    struct cu_segments s;
    struct cu_chunk *chunk;
    struct sgd_segment *segment;
};
MUST_CHECK enum status shim_segments_new(const struct sgd_attr *attr, struct shim_segments *s);
void shim_segments_free(struct shim_segments *s);
