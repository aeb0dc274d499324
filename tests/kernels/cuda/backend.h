/* A backend made of nothing but the kernels of kernels/cuda, run through the shim, so that the
 * table of cases (tests/kernels/cases.h) holds them against the reference.
 *
 * It covers what the kernels do: NHWC (and plain where layouts do not matter), stored types, no
 * convolution and no linear layer. Forward batch norm with a ReLU asks for the mask too, and fails
 * with STATUS_MISMATCH where it disagrees with the result. */
#ifndef TESTS_KERNELS_CUDA_BACKEND_H
#define TESTS_KERNELS_CUDA_BACKEND_H

#include "kernels/backend.h"
#include "kernels/cuda/kernels.h"

/* With `masks`, backward batch norm reads a mask in place of Y. Closed by device_close(). */
MUST_CHECK enum status shim_device_open(bool masks, struct device **dev);

/* Launches of the shim: its multiprocessors are few, so that loops go round. */
struct cu_queue shim_queue(void);

/* Segments, with their chunks, on the host, which the shim's kernels can read. */
struct shim_segments {
    struct cu_segments s;
    struct cu_chunk *chunk;
    struct sgd_segment *segment;
};
MUST_CHECK enum status shim_segments_new(const struct sgd_attr *attr, struct shim_segments *s);
void shim_segments_free(struct shim_segments *s);

#endif
