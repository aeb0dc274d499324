/* One descriptor of cuDNN's backend API: its creation, attributes and end, every status of the
 * library turned into one of ours with the descriptor and the attribute named.
 *
 * https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html */
#ifndef KERNELS_CUDA_CUDNN_DESC_H
#define KERNELS_CUDA_CUDNN_DESC_H

#include "base/status.h"

#include <cudnn.h>
#include <stdint.h>

struct cudnn_desc {
    cudnnBackendDescriptor_t raw; /* NULL: none */
    const char *kind;             /* "CUDNN_BACKEND_TENSOR_DESCRIPTOR", for messages */
};

/* STATUS_UNSUPPORTED for what the library says that it does not support, STATUS_OOM when memory is
 * lacking, STATUS_LIBRARY else; the message is "cuDNN cannot <action>: <what the library says>". */
MUST_CHECK enum status cudnn_check(cudnnStatus_t s, const char *fmt, ...) PRINTF_LIKE(2, 3);

MUST_CHECK enum status cudnn_desc_create(struct cudnn_desc *d, cudnnBackendDescriptorType_t type,
                                         const char *kind);
void cudnn_desc_destroy(struct cudnn_desc *d); /* one without `raw` is fine */

MUST_CHECK enum status cudnn_desc_set(struct cudnn_desc *d, cudnnBackendAttributeName_t attribute,
                                      const char *name, cudnnBackendAttributeType_t type,
                                      int64_t count, const void *value);

/* Reads at most `max` elements; *count becomes how many the library has: what it wrote, or, with
 * `max` of 0, what there is to read. Elements that are descriptors must have been created. */
MUST_CHECK enum status cudnn_desc_get(const struct cudnn_desc *d,
                                      cudnnBackendAttributeName_t attribute, const char *name,
                                      cudnnBackendAttributeType_t type, int64_t max, int64_t *count,
                                      void *value);

MUST_CHECK enum status cudnn_desc_finalize(struct cudnn_desc *d);

/* The same with names spelt out by the preprocessor: DESC_SET(&d, TENSOR_DIMENSIONS, INT64, 4,
 * dim).
 */
#define DESC_CREATE(d, kind)                                                                       \
    cudnn_desc_create(d, CUDNN_BACKEND_##kind##_DESCRIPTOR, "CUDNN_BACKEND_" #kind "_DESCRIPTOR")
#define DESC_SET(d, attr, type, count, value)                                                      \
    cudnn_desc_set(d, CUDNN_ATTR_##attr, "CUDNN_ATTR_" #attr, CUDNN_TYPE_##type, count, value)
#define DESC_GET(d, attr, type, max, count, value)                                                 \
    cudnn_desc_get(d, CUDNN_ATTR_##attr, "CUDNN_ATTR_" #attr, CUDNN_TYPE_##type, max, count, value)

#endif
