/* Builds operation graphs. */
#include "kernels/cuda/cudnn_graph.h"

#include "base/array.h"
#include "kernels/cuda/cudnn_device.h"

#include <stdbool.h>
#include <stdlib.h>

enum {
    DESCRIPTORS_MAX = 96, /* the largest fused form has 61 descriptors */
    TENSORS_MAX = 48,
    OPS_MAX = 16, /* the largest fused form has 14 operations */
    FIRST_VIRTUAL = 1000,
    ALIGNMENT = 16,
};

struct tensor {
    int64_t uid;
    cudnnBackendDescriptor_t raw; /* one of `owned` */
};

struct cudnn_graph {
    enum status st; /* the first failure */
    int n_owned;
    struct cudnn_desc owned[DESCRIPTORS_MAX];
    int n_tensors;
    struct tensor tensor[TENSORS_MAX];
    int n_ops;
    cudnnBackendDescriptor_t op[OPS_MAX];
    struct cudnn_desc graph;
    cudnnHandle_t handle; /* NULL: for a described GPU */
};

enum status cg_open(struct cudnn_graph **g)
{
    return array_new(g, 1);
}

void cg_device(struct cudnn_graph *g, const struct cudnn_device *dev)
{
    g->handle = dev->handle;
}

void cg_close(struct cudnn_graph *g)
{
    if (!g)
        return;
    cudnn_desc_destroy(&g->graph);
    for (int i = g->n_owned; i-- > 0;)
        cudnn_desc_destroy(&g->owned[i]);
    free(g);
}

const struct cudnn_desc *cg_graph(const struct cudnn_graph *g)
{
    return &g->graph;
}

/* ---- descriptors; the graph records the first failure ---- */

/* Returns a new descriptor of the graph; NULL after the graph's first failure. */
static struct cudnn_desc *make(struct cudnn_graph *g, cudnnBackendDescriptorType_t type,
                               const char *kind)
{
    if (g->st == STATUS_OK && g->n_owned == DESCRIPTORS_MAX)
        g->st = status_fail(STATUS_INVALID, "operation graph: too many descriptors");
    if (g->st != STATUS_OK)
        return NULL;
    struct cudnn_desc *d = &g->owned[g->n_owned];
    g->st = cudnn_desc_create(d, type, kind);
    if (g->st != STATUS_OK)
        return NULL;
    g->n_owned++;
    return d;
}

static void set(struct cudnn_graph *g, struct cudnn_desc *d, cudnnBackendAttributeName_t attribute,
                const char *name, cudnnBackendAttributeType_t type, int64_t count,
                const void *value)
{
    if (g->st == STATUS_OK)
        g->st = cudnn_desc_set(d, attribute, name, type, count, value);
}

static void finalize(struct cudnn_graph *g, struct cudnn_desc *d)
{
    if (g->st == STATUS_OK)
        g->st = cudnn_desc_finalize(d);
}

#define MAKE(g, kind)                                                                              \
    make(g, CUDNN_BACKEND_##kind##_DESCRIPTOR, "CUDNN_BACKEND_" #kind "_DESCRIPTOR")
#define SET(g, d, attr, type, count, value)                                                        \
    set(g, d, CUDNN_ATTR_##attr, "CUDNN_ATTR_" #attr, CUDNN_TYPE_##type, count, value)
#define SET_TENSOR(g, d, attr, uid) set_tensor(g, d, CUDNN_ATTR_##attr, "CUDNN_ATTR_" #attr, uid)

static const cudnnDataType_t compute = CUDNN_DATA_FLOAT;

static void set_tensor(struct cudnn_graph *g, struct cudnn_desc *d,
                       cudnnBackendAttributeName_t attribute, const char *name, int uid)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensor[i].uid == uid) {
            set(g, d, attribute, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[i].raw);
            return;
        }
    if (g->st == STATUS_OK)
        g->st = status_fail(STATUS_INVALID, "operation graph: tensor %d of '%s' was not declared",
                            uid, name);
}

static void add_op(struct cudnn_graph *g, struct cudnn_desc *op)
{
    finalize(g, op);
    if (g->st == STATUS_OK && g->n_ops == OPS_MAX)
        g->st = status_fail(STATUS_INVALID, "operation graph: too many operations");
    if (g->st == STATUS_OK)
        g->op[g->n_ops++] = op->raw;
}

/* ---- tensors ---- */

