/* Handles all differences between oneDNN 2 and oneDNN 3. */
#include "kernels/cpu/onednn_compat.h"

#include <string.h>

#if DNNL_VERSION_MAJOR >= 3
#define MD(m) ((m)->raw)
#else
#define MD(m) (&(m)->raw)
#endif

/* An absent descriptor is a null pointer in both versions. */
#define MD_OR_NULL(m) ((m) && (m)->present ? MD(m) : NULL)

enum status onednn_status(dnnl_status_t s, const char *call)
{
    switch (s) {
    case dnnl_success:
        return STATUS_OK;
    case dnnl_unimplemented:
        return status_fail(STATUS_UNSUPPORTED, "oneDNN has no implementation of the operation (%s)",
                           call);
    case dnnl_out_of_memory:
        return status_fail(STATUS_OOM, "oneDNN is out of memory (%s)", call);
    default:
        return status_fail(STATUS_LIBRARY, "oneDNN failed with status %d (%s)", (int)s, call);
    }
}

/* The library detects the processor's instruction set. Its constants are bit masks. Set A includes
 * set B if A has all bits of B: AMX, for example, includes avx512_bf16. Version 2 of the library
 * knows no set with fp16. */
bool onednn_has_instructions(enum dtype type)
{
#if DNNL_VERSION_MAJOR >= 3
    const int f16 = dnnl_cpu_isa_avx512_core_fp16;
#else
    const int f16 = 0;
#endif
    const int wanted = type == DTYPE_BF16  ? dnnl_cpu_isa_avx512_core_bf16
                       : type == DTYPE_F16 ? f16
                                           : 0;
    return wanted && ((int)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

/* Adds the name of the failed call to the message. */
#define DNNL_TRY(call) TRY(onednn_status((call), #call))

#if DNNL_VERSION_MAJOR >= 3

enum status md_make(struct md *m, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                    dnnl_format_tag_t tag)
{
    md_free(m);
    DNNL_TRY(dnnl_memory_desc_create_with_tag(&m->raw, ndims, dims, type, tag));
    m->present = true;
    return STATUS_OK;
}

enum status md_copy(struct md *to, const struct md *from)
{
    md_free(to);
    if (!from->present)
        return STATUS_OK;
    DNNL_TRY(dnnl_memory_desc_clone(&to->raw, from->raw));
    to->present = true;
    return STATUS_OK;
}

void md_free(struct md *m)
{
    if (m->present)
        dnnl_memory_desc_destroy(m->raw);
    *m = (struct md){0};
}

int md_dims(const struct md *m, dnnl_dims_t dims)
{
    int n = 0;
    dnnl_dims_t *d = NULL;
    if (dnnl_memory_desc_query(m->raw, dnnl_query_ndims_s32, &n) != dnnl_success ||
        dnnl_memory_desc_query(m->raw, dnnl_query_dims, &d) != dnnl_success)
        return 0;
    memcpy(dims, *d, sizeof *d);
    return n;
}

static dnnl_data_type_t md_type(const struct md *m)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    if (dnnl_memory_desc_query(m->raw, dnnl_query_data_type, &type) != dnnl_success)
        return dnnl_data_type_undef;
    return type;
}

static enum status append_relu(dnnl_post_ops_t ops)
{
    DNNL_TRY(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f));
    return STATUS_OK;
}

