/* Functions that tests of single kernels share, and a batch norm backend whose ReLU writes and
 * reads a mask. Tests compare this backend with the reference on the table of cases
 * (verify/cases.h). Forward batch norm with a ReLU fails with STATUS_MISMATCH if the mask disagrees
 * with the result. Backward batch norm reads a mask instead of Y. Everything runs on the CPU
 * through the shim, on NHWC tensors of stored types. */
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/kernels.h"

/* Closed by device_close(). */
MUST_CHECK enum status shim_device_open(struct device **dev);

/* Returns a queue for launches in the shim. Its device has few multiprocessors, so a kernel's loops
 * run more than once. */
struct cu_queue shim_queue(void);

/* Segments of the optimizer with their chunks, in host memory that the shim's kernels can read. */
struct shim_segments {
    struct cu_segments s;
    struct cu_chunk *chunk;
    struct sgd_segment *segment;
};
MUST_CHECK enum status shim_segments_new(const struct sgd_attr *attr, struct shim_segments *s);
void shim_segments_free(struct shim_segments *s);