static void add_tensor(struct cudnn_graph *g, int64_t uid, cudnnDataType_t type,
                       const int64_t dim[4], bool is_virtual)
{
    const int64_t c = dim[1], h = dim[2], w = dim[3];
    const int64_t stride[4] = {c * h * w, 1, c * w, c};
    const int64_t align = ALIGNMENT;

    if (g->st == STATUS_OK && g->n_tensors == TENSORS_MAX)
        g->st = status_fail(STATUS_INVALID, "operation graph: too many tensors");
    struct cudnn_desc *d = MAKE(g, TENSOR);
    SET(g, d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    SET(g, d, TENSOR_DIMENSIONS, INT64, 4, dim);
    SET(g, d, TENSOR_STRIDES, INT64, 4, stride);
    SET(g, d, TENSOR_UNIQUE_ID, INT64, 1, &uid);
    SET(g, d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &align);
    SET(g, d, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &is_virtual);
    finalize(g, d);
    if (g->st == STATUS_OK)
        g->tensor[g->n_tensors++] = (struct tensor){uid, d->raw};
}

static cudnnDataType_t data_type(struct cudnn_graph *g, enum dtype type)
{
    switch (type) {
    case DTYPE_F32:
        return CUDNN_DATA_FLOAT;
    case DTYPE_F16:
        return CUDNN_DATA_HALF;
    case DTYPE_BF16:
        return CUDNN_DATA_BFLOAT16;
    default:
        if (g->st == STATUS_OK)
            g->st = status_fail(STATUS_INVALID, "operation graph: a tensor cannot have the type %s",
                                dtype_str(type));
        return CUDNN_DATA_FLOAT;
    }
}

void cg_tensor(struct cudnn_graph *g, enum cg_port port, enum dtype type, const int64_t dim[4])
{
    add_tensor(g, port, data_type(g, type), dim, false);
}

void cg_channels(struct cudnn_graph *g, enum cg_port port, enum dtype type, int64_t c)
{
    add_tensor(g, port, data_type(g, type), (const int64_t[]){1, c, 1, 1}, false);
}

int cg_virtual(struct cudnn_graph *g, enum dtype type, const int64_t dim[4])
{
    int uid = FIRST_VIRTUAL + g->n_tensors;
    add_tensor(g, uid, data_type(g, type), dim, true);
    return uid;
}

/* ---- convolution ---- */

static struct cudnn_desc *convolution(struct cudnn_graph *g, const struct conv_attr *conv)
{
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, dilation[2] = {1, 1};
    const int64_t stride[2] = {conv->stride[0], conv->stride[1]};
    const int64_t pad[2] = {conv->pad[0], conv->pad[1]};
    struct cudnn_desc *d = MAKE(g, CONVOLUTION);
    SET(g, d, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &compute);
    SET(g, d, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    SET(g, d, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &dims);
    SET(g, d, CONVOLUTION_PRE_PADDINGS, INT64, 2, pad);
    SET(g, d, CONVOLUTION_POST_PADDINGS, INT64, 2, pad);
    SET(g, d, CONVOLUTION_DILATIONS, INT64, 2, dilation);
    SET(g, d, CONVOLUTION_FILTER_STRIDES, INT64, 2, stride);
    finalize(g, d);
    return d;
}

/* The three convolution operations differ only in the names of their attributes. `conv` is NULL
 * after the graph's first failure. */
#define ADD_CONV(g, kind, attr, x_name, x, w_name, w, y_name, y, conv)                             \
    do {                                                                                           \
        const float alpha_ = 1.0f, beta_ = 0.0f;                                                   \
        struct cudnn_desc *conv_ = convolution(g, conv);                                           \
        struct cudnn_desc *op_ = MAKE(g, OPERATION_CONVOLUTION_##kind);                            \
        SET_TENSOR(g, op_, OPERATION_CONVOLUTION_##attr##_##x_name, x);                            \
        SET_TENSOR(g, op_, OPERATION_CONVOLUTION_##attr##_##w_name, w);                            \
        SET_TENSOR(g, op_, OPERATION_CONVOLUTION_##attr##_##y_name, y);                            \
        SET(g, op_, OPERATION_CONVOLUTION_##attr##_CONV_DESC, BACKEND_DESCRIPTOR, 1,               \
            conv_ ? &conv_->raw : NULL);                                                           \
        SET(g, op_, OPERATION_CONVOLUTION_##attr##_ALPHA, FLOAT, 1, &alpha_);                      \
        SET(g, op_, OPERATION_CONVOLUTION_##attr##_BETA, FLOAT, 1, &beta_);                        \
        add_op(g, op_);                                                                            \
    } while (0)

void cg_conv_fwd(struct cudnn_graph *g, int x, int w, int y, const struct conv_attr *conv)
{
    ADD_CONV(g, FORWARD, FORWARD, X, x, W, w, Y, y, conv);
}

void cg_conv_bwd_data(struct cudnn_graph *g, int dx, int w, int dy, const struct conv_attr *conv)
{
    ADD_CONV(g, BACKWARD_DATA, BWD_DATA, DX, dx, W, w, DY, dy, conv);
}

void cg_conv_bwd_weights(struct cudnn_graph *g, int x, int dw, int dy, const struct conv_attr *conv)
{
    ADD_CONV(g, BACKWARD_FILTER, BWD_FILTER, X, x, DW, dw, DY, dy, conv);
}

/* ---- pointwise ---- */

static struct cudnn_desc *pointwise(struct cudnn_graph *g, cudnnPointwiseMode_t mode)
{
    struct cudnn_desc *d = MAKE(g, POINTWISE);
    SET(g, d, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
    SET(g, d, POINTWISE_MATH_PREC, DATA_TYPE, 1, &compute);
    finalize(g, d);
    struct cudnn_desc *op = MAKE(g, OPERATION_POINTWISE);
    SET(g, op, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, d ? &d->raw : NULL);
    return op;
}

static void add_pointwise(struct cudnn_graph *g, cudnnPointwiseMode_t mode, int a, int b, int y)
{
    struct cudnn_desc *op = pointwise(g, mode);
    SET_TENSOR(g, op, OPERATION_POINTWISE_XDESC, a);
    if (b != CG_NONE)
        SET_TENSOR(g, op, OPERATION_POINTWISE_BDESC, b);
    SET_TENSOR(g, op, OPERATION_POINTWISE_YDESC, y);
    add_op(g, op);
}

void cg_add(struct cudnn_graph *g, int a, int b, int y)
{
    add_pointwise(g, CUDNN_POINTWISE_ADD, a, b, y);
}

void cg_sub(struct cudnn_graph *g, int a, int b, int y)
{
    add_pointwise(g, CUDNN_POINTWISE_SUB, a, b, y);
}

void cg_mul(struct cudnn_graph *g, int a, int b, int y)
{
    add_pointwise(g, CUDNN_POINTWISE_MUL, a, b, y);
}

void cg_relu(struct cudnn_graph *g, int x, int y)
{
    add_pointwise(g, CUDNN_POINTWISE_RELU_FWD, x, CG_NONE, y);
}

void cg_relu_bwd(struct cudnn_graph *g, int dy, int x, int dx)
{
    struct cudnn_desc *op = pointwise(g, CUDNN_POINTWISE_RELU_BWD);
    SET_TENSOR(g, op, OPERATION_POINTWISE_DYDESC, dy);
    SET_TENSOR(g, op, OPERATION_POINTWISE_XDESC, x);
    SET_TENSOR(g, op, OPERATION_POINTWISE_DXDESC, dx);
    add_op(g, op);
}

/* ---- batch norm ---- */

void cg_gen_stats(struct cudnn_graph *g, int x, int sum, int sqsum)
{
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    struct cudnn_desc *op = MAKE(g, OPERATION_GEN_STATS);
    SET(g, op, OPERATION_GENSTATS_MODE, GENSTATS_MODE, 1, &mode);
    SET(g, op, OPERATION_GENSTATS_MATH_PREC, DATA_TYPE, 1, &compute);
    SET_TENSOR(g, op, OPERATION_GENSTATS_XDESC, x);
    SET_TENSOR(g, op, OPERATION_GENSTATS_SUMDESC, sum);
    SET_TENSOR(g, op, OPERATION_GENSTATS_SQSUMDESC, sqsum);
    add_op(g, op);
}

void cg_bn_bwd_weights(struct cudnn_graph *g, int dy, const struct cg_bn *bn)
{
    struct cudnn_desc *op = MAKE(g, OPERATION_BN_BWD_WEIGHTS);
    SET(g, op, OPERATION_BN_BWD_WEIGHTS_MATH_PREC, DATA_TYPE, 1, &compute);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, bn->mean);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, bn->invstd);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, bn->gamma);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_X_DESC, bn->x);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_DY_DESC, dy);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, bn->dgamma);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, bn->dbeta);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, bn->eq_dy);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, bn->eq_x);
    SET_TENSOR(g, op, OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, bn->eq_bias);
    add_op(g, op);
}

enum status cg_finish(struct cudnn_graph *g)
{
    TRY(g->st);
    TRY(DESC_CREATE(&g->graph, OPERATIONGRAPH));
    if (g->handle)
        TRY(DESC_SET(&g->graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &g->handle));
    TRY(DESC_SET(&g->graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_ops, g->op));
    return cudnn_desc_finalize(&g->graph);
}