/* `hint`: the forward descriptor that belongs to a backward pass; NULL for a forward pass. */
static dnnl_status_t create_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                               const struct gemm_like *g, const_dnnl_primitive_desc_t hint,
                               const_dnnl_primitive_attr_t attr)
{
    const_dnnl_memory_desc_t src = MD(g->src), wei = MD(g->weights), dst = MD(g->dst);
    const_dnnl_memory_desc_t bias = MD_OR_NULL(g->bias);
    static const dnnl_dims_t no_dilation = {0, 0};
    switch (g->pass) {
    case PASS_FORWARD:
        return g->is_conv ? dnnl_convolution_forward_primitive_desc_create(
                                pd, engine, dnnl_forward_training, dnnl_convolution_direct, src,
                                wei, bias, dst, g->stride, no_dilation, g->pad, g->pad, attr)
                          : dnnl_inner_product_forward_primitive_desc_create(
                                pd, engine, dnnl_forward_training, src, wei, bias, dst, attr);
    case PASS_BACKWARD_DATA:
        return g->is_conv ? dnnl_convolution_backward_data_primitive_desc_create(
                                pd, engine, dnnl_convolution_direct, src, wei, dst, g->stride,
                                no_dilation, g->pad, g->pad, hint, attr)
                          : dnnl_inner_product_backward_data_primitive_desc_create(
                                pd, engine, src, wei, dst, hint, attr);
    default:
        return g->is_conv ? dnnl_convolution_backward_weights_primitive_desc_create(
                                pd, engine, dnnl_convolution_direct, src, wei, bias, dst, g->stride,
                                no_dilation, g->pad, g->pad, hint, attr)
                          : dnnl_inner_product_backward_weights_primitive_desc_create(
                                pd, engine, src, wei, bias, dst, hint, attr);
    }
}

#else /* version 2 */

enum status md_make(struct md *m, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                    dnnl_format_tag_t tag)
{
    DNNL_TRY(dnnl_memory_desc_init_by_tag(&m->raw, ndims, dims, type, tag));
    m->present = true;
    return STATUS_OK;
}

enum status md_copy(struct md *to, const struct md *from)
{
    *to = *from;
    return STATUS_OK;
}

void md_free(struct md *m)
{
    *m = (struct md){0};
}

int md_dims(const struct md *m, dnnl_dims_t dims)
{
    memcpy(dims, m->raw.dims, sizeof m->raw.dims);
    return m->raw.ndims;
}

static dnnl_data_type_t md_type(const struct md *m)
{
    return m->raw.data_type;
}

static enum status append_relu(dnnl_post_ops_t ops)
{
    DNNL_TRY(dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f));
    return STATUS_OK;
}

static dnnl_status_t describe_conv(dnnl_convolution_desc_t *d, const struct gemm_like *g)
{
    const dnnl_memory_desc_t *src = MD(g->src), *wei = MD(g->weights), *dst = MD(g->dst);
    const dnnl_memory_desc_t *bias = MD_OR_NULL(g->bias);
    switch (g->pass) {
    case PASS_FORWARD:
        return dnnl_convolution_forward_desc_init(d, dnnl_forward_training, dnnl_convolution_direct,
                                                  src, wei, bias, dst, g->stride, g->pad, g->pad);
    case PASS_BACKWARD_DATA:
        return dnnl_convolution_backward_data_desc_init(d, dnnl_convolution_direct, src, wei, dst,
                                                        g->stride, g->pad, g->pad);
    default:
        return dnnl_convolution_backward_weights_desc_init(d, dnnl_convolution_direct, src, wei,
                                                           bias, dst, g->stride, g->pad, g->pad);
    }
}

static dnnl_status_t describe_linear(dnnl_inner_product_desc_t *d, const struct gemm_like *g)
{
    const dnnl_memory_desc_t *src = MD(g->src), *wei = MD(g->weights), *dst = MD(g->dst);
    const dnnl_memory_desc_t *bias = MD_OR_NULL(g->bias);
    switch (g->pass) {
    case PASS_FORWARD:
        return dnnl_inner_product_forward_desc_init(d, dnnl_forward_training, src, wei, bias, dst);
    case PASS_BACKWARD_DATA:
        return dnnl_inner_product_backward_data_desc_init(d, src, wei, dst);
    default:
        return dnnl_inner_product_backward_weights_desc_init(d, src, wei, bias, dst);
    }
}

/* `hint`: the forward descriptor that belongs to a backward pass; NULL for a forward pass. */
static dnnl_status_t create_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                               const struct gemm_like *g, const_dnnl_primitive_desc_t hint,
                               const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t conv;
    dnnl_inner_product_desc_t linear;
    dnnl_status_t s = g->is_conv ? describe_conv(&conv, g) : describe_linear(&linear, g);
    if (s != dnnl_success)
        return s;
    const_dnnl_op_desc_t op = g->is_conv ? (const void *)&conv : (const void *)&linear;
    return dnnl_primitive_desc_create(pd, op, attr, engine, hint);
}

