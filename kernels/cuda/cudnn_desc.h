/* One descriptor of cuDNN's backend API: its creation, attributes and destruction. A failure is
 * returned as enum status; its message names the descriptor and the attribute.
 *
 * https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html */
#pragma once

#include "base/status.h"

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

struct cudnn_desc {
    cudnnBackendDescriptor_t raw; /* NULL: none */
    const char *kind;             /* "CUDNN_BACKEND_TENSOR_DESCRIPTOR", for messages */
};

/* Returns STATUS_OK if `s` is success, STATUS_UNSUPPORTED if the library does not support the
 * request, STATUS_OOM if memory is short, else STATUS_LIBRARY. After a failure the message is
 * "cuDNN cannot <action>: <the library's reason>". */
MUST_CHECK enum status cudnn_check(cudnnStatus_t s, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Whether a call of this process has failed because a part of cuDNN could not be loaded. Facts
 * about missing plans may then come from a faulty installation, and must not be stored. */
bool cudnn_incomplete(void);

const char *cudnn_version(void); /* "9.19.0" */

MUST_CHECK enum status cudnn_desc_create(struct cudnn_desc *d, cudnnBackendDescriptorType_t type,
                                         const char *kind);
void cudnn_desc_destroy(struct cudnn_desc *d); /* a descriptor without `raw` is fine */

MUST_CHECK enum status cudnn_desc_set(struct cudnn_desc *d, cudnnBackendAttributeName_t attribute,
                                      const char *name, cudnnBackendAttributeType_t type,
                                      int64_t count, const void *value);

/* Reads at most `max` elements. Sets *count to the number of elements read; if `max` is 0, to the
 * number of elements that exist. If the elements are descriptors, the caller must have created
 * them. */
MUST_CHECK enum status cudnn_desc_get(const struct cudnn_desc *d,
                                      cudnnBackendAttributeName_t attribute, const char *name,
                                      cudnnBackendAttributeType_t type, int64_t max, int64_t *count,
                                      void *value);

MUST_CHECK enum status cudnn_desc_finalize(struct cudnn_desc *d);

/* The functions above as macros that complete the names of constants: DESC_SET(&d,
 * TENSOR_DIMENSIONS, INT64, 4, dim). */
#define DESC_CREATE(d, kind)                                                                       \
    cudnn_desc_create(d, CUDNN_BACKEND_##kind##_DESCRIPTOR, "CUDNN_BACKEND_" #kind "_DESCRIPTOR")
#define DESC_SET(d, attr, type, count, value)                                                      \
    cudnn_desc_set(d, CUDNN_ATTR_##attr, "CUDNN_ATTR_" #attr, CUDNN_TYPE_##type, count, value)
#define DESC_GET(d, attr, type, max, count, value)                                                 \
    cudnn_desc_get(d, CUDNN_ATTR_##attr, "CUDNN_ATTR_" #attr, CUDNN_TYPE_##type, max, count, value)
