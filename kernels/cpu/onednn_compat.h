/* One interface for oneDNN 2 and oneDNN 3.
 *
 * In version 2 a memory descriptor is a value, and a primitive descriptor is made from an operation
 * descriptor. In version 3 a memory descriptor is a pointer, and one call makes a primitive
 * descriptor. Code that uses this file needs no distinction between the versions. */
#pragma once

#include "base/status.h"
#include "kernels/tensor.h"

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* A memory descriptor, which md_free frees. A zeroed struct means that there is no descriptor. */
struct md {
    dnnl_memory_desc_t raw;
    bool present;
};

/* The descriptors of a convolution or inner product; the bias may be absent. In a backward pass,
 * `dst` describes the gradient of the result, and the members that the pass computes describe
 * gradients too. */
enum pass { PASS_FORWARD, PASS_BACKWARD_DATA, PASS_BACKWARD_WEIGHTS };

struct gemm_like {
    enum pass pass;
    const struct md *src, *weights, *bias, *dst;
    bool relu;          /* forward only */
    bool is_conv;       /* else inner product */
    dnnl_dims_t stride; /* conv: h, w */
    dnnl_dims_t pad;
};

/* Converts a oneDNN status to enum status; STATUS_UNSUPPORTED if the library has no implementation
 * of the operation. */
MUST_CHECK enum status onednn_status(dnnl_status_t s, const char *call);

/* Whether the processor has instructions that multiply values of this type, and the library may use
 * the instructions (ONEDNN_MAX_CPU_ISA). If not, the library may emulate the type, which is slower
 * than fp32. */
bool onednn_has_instructions(enum dtype type);

MUST_CHECK enum status md_make(struct md *m, int ndims, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag);
MUST_CHECK enum status md_copy(struct md *to, const struct md *from);
void md_free(struct md *m);
bool md_equal(const struct md *a, const struct md *b);
size_t md_bytes(const struct md *m);
int md_dims(const struct md *m, dnnl_dims_t dims); /* returns the number of dimensions */

/* The descriptor that a primitive descriptor chose for `what` (dnnl_query_src_md ...). */
MUST_CHECK enum status md_query(struct md *m, const_dnnl_primitive_desc_t pd, dnnl_query_t what);

MUST_CHECK enum status memory_make(dnnl_memory_t *mem, const struct md *m, dnnl_engine_t engine);

/* Makes the primitive descriptor; the caller provides the scratchpad. */
MUST_CHECK enum status pd_make(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                               const struct gemm_like *g);
MUST_CHECK enum status pd_make_reorder(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                       const struct md *from, const struct md *to);