#endif

bool md_equal(const struct md *a, const struct md *b)
{
    return a->present == b->present && (!a->present || dnnl_memory_desc_equal(MD(a), MD(b)));
}

size_t md_bytes(const struct md *m)
{
    return m->present ? dnnl_memory_desc_get_size(MD(m)) : 0;
}

enum status md_query(struct md *m, const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
#if DNNL_VERSION_MAJOR >= 3
    struct md found = {.raw = (dnnl_memory_desc_t)dnnl_primitive_desc_query_md(pd, what, 0),
                       .present = true};
    if (!found.raw)
        return status_fail(STATUS_LIBRARY, "oneDNN does not report the layout that it chose");
#else
    const dnnl_memory_desc_t *raw = dnnl_primitive_desc_query_md(pd, what, 0);
    if (!raw)
        return status_fail(STATUS_LIBRARY, "oneDNN does not report the layout that it chose");
    struct md found = {.raw = *raw, .present = true};
#endif
    return md_copy(m, &found);
}

enum status memory_make(dnnl_memory_t *mem, const struct md *m, dnnl_engine_t engine)
{
    DNNL_TRY(dnnl_memory_create(mem, MD(m), engine, DNNL_MEMORY_NONE));
    return STATUS_OK;
}

static enum status fill_attr(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops, bool relu)
{
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (relu)
        TRY(append_relu(ops));
    DNNL_TRY(dnnl_primitive_attr_set_post_ops(attr, ops));
    return STATUS_OK;
}

static enum status make_attr(dnnl_primitive_attr_t *attr, bool relu)
{
    enum status st;
    dnnl_post_ops_t ops = NULL;
    *attr = NULL;
    CHECK(onednn_status(dnnl_primitive_attr_create(attr), "dnnl_primitive_attr_create"));
    CHECK(onednn_status(dnnl_post_ops_create(&ops), "dnnl_post_ops_create"));
    CHECK(fill_attr(*attr, ops, relu));
done:
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (st != STATUS_OK && *attr) {
        dnnl_primitive_attr_destroy(*attr);
        *attr = NULL;
    }
    return st;
}

/* Makes the forward descriptor that a backward pass needs. Its weights have the type of the
 * activations, even if the gradients of the weights have a wider type. */
static enum status make_hint(dnnl_primitive_desc_t *hint, dnnl_engine_t engine,
                             const struct gemm_like *g)
{
    enum status st;
    struct gemm_like forward = *g;
    struct md weights = {0};
    dnnl_dims_t dims;
    forward.pass = PASS_FORWARD;
    if (md_type(g->weights) != md_type(g->src)) {
        int n = md_dims(g->weights, dims);
        CHECK(md_make(&weights, n, dims, md_type(g->src), dnnl_format_tag_any));
        forward.weights = &weights;
    }
    CHECK(onednn_status(create_pd(hint, engine, &forward, NULL, NULL), "forward hint"));
done:
    md_free(&weights);
    return st;
}

enum status pd_make(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const struct gemm_like *g)
{
    enum status st;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL;
    CHECK(make_attr(&attr, g->relu && g->pass == PASS_FORWARD));
    if (g->pass != PASS_FORWARD)
        CHECK(make_hint(&hint, engine, g));
    CHECK(onednn_status(create_pd(pd, engine, g, hint, attr), "primitive descriptor"));
done:
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

enum status pd_make_reorder(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const struct md *from,
                            const struct md *to)
{
    enum status st;
    dnnl_primitive_attr_t attr = NULL;
    CHECK(make_attr(&attr, false));
    CHECK(onednn_status(
        dnnl_reorder_primitive_desc_create(pd, MD(from), engine, MD(to), engine, attr), "reorder"));
done:
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return st;
}
